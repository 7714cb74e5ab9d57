//! `floodmark explain` and `floodmark reconcile` on real stores: what they say of a run that went well, and of one whose
//! stores somebody has changed.

use super::bed::{Bed, PATIENCE};
use super::records::{Produced, T0, error};
use floodmark_model::RecordTime;
use floodmark_testkit::services::engine::{Installation, Output};
use floodmark_testkit::wait::{wait_until, wait_until_equal};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const MINUTE: i64 = 60_000;
const WINDOW: i64 = 5 * MINUTE;

/// The default rule, and one that counts nothing of what there is.
const RULES: &str = "[[rules]]\nname = \"default\"\n[[rules]]\nname = \"fatal\"\nlevel = \"fatal\"\n";

/// The fingerprint that [`error`] gives a bug.
fn fingerprint(bug: u64) -> String {
    format!("{:032x}", u128::from(bug.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(bug))
}

/// Bug 1 has incidents in two adjacent windows, bug 2 one later, bug 3 none, bug 4 one with a tail in the window after it,
/// and bug 5, whose records have a client's id, none. One record cannot be read, none is a retry, two are of no rule.
fn flood() -> Vec<Produced> {
    let mut payloads: Vec<(i64, String)> = Vec::new();
    let mut put = |bug: u64, start: i64, count: i64| {
        payloads.extend((0..count).map(|n| (start + n, error("acme", bug, start + n))));
    };
    put(1, T0, 12);
    put(1, T0 + WINDOW, 15);
    put(2, T0 + 3 * WINDOW, 10);
    put(3, T0 + 2 * WINDOW, 4);
    put(4, T0 + WINDOW - 20, 13);
    put(4, T0 + WINDOW, 2);
    put(5, T0 + 6 * WINDOW, 8);
    put(9, T0 + 12 * WINDOW, 1);
    let with_id = |(n, (_, payload)): (usize, &mut (i64, String))| {
        *payload = payload.replacen('{', &format!("{{\"event_id\":\"{n}\","), 1);
    };
    payloads.iter_mut().filter(|(ts, _)| (T0 + 6 * WINDOW..T0 + 7 * WINDOW).contains(ts)).enumerate().for_each(with_id);
    payloads.insert(5, (T0, "{\"tenant\":\"acme\",".into()));
    payloads.insert(6, (T0, error("acme", 1, T0).replace("\"error\"", "\"info\"")));
    payloads.insert(7, (T0, error("acme", 1, T0).replace("\"error\"", "\"debug\"")));
    let record = |(time, payload)| Produced { partition: 0, record_time: RecordTime(time), payload };
    payloads.into_iter().map(record).collect()
}

/// Runs the flood to its end, and waits until all but the last window are closed.
fn run_to_the_end(bed: &Bed) {
    let flood = flood();
    bed.produce(&flood);
    let engine = bed.start_ready(2);
    bed.wait_until_durable(flood.len() as i64);
    wait_until_equal(
        "all windows but the last to be closed",
        PATIENCE,
        || {
            let closed = (T0 + 10 * WINDOW) / 1_000;
            bed.postgres
                .number(format!("SELECT count(*) FROM pipeline WHERE closed_watermark >= to_timestamp({closed})"))
        },
        |closed| if *closed == 1 { Ok(()) } else { Err("not yet".to_owned()) },
    );
    assert_eq!(engine.stop(), Some(0));
    assert_eq!(bed.postgres.number("SELECT count(*) FROM incidents WHERE status = 'closed'"), 4);
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The kinds of differences that a comparison names.
fn kinds(bed: &Bed) -> BTreeSet<String> {
    let since = T0.to_string();
    let output = bed.installation.output("reconcile", ["--json", "--since", &since]);
    let report = json(&output);
    let differences = report["differences"].as_array().unwrap();
    assert_eq!(output.exit_code, Some(i32::from(!differences.is_empty())), "{output:?}");
    for difference in differences {
        assert!(difference["place"].is_object(), "{difference}");
        assert_ne!(difference["expected"], difference["found"], "{difference}");
    }
    differences.iter().map(|difference| difference["kind"].as_str().unwrap().to_owned()).collect()
}

fn set(kinds: &[&str]) -> BTreeSet<String> {
    kinds.iter().map(|kind| (*kind).to_owned()).collect()
}

#[test]
fn reconcile_names_whatever_somebody_has_changed() {
    let bed = Bed::new("reconcile", 1, RULES);
    run_to_the_end(&bed);
    let since = T0.to_string();
    let output = bed.installation.output("reconcile", ["--since", &since]);
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    assert!(output.stdout.contains("no difference") && output.stdout.contains("4 incidents"), "{}", output.stdout);

    bed.postgres.execute("CREATE TABLE was AS TABLE incidents; CREATE TABLE progress_was AS TABLE progress");
    let (one, two) = (fingerprint(1), fingerprint(2));
    let second = format!("fingerprint = '{one}' AND window_start = to_timestamp({})", (T0 + WINDOW) / 1_000);
    let another = |columns: &str| {
        let all = "id, tenant, rule, fingerprint, window_start, window_end, detection, status, count, total, opened_at, \
                   closed_at, episode_id, superseded_by";
        format!(
            "INSERT INTO incidents ({all}) SELECT {columns} FROM incidents WHERE fingerprint = '{}'",
            fingerprint(4)
        )
    };
    let next = "md5('next'), tenant, rule, fingerprint, window_start + interval '5 min', window_end + interval '5 min', \
                detection";
    let rest = "count, total, opened_at, closed_at, md5('next')";
    for (change, expected) in [
        (format!("DELETE FROM incidents WHERE fingerprint = '{two}'"), set(&["incident_missing"])),
        (format!("UPDATE incidents SET status = 'withdrawn' WHERE fingerprint = '{two}'"), set(&["incident_missing"])),
        (another(&format!("{next}, 'closed', {rest}, NULL")), set(&["incident_extra"])),
        (another(&format!("{next}, 'superseded', {rest}, md5('other')")), set(&["incident_superseded_by"])),
        (another(&format!("{next}, 'superseded', {rest}, id")), set(&[])),
        (
            another(
                "md5('bogus'), 'nobody', rule, fingerprint, window_start, window_end, detection, 'closed', 10, 10, \
                 opened_at, closed_at, md5('bogus'), NULL",
            ),
            set(&["incident_extra"]),
        ),
        (format!("UPDATE incidents SET total = total + 1 WHERE {second}"), set(&["incident_total"])),
        (
            format!("UPDATE incidents SET status = 'open', total = NULL, closed_at = NULL WHERE {second}"),
            set(&["incident_not_closed"]),
        ),
        (format!("UPDATE incidents SET episode_id = id WHERE {second}"), set(&["incident_episode"])),
        ("UPDATE progress SET retried = retried + 1".into(), set(&["tallies_exceed_offsets"])),
        ("UPDATE progress SET unmatched = unmatched - 1".into(), set(&["offsets_untallied"])),
        ("UPDATE progress SET stored = stored - 1".into(), set(&["offsets_untallied", "rows_extra"])),
        ("UPDATE progress SET dead = 0, retried = 1".into(), set(&["dead_letters_extra"])),
        ("UPDATE progress SET dead = 2, unmatched = 1".into(), set(&["dead_letters_missing"])),
        ("UPDATE progress SET next_offset = next_offset + 7".into(), set(&["offset_beyond_log", "offsets_untallied"])),
    ] {
        bed.postgres.execute(change.clone());
        assert_eq!(kinds(&bed), expected, "{change}");
        bed.postgres.execute(
            "TRUNCATE incidents, progress; INSERT INTO incidents SELECT * FROM was; \
             INSERT INTO progress SELECT * FROM progress_was",
        );
    }
    assert_eq!(kinds(&bed), set(&[]), "all is as it was");

    let delete_first = |bug: u64, window: i64| {
        bed.clickhouse.query(&format!(
            "DELETE FROM occurrences WHERE fingerprint_bits = reinterpretAsUInt128(reverse(unhex('{}'))) \
             AND ts = fromUnixTimestamp64Milli({}, 'UTC')",
            fingerprint(bug),
            T0 + window * WINDOW
        ))
    };
    delete_first(5, 6);
    assert_eq!(kinds(&bed), set(&[]), "another record may be the same occurrence");
    let output = bed.installation.output("reconcile", ["--since", &since]);
    assert!(output.stdout.contains("not checked: 1 of 8 stored records"), "{}", output.stdout);
    // It has no client's id, and its bug no incident: nothing else tells.
    delete_first(3, 2);
    assert_eq!(kinds(&bed), set(&["rows_missing"]), "no record can be a copy of it");
    delete_first(2, 3);
    assert_eq!(kinds(&bed), set(&["rows_missing", "incident_extra"]), "nine are no incident");
    let output = bed.installation.output("reconcile", ["--json", "--since", &since]);
    let extra = json(&output)["differences"][1]["expected"].as_str().unwrap().to_owned();
    assert!(extra.contains("9 of 10, the best run over its start 9 of 10"), "{extra}");
    bed.clickhouse.query("TRUNCATE TABLE dead_letters");
    assert_eq!(kinds(&bed), set(&["rows_missing", "incident_extra", "dead_letters_missing"]));
    bed.clickhouse.query("TRUNCATE TABLE occurrences");
    assert!(kinds(&bed).contains("incident_extra"), "incidents of which nothing is stored");
    let output = bed.installation.output("reconcile", ["--since", &since]);
    assert_eq!((output.exit_code, output.stderr.lines().count()), (Some(1), 1), "{output:?}");
    let unknown = bed.installation.output("reconcile", ["--topic", "floodmark-no-such-topic"]);
    assert_eq!(unknown.exit_code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("floodmark-no-such-topic does not exist"), "{}", unknown.stderr);
    for part in ["rows_missing", "incident_extra", &one, "2026-01-01T00:00:00Z"] {
        let shown: String = output.stdout.split_whitespace().collect();
        assert!(shown.contains(part) || output.stdout.contains(part), "{part} is missing in\n{}", output.stdout);
    }
}

#[test]
fn a_run_compares_itself_and_shows_what_it_finds() {
    let bed = Bed::new("reconcile_run", 1, &format!("[reconcile]\nevery = \"1s\"\n{RULES}"));
    run_to_the_end(&bed);
    let engine = bed.start_ready(1);
    let differences = |kind: &str| engine.metric("floodmark_reconcile_differences", &format!("kind=\"{kind}\""));
    wait_until("a comparison without a difference", PATIENCE, || differences("incident_missing") == Some(0.0));
    assert!(engine.metric("floodmark_reconcile_last_success_timestamp_seconds", "").unwrap() > 1_600_000_000.0);
    // What it compares by itself are the last 24 h of event time before the closed watermark, which follows the clock.
    bed.clickhouse.query("TRUNCATE TABLE dead_letters");
    wait_until("the difference", PATIENCE, || differences("dead_letters_missing") == Some(1.0));
    assert!(engine.is_ready(), "it goes on");
    assert_eq!(engine.stop(), Some(0));
}

fn explained(installation: &Installation, arguments: &[&str]) -> Value {
    let output = installation.output("explain", [arguments, &["--json"]].concat());
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    json(&output)
}

#[test]
fn explain_says_why_there_is_an_incident_or_none() {
    let bed = Bed::new("explain", 1, RULES);
    run_to_the_end(&bed);
    let installation = &bed.installation;
    let at = |window: i64| (T0 + window * WINDOW + 7).to_string();
    let of = |bug: u64, window: i64| {
        explained(installation, &["acme", &fingerprint(bug)[..12], &at(window), "--rule", "default"])
    };

    let first = of(1, 0);
    let rule = &first["rules"][0];
    assert_eq!(
        rule["answer"],
        "there is an incident (closed, found by the count of the window): 12 occurrences in the window; 10 make an incident"
    );
    assert_eq!(rule["advice"], Value::Null);
    let window = &rule["windows"][1];
    assert_eq!((&window["count"], &window["verdict"], &window["closed"]), (&12.into(), &"own".into(), &true.into()));
    assert_eq!(window["buckets"], serde_json::json!([12, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(window["dead_letters"], serde_json::json!({"malformed_json": 1}));
    assert_eq!((&window["incident"]["status"], &window["incident"]["total"]), (&"closed".into(), &12.into()));
    let transitions = window["incident"]["transitions"].as_array().unwrap();
    let names: Vec<_> = transitions.iter().map(|change| change["transition"].as_str().unwrap()).collect();
    assert_eq!(names, ["opened", "closed"]);
    assert_eq!(rule["windows"][2]["count"], 15, "the window after");
    assert_eq!(window["sample"], "upstream 1 answers 503");
    assert_eq!(first["hints"], serde_json::json!([]));
    assert_eq!(first["watermark"]["partitions"][0]["unmatched"], 2);
    assert!(first["watermark"]["closed"].as_i64().unwrap() >= T0 + 10 * WINDOW);

    let none = of(3, 2);
    let answer = "there is no incident: 4 occurrences in the window, 4 within 5m across its start; 10 make an incident";
    assert_eq!(none["rules"][0]["answer"], answer);
    assert_eq!(none["rules"][0]["windows"][1]["sample"], "upstream 3 answers 503");
    let hint = none["hints"][0].as_str().unwrap();
    assert!(hint.contains("2 matched no rule") && hint.contains("1 could not be read"), "{none}");
    let blocked = of(4, 1);
    let window = &blocked["rules"][0]["windows"][1];
    assert_eq!((&window["verdict"], &window["incident"]), (&"blocked".into(), &Value::Null));
    let why = "2 occurrences in the window and 15 within 5m across its start: they belong to the incident of the window \
               before";
    assert_eq!(window["why"], why, "nothing is superseded that never stood");

    let passed_over = explained(installation, &["acme", &fingerprint(1), &at(0), "--rule", "fatal"]);
    assert_eq!(
        passed_over["rules"][0]["windows"][1]["not_counted"],
        serde_json::json!({"level error is below fatal": 12})
    );

    bed.postgres.execute(format!("DELETE FROM incidents WHERE fingerprint = '{}'", fingerprint(1)));
    let output = installation.output("explain", ["acme", &fingerprint(1), &at(0)]);
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    let mut lines = output.stdout.lines();
    let first_line = format!(
        "tenant acme, fingerprint {}, rule default, window 2026-01-01T00:00:00Z to 2026-01-01T00:05:00Z (UTC): there is no \
         incident: 12 occurrences in the window; 10 make an incident",
        fingerprint(1)
    );
    assert_eq!(lines.next().unwrap(), first_line);
    assert_eq!(lines.next().unwrap(), "  message: upstream 1 answers 503");
    for code in ["W-4", "T-1", "detection", "blocked"] {
        assert!(!output.stdout.contains(code), "{code} says nothing to people:\n{}", output.stdout);
    }
    assert!(output.stdout.contains("floodmark reconcile"), "{}", output.stdout);
}

#[test]
fn explain_finds_a_fingerprint_by_its_beginning_and_names_the_candidates() {
    let installation = Installation::new(env!("CARGO_BIN_EXE_floodmark"), "");
    let of = |fingerprint: &str, n: i64| {
        let known = self::fingerprint(1);
        error("acme", 1, T0 + n).replace(&known, fingerprint) + "\n"
    };
    let (one, other) = (format!("abcdef{}", "0".repeat(26)), format!("abcdef{}", "1".repeat(26)));
    let late = 2 * WINDOW;
    let in_the_future = of(&one, 400 * 365 * 24 * 60 * MINUTE);
    let lines: String = (0..10).map(|n| of(&one, n)).chain([of(&other, 11), of(&one, late)]).collect();
    fs::write(installation.folder().join("a.ndjson"), lines + &in_the_future).unwrap();
    let run = installation.output("run", ["--embedded", "--json", "--input", "a.ndjson"]);
    assert_eq!(run.exit_code, Some(0), "{run:?}");

    let time = T0.to_string();
    let output = installation.output("explain", ["--embedded", "acme", "ABCDEF", &time]);
    assert_eq!(output.exit_code, Some(2), "{output:?}");
    assert!(output.stderr.contains(&one) && output.stderr.contains(&other), "{}", output.stderr);
    for (digits, part) in [("abc", "6 to 32"), ("abcdefx", "hex"), ("0123456", "within a day")] {
        let output = installation.output("explain", ["--embedded", "acme", digits, &time]);
        assert_eq!((output.exit_code, output.stderr.contains(part)), (Some(2), true), "{output:?}");
    }
    let output = installation.output("explain", ["--embedded", "acme", "abcdef1", &time, "--rule", "none"]);
    assert_eq!((output.exit_code, output.stderr.contains("default")), (Some(2), true), "{output:?}");

    let found = explained(&installation, &["--embedded", "acme", "abcdef0", &time]);
    let window = &found["rules"][0]["windows"][1];
    assert_eq!((&window["count"], &window["incident"]["status"]), (&10.into(), &"closed".into()), "{found}");
    assert_eq!(window["late_estimate"], Value::Null, "a file's records have no time of their own");
    let reconciled = installation.output("reconcile", ["--embedded", "--json"]);
    assert_eq!(reconciled.exit_code, Some(0), "{reconciled:?}");

    let shown = installation.output("explain", ["--embedded", "acme", "abcdef0", &time]);
    assert!(shown.stdout.contains("a.ndjson"), "the file has a name:\n{}", shown.stdout);
    let silent = |tenant: &str, fingerprint: &str, time: i64| {
        let found = explained(&installation, &["--embedded", tenant, fingerprint, &time.to_string()]);
        found["hints"].as_array().unwrap().iter().map(|hint| hint.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let of_another = silent("globex", &one, T0);
    assert!(of_another[0].contains("nothing of this bug is stored for tenant globex"), "{of_another:?}");
    assert!(of_another[1].contains("acme (12)"), "{of_another:?}");
    let earlier = silent("acme", &other, T0 - 20 * WINDOW);
    assert!(earlier[0].contains("1 occurrence of this bug, from 2026-01-01T00:00:00Z"), "{earlier:?}");
}

#[test]
fn since_is_a_span_or_a_time_that_has_been() {
    let installation = Installation::new(env!("CARGO_BIN_EXE_floodmark"), "");
    let lines: String = (0..10).map(|n| error("acme", 1, T0 + n) + "\n").collect();
    fs::write(installation.folder().join("a.ndjson"), lines).unwrap();
    assert_eq!(installation.output("run", ["--embedded", "--input", "a.ndjson"]).exit_code, Some(0));
    let incidents = |since: &str| installation.output("incidents", ["--embedded", "--since", since]);
    let all = incidents("36500d");
    assert_eq!(all.exit_code, Some(0), "{all:?}");
    for part in ["1 incidents", "rule", "default", "detection", "window"] {
        assert!(all.stdout.contains(part), "{part} is missing in\n{}", all.stdout);
    }
    assert!(incidents("1ms").stdout.contains("0 incidents"));
    let reconcile = |since: &str| installation.output("reconcile", ["--embedded", "--since", since]);
    assert_eq!(reconcile("7d").exit_code, Some(0));
    for (since, part) in [("2199-01-01T00:00:00Z", "in the future"), ("soon", "7d")] {
        let refused = reconcile(since);
        assert_eq!((refused.exit_code, refused.stderr.contains(part)), (Some(2), true), "{refused:?}");
    }
}
