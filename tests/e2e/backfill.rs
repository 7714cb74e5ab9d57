//! `floodmark backfill`: files and ranges of topics, beside the engine that runs.

use super::bed::{Bed, PATIENCE};
use super::records::{Numbers, T0, error};
use floodmark_kafka::{Admin, KafkaSettings, Outgoing, Producer};
use floodmark_model::RecordTime;
use floodmark_testkit::services::observed;
use floodmark_testkit::wait::{wait_until, wait_until_equal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

mod inputs;

const DAY: i64 = 86_400_000;
/// What keeps the live watermark far behind the records of files: these are late.
const NOW: i64 = T0 + 3_000 * DAY;

impl Bed {
    fn backfill(&self, arguments: &[&str]) -> Value {
        let output = self.installation.output("backfill", [&["--json"], arguments].concat());
        assert_eq!(output.exit_code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// What a backfill says on standard output and error that ends with this exit code.
    fn refused(&self, arguments: &[&str], exit_code: i32) -> String {
        let output = self.installation.output("backfill", arguments.iter().copied());
        let said = format!("{}\n{}", output.stdout, output.stderr);
        assert_eq!(output.exit_code, Some(exit_code), "{said}");
        said
    }

    fn write(&self, name: &str, lines: &[String]) -> PathBuf {
        let path = self.installation.folder().join(name);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        path
    }

    /// One live record long after those of files.
    fn produce_now(&self, bug: u64) {
        self.topic.produce([(0, RecordTime(NOW), error("live", bug, NOW))]);
    }

    fn rows(&self) -> u64 {
        self.clickhouse.number("SELECT count() FROM occurrences FINAL WHERE tenant != 'live'")
    }

    fn dead_letters(&self) -> u64 {
        self.clickhouse.number("SELECT count() FROM dead_letters FINAL")
    }

    /// Rows of the table of occurrences without what differs by the way they came.
    fn content(&self) -> String {
        self.clickhouse.query(
            "SELECT tenant, fingerprint, ts, level, message, exception_type, service, source, host, event_id, \
             ts_missing, ts_clamped, ts_original, identity, record_time, raw FROM occurrences FINAL \
             WHERE tenant != 'live' ORDER BY identity FORMAT JSONCompactEachRow",
        )
    }

    fn totals_of(&self, arguments: &[&str]) -> Value {
        let output = self.installation.output("totals", [&["--json", "--tenant", "acme"], arguments].concat());
        assert_eq!(output.exit_code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }
}

/// Twelve errors of one bug and five of another in one window, without and with an id of their own.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> = (0..12).map(|n| error("acme", 1, T0 + n * 1_000)).collect();
    lines.extend((0..5).map(|n| error("acme", 2, T0 + n).replacen('{', &format!("{{\"event_id\":\"e{n}\","), 1)));
    // Its time is that of the record: the moment at which the file was first read.
    lines.push(r#"{"tenant":"acme","message":"no time"}"#.into());
    lines
}

fn compressed(path: &Path, program: &str, name: &str) -> PathBuf {
    let plain = fs::read(path).unwrap();
    let bytes = match program {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&plain).unwrap();
            encoder.finish().unwrap()
        }
        _ => zstd::encode_all(&*plain, 1).unwrap(),
    };
    let path = path.with_file_name(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_file_backfilled_again_plain_or_compressed_changes_nothing() {
    let bed = Bed::new("backfill_files", 2, "");
    bed.produce_now(1);
    let _engine = bed.start_ready(2);
    bed.wait_until_durable(1);
    let mut written = lines();
    written.insert(3, r#"{"tenant":"acme","message":"cut"#.to_owned());
    written.insert(7, format!(r#"{{"tenant":"acme","message":"{}"}}"#, "x".repeat(2 << 20)));
    let plain = bed.write("old.ndjson", &written);

    let report = bed.backfill(&[plain.to_str().unwrap()]);
    assert_eq!(report["records"], json!(20));
    assert_eq!(report["dead_letters"], json!({"malformed_json": 1, "too_large": 1}));
    let places: Vec<_> = report["poison"].as_array().unwrap().iter().map(|line| line["place"].clone()).collect();
    assert_eq!(places, [json!(format!("{}:4", plain.display())), json!(format!("{}:8", plain.display()))]);
    assert_eq!((bed.rows(), bed.dead_letters()), (18, 2));
    let (content, totals) = (bed.content(), bed.totals_of(&[]));

    for (program, name) in [("", ""), ("gzip", "old.ndjson.gz"), ("zstd", "old.ndjson.zst")] {
        let path = if name.is_empty() { plain.clone() } else { compressed(&plain, program, name) };
        let report = bed.backfill(&[path.to_str().unwrap()]);
        assert_eq!(report["records"], json!(20), "all of it is produced again");
        let incidents = &report["incidents"];
        assert_eq!(
            (&incidents["new"], &incidents["raised"], &incidents["withdrawn"]),
            (&json!(0), &json!(0), &json!(0))
        );
        assert_eq!(bed.content(), content, "{name}");
        assert_eq!((bed.totals_of(&[]), bed.dead_letters()), (totals.clone(), 2), "{name}");
    }

    // What an embedded run stores, but for the moment of the first reading.
    let embedded =
        bed.installation.output("run", ["--embedded", "--store", "e.sqlite", "--input", plain.to_str().unwrap()]);
    assert_eq!(embedded.exit_code, Some(0), "{}", embedded.stderr);
    let before = |rows: Value| -> Vec<Value> {
        let is_of_file = |row: &Value| row["window_start"].as_i64().unwrap() < NOW;
        rows.as_array().unwrap().iter().filter(|row| is_of_file(row)).cloned().collect()
    };
    assert_eq!(before(bed.totals_of(&["--embedded", "--store", "e.sqlite"])), before(totals));
}

#[test]
fn a_text_log_backfilled_is_what_an_embedded_run_reads() {
    let bed = Bed::new("backfill_log", 1, "");
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/model/testdata/kafka-outage-excerpt.log");
    bed.produce_now(1);
    let _engine = bed.start_ready(2);
    let report = bed.backfill(&["--format", "log4j", "--tz", "Europe/Berlin", log]);
    assert_eq!(report["dead_letters"], json!({}));
    let embedded = ["--embedded", "--store", "e.sqlite", "--format", "log4j", "--tz", "Europe/Berlin", "--input", log];
    assert_eq!(bed.installation.output("run", embedded).exit_code, Some(0));
    let totals = |arguments: &[&str]| {
        let output = bed.installation.output("totals", [&["--json", "--tenant", "default"], arguments].concat());
        serde_json::from_str::<Value>(&output.stdout).unwrap()
    };
    let found = totals(&[]);
    assert!(!found.as_array().unwrap().is_empty());
    assert_eq!(found, totals(&["--embedded", "--store", "e.sqlite"]));
    let raw = "SELECT countIf(match(raw, '^\\\\[2016-')) = count() AND count() > 0 FROM occurrences FINAL \
               WHERE tenant = 'default'";
    assert_eq!(bed.clickhouse.number(raw), 1, "the raw row is the line as it stands in the file");
}

#[test]
fn without_live_records_the_watermark_stands_and_incidents_are_judged_at_once() {
    let bed = Bed::new("backfill_alone", 1, "");
    let engine = bed.start_ready(2);
    let file = bed.write("old.ndjson", &lines());
    let report = bed.backfill(&[file.to_str().unwrap()]);
    assert_eq!(report["incidents"], json!({"new": 1, "raised": 0, "unchanged": 0, "withdrawn": 0}));
    let verdict = &report["verdicts"][0];
    assert_eq!((&verdict["change"], &verdict["window_start"]), (&json!("new"), &json!(T0)));
    assert_eq!((&report["open"], &verdict["open"]), (&json!(1), &json!(true)), "what was counted so far is no total");
    assert_eq!(engine.metric("floodmark_watermark_timestamp_seconds", ""), Some(0.0), "nothing is known of it");
    assert_eq!(bed.backfill(&[file.to_str().unwrap()])["incidents"]["new"], json!(0));
    assert_eq!(bed.postgres.number("SELECT count(*) FROM incidents WHERE status = 'open'"), 1, "no window closes");
    // Its progress says nothing of the watermark after a start either.
    assert_eq!(engine.stop(), Some(0));
    let engine = bed.start_ready(1);
    assert_eq!(engine.metric("floodmark_watermark_timestamp_seconds", ""), Some(0.0));
    let retried = || observed::progress(&bed.postgres).iter().map(|row| row.retried).sum::<i64>();
    let (before, count) = (retried(), 18);
    bed.backfill(&[file.to_str().unwrap()]);
    assert_eq!(retried() - before, count, "a start knows by identity what was backfilled before it");
    assert_eq!(bed.postgres.number("SELECT max(count) FROM incidents"), 10);
}

#[test]
fn i1_records_of_the_live_topic_backfilled_again_change_nothing() {
    let bed = Bed::new("backfill_live", 2, "");
    let record = |n: i64| {
        // Every fourth is one of four events, tried again.
        let (ts, id) = if n % 4 == 0 { (n % 16, format!("\"event_id\":\"e{}\",", n % 16)) } else { (n, String::new()) };
        let event = error("acme", 1, T0 + ts).replacen('{', &format!("{{{id}"), 1);
        ((n % 2) as i32, RecordTime(T0 + n), event)
    };
    bed.topic.produce((0..40).map(record));
    let engine = bed.start_ready(2);
    bed.wait_until_durable(40);
    let (content, rows) = (bed.content(), bed.rows());
    let topic = ["--topic", bed.topic.name()];
    // While memory holds the window, and when it is closed and gone.
    for is_late in [false, true] {
        if is_late {
            bed.topic.produce((0..2).map(|partition| (partition, RecordTime(NOW), error("live", 9, NOW))));
            wait_until("the window to close", PATIENCE, || {
                bed.postgres.number("SELECT count(*) FROM incidents WHERE status = 'closed'") == 1
            });
        }
        let report = bed.backfill(&topic);
        assert_eq!(report["records"], json!(if is_late { 42 } else { 40 }));
        assert_eq!(report["incidents"], json!({"new": 0, "raised": 0, "unchanged": 1, "withdrawn": 0}));
        assert_eq!((bed.content(), bed.rows()), (content.clone(), rows), "late: {is_late}");
        let places = "SELECT uniqExact(topic_id) FROM occurrences FINAL WHERE tenant != 'live'";
        assert_eq!(bed.clickhouse.number(places), 1, "the rows that were stored first stay");
    }
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn a_range_of_another_topic_lands_and_no_more() {
    let bed = Bed::new("backfill_range", 1, "");
    let other = floodmark_testkit::services::kafka::Topic::create("backfill_other", 2);
    let at = |n: i64| T0 + n * 60_000;
    other.produce((0..40).map(|n| ((n % 2) as i32, RecordTime(at(n)), error("acme", 1, at(n)))));
    bed.produce_now(1);
    let _engine = bed.start_ready(1);
    let report = bed.backfill(&["--topic", other.name(), "--from", "5", "--to", "8"]);
    assert_eq!((&report["records"], bed.rows()), (&json!(6), 6), "offsets 5 to 7 of each partition");
    let (from, to) = ("2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z");
    let report = bed.backfill(&["--topic", other.name(), "--from", from, "--to", to]);
    assert_eq!(report["records"], json!(10));
    assert_eq!(bed.rows(), 10, "of which six were there");
    assert_eq!(
        bed.backfill(&["--topic", other.name(), "--from", "1960-01-01T00:00:00Z", "--to", "1"])["records"],
        json!(2)
    );
    for (range, part) in [
        (["--from", "100", "--to", "200"], "beyond the end"),
        (["--from", "1796138400000", "--to", "1796138400001"], "write it as 2026-12-01T15:20:00.000Z"),
        (["--from", "8", "--to", "5"], "not before --to"),
        (["--from", "2036-01-01T00:00:00Z", "--to", "2037-01-01T00:00:00Z"], "no record lies between"),
    ] {
        let said = bed.refused(&[&["--topic", other.name()] as &[&str], &range].concat(), 2);
        let holds = "0 to 19 in partition 1, of 2026-01-01T00:00:00Z to 2026-01-01T00:39:00Z";
        assert!(said.contains(part) && said.contains(holds), "{said}");
    }
    other.delete_records(0, 3);
    let gone = bed.installation.output("backfill", ["--topic", other.name(), "--from", "1"]);
    assert_eq!(gone.exit_code, Some(4), "{}", gone.stderr);
    assert!(gone.stderr.contains("offset 3") && gone.stderr.contains("--from 1"), "{}", gone.stderr);
}

#[test]
fn a_backfill_that_was_killed_goes_on_where_it_was() {
    const RECORDS: i64 = 200_000;
    let bed = Bed::new("backfill_kill", 2, "");
    let lines: Vec<String> = (0..RECORDS).map(|n| error("acme", (n % 1_000) as u64, T0 + n * 10)).collect();
    let file = bed.write("large.ndjson", &lines);
    let arguments = ["--no-wait", "--json", file.to_str().unwrap()];
    let mut child = bed.installation.command("backfill", arguments).spawn().unwrap();
    wait_until("a part to be produced", PATIENCE, || {
        let noted = bed.postgres.try_query("SELECT 1 FROM backfill_inputs WHERE next_offset > 0");
        noted.is_ok_and(|rows| !rows.is_empty())
    });
    child.kill().unwrap();
    child.wait().unwrap();

    let report = bed.backfill(&arguments[..1].iter().chain(&arguments[2..]).copied().collect::<Vec<_>>());
    assert_eq!(report["resumed"].as_array().unwrap().len(), 1, "{report}");
    assert!(report["records"].as_i64().unwrap() < RECORDS, "what is there is not produced again");
    // What is sent without a verdict to come is finished: from now on it is another backfill. Its wait is cut off.
    let said = bed.refused(&[&["--wait-timeout", "1ms"], &arguments[2..]].concat(), 3);
    assert!(said.contains("none has ever run") && said.contains("not counted yet"), "{said}");
    bed.produce_now(1);
    let _engine = bed.start_ready(2);
    // All of it was produced, and it is only waited for, which is said.
    let report = bed.backfill(&arguments[2..]);
    assert_eq!(report["records"], json!(0));
    assert!(report["resumed"][0].as_str().unwrap().contains("has sent all of it"), "{report}");
    assert_eq!(bed.rows(), RECORDS as u64);
    // With the verdict it is finished: from now on it is another backfill.
    assert_eq!(bed.backfill(&arguments[2..])["records"], json!(RECORDS));
    assert_eq!(bed.rows(), RECORDS as u64);
}

#[test]
fn a_backfill_beside_live_records_leaves_both_whole() {
    const LIVE: i64 = 100_000;
    const OLD: i64 = 100_000;
    let bed = Bed::new("backfill_beside", 2, "");
    let engine = bed.start_ready(2);
    let mut numbers = Numbers(7);
    let old: Vec<String> =
        (0..OLD).map(|n| error("acme", n as u64 % 50, T0 + numbers.below(3_600_000) as i64)).collect();
    let file = bed.write("old.ndjson", &old);
    let live = |n: i64| ((n % 2) as i32, RecordTime(NOW + n), error("live", n as u64 % 50, NOW + n));
    bed.topic.produce((0..LIVE / 2).map(live));
    std::thread::scope(|scope| {
        let backfill = scope.spawn(|| bed.backfill(&[file.to_str().unwrap()]));
        for slice in 5..10 {
            bed.topic.produce((slice * LIVE / 10..(slice + 1) * LIVE / 10).map(live));
        }
        assert_eq!(backfill.join().unwrap()["records"], json!(OLD));
    });
    bed.wait_until_durable(LIVE + OLD);
    assert_eq!(bed.rows(), OLD as u64);
    assert_eq!(bed.clickhouse.number("SELECT count() FROM occurrences FINAL WHERE tenant = 'live'"), LIVE as u64);
    // All live ones lie in one window, of which each bug has an incident; none of them was late.
    let incidents = || bed.postgres.number("SELECT count(*) FROM incidents WHERE tenant = 'live'");
    wait_until_equal(
        "live incidents",
        PATIENCE,
        incidents,
        |found| {
            if *found == 50 { Ok(()) } else { Err(found.to_string()) }
        },
    );
    let late = engine.metric("floodmark_occurrences_late_total", "").unwrap();
    assert!(late <= OLD as f64, "{late} late: no live one may be");
    let tallies = observed::progress(&bed.postgres);
    assert!(tallies.iter().all(|row| row.read() == row.next_offset), "every record has one outcome: {tallies:?}");
}

#[test]
fn two_thousand_days_shuffled_stay_under_the_limits_of_the_store() {
    const DAYS: i64 = 2_000;
    const ROWS: i64 = 10_000;
    let bed = Bed::new("backfill_years", 2, "");
    bed.produce_now(1);
    let _engine = bed.start_ready(2);
    let mut numbers = Numbers(42);
    let mut order: Vec<i64> = (0..ROWS).collect();
    for n in (1..order.len()).rev() {
        order.swap(n, numbers.below(n as u64 + 1) as usize);
    }
    let lines: Vec<String> = order.iter().map(|n| error("acme", *n as u64 % 7, T0 - (n % DAYS) * DAY)).collect();
    let file = bed.write("years.ndjson", &lines);
    let report = bed.backfill(&[file.to_str().unwrap()]);
    assert_eq!((&report["records"], bed.rows()), (&json!(ROWS), ROWS as u64));
    assert_eq!(bed.clickhouse.number("SELECT uniqExact(toDate32(ts)) FROM occurrences WHERE tenant = 'acme'"), 2_000);
    let parts = bed.clickhouse.number(
        "SELECT count() FROM system.parts WHERE active AND table = 'occurrences' AND database = currentDatabase()",
    );
    println!("{parts} parts for {ROWS} rows of {DAYS} days in {} s", report["seconds"]);
    // Each of two workers gathers what comes within seconds: few parts a day, and not one for each row.
    assert!(parts <= 4 * DAYS as u64, "{parts}");
}

#[test]
fn g2_a_header_that_cannot_be_read_is_a_dead_letter_with_its_reason() {
    let bed = Bed::new("backfill_header", 1, "");
    let settings = KafkaSettings::new(bed.topic.brokers(), "test", BTreeMap::new()).unwrap();
    let name = bed.backfill_topic();
    Admin::new(&settings).unwrap().create_topic(name, 1, &[]).unwrap();
    let record = |headers: Vec<(&'static str, &'static str)>| Outgoing {
        headers: headers.into_iter().map(|(name, value)| (name, value.as_bytes().into())).collect(),
        ..Outgoing::new(error("acme", 1, T0).into_bytes())
    };
    let records = [
        record(vec![("floodmark-origin", "not one")]),
        record(vec![("floodmark-zone", "Atlantis")]),
        record(vec![("floodmark-format", "xml")]),
        record(vec![("floodmark-origin", "00000000-0000-0000-0000-000000000001/0/5")]),
        record(vec![]),
    ];
    Producer::new(&settings).unwrap().send_all(name, records).unwrap();
    let _engine = bed.start_ready(1);
    bed.wait_until_durable(5);
    assert_eq!(bed.rows(), 1, "one without an origin stands for itself");
    let reasons = "SELECT countIf(reason = 'bad_header') * 10 + countIf(reason = 'time_out_of_range') \
                   FROM dead_letters FINAL";
    assert_eq!(bed.clickhouse.number(reasons), 31, "an origin without its time has none");
}

#[test]
fn a_backfill_topic_created_anew_is_noticed_and_what_was_lost_is_named() {
    let bed = Bed::new("backfill_anew", 1, "");
    let mut engine = bed.start_ready(1);
    let file = bed.write("one.ndjson", &lines()[..5]);
    bed.backfill(&[file.to_str().unwrap()]);
    let settings = KafkaSettings::new(bed.topic.brokers(), "test", BTreeMap::new()).unwrap();
    Admin::new(&settings).unwrap().delete_topic(bed.backfill_topic()).unwrap();
    wait_until("the deletion to be noticed", PATIENCE, || engine.log().contains("was deleted"));
    engine.wait_until_ready();
    let other = bed.write("two.ndjson", &lines()[5..10]);
    let report = bed.backfill(&[other.to_str().unwrap()]);
    assert_eq!((&report["records"], bed.rows()), (&json!(5), 10));
    assert!(engine.log().contains("created anew"), "{}", engine.log());
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let bed = Bed::new("backfill_usage", 1, "");
    for (arguments, part) in [
        (&["none/*.log"] as &[&str], "none/*.log"),
        (&["--topic", "x", "--from", "yesterday"], "--from yesterday"),
        (&["--topic", bed.backfill_topic()], "original"),
        (&["--topic", "there-is-no-such-topic"], "does not exist"),
        (&["-"], "standard input cannot be read again"),
    ] {
        let output = bed.installation.output("backfill", arguments.iter().copied());
        assert_eq!(output.exit_code, Some(2), "{output:?}");
        assert!(output.stderr.contains(part), "{}", output.stderr);
    }
}

#[test]
fn embedded_more_files_are_late_input_of_the_same_store() {
    let bed = Bed::new("backfill_embedded", 1, "");
    let new = bed.write("new.ndjson", &[error("acme", 1, NOW)]);
    let old = bed.write("old.ndjson", &lines());
    let store = ["--embedded", "--store", "e.sqlite"];
    let run = [&store as &[&str], &["--input", new.to_str().unwrap()]].concat();
    assert_eq!(bed.installation.output("run", run).exit_code, Some(0));
    let gzip = compressed(&old, "gzip", "old.ndjson.gz");
    let backfill = [&store as &[&str], &[gzip.to_str().unwrap()]].concat();
    let report = bed.backfill(&backfill);
    assert_eq!(report["records"], json!(18));
    let found = bed.totals_of(&store);
    let of_window = |row: &&Value| row["window_start"] == json!(T0);
    let totals: Vec<_> = found.as_array().unwrap().iter().filter(of_window).map(|row| row["total"].clone()).collect();
    assert_eq!(totals.len(), 2, "{found}");
    let report = bed.backfill(&backfill);
    assert_eq!(report["records"], json!(0), "it is known");
    assert_eq!(
        report["incidents"],
        json!({"new": 0, "raised": 0, "unchanged": 0, "withdrawn": 0}),
        "nothing is touched"
    );
    assert_eq!(bed.totals_of(&store), found);
}
