//! A real log, embedded from its file and through Kafka, Postgres and ClickHouse: the same totals and incidents.

use super::bed::Bed;
use floodmark_model::identity::Coordinates;
use floodmark_model::wire::DecodeSettings;
use floodmark_model::wire::text::{Framing, RecordSplitter, TextFormat, decode};
use floodmark_model::{RawRecord, RecordTime, TopicId};
use floodmark_testkit::services::engine::Installation;
use floodmark_testkit::wait::wait_until_equal;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Files in log4j's format; another folder than the excerpt may be named to compare more.
pub(crate) fn logs() -> Vec<PathBuf> {
    let excerpt = concat!(env!("CARGO_MANIFEST_DIR"), "/model/testdata/*.log");
    let pattern = std::env::var("FLOODMARK_TEST_LOGS").unwrap_or_else(|_| excerpt.to_owned());
    let found: Vec<_> = glob::glob(&pattern).unwrap().map(Result::unwrap).collect();
    assert!(!found.is_empty(), "{pattern} names no file");
    found
}

/// The records of a file as JSON, with their times.
pub(crate) fn as_json(path: &PathBuf, record_time: RecordTime) -> Vec<(i64, String)> {
    let text = std::fs::read(path).unwrap();
    let mut splitter = RecordSplitter::new(Framing::Text(TextFormat::Log4j), 0, 1 << 20);
    let mut records = Vec::new();
    let mut take = |offset: u64, bytes: &[u8]| {
        let at = Coordinates { topic_id: TopicId([0; 16]), partition: 0, offset: offset as i64 };
        let raw = RawRecord { at, record_time, payload: Some(bytes) };
        let occurrence = decode(raw, &TextFormat::Log4j, &DecodeSettings::default()).unwrap();
        let payload = json!({
            "ts": occurrence.ts.0, "level": occurrence.level.name(), "message": occurrence.message,
            "service": occurrence.service, "source": occurrence.source,
            "exception": {"type": occurrence.exception_type},
        });
        records.push((occurrence.ts.0, payload.to_string()));
    };
    let mut chunk = &text[..];
    while let Some(record) = splitter.next_record(&mut chunk) {
        take(record.offset, record.bytes);
    }
    while let Some(record) = splitter.finish() {
        take(record.offset, record.bytes);
    }
    records
}

/// What `totals --json` or `incidents --json` prints, without what differs by the way it came.
fn shown(installation: &Installation, verb: &str, arguments: &[&str]) -> Value {
    let output = installation.output(verb, [&["--json"], arguments].concat());
    assert_eq!(output.exit_code, Some(0), "{}", output.stderr);
    let mut rows: Value = serde_json::from_str(&output.stdout).unwrap();
    for row in rows.as_array_mut().unwrap() {
        for key in ["opened_at", "count"] {
            row.as_object_mut().unwrap().remove(key);
        }
    }
    rows
}

#[test]
fn a_real_log_gives_the_same_embedded_and_through_the_services() {
    let mut logs = logs();
    let bed = Bed::new("real_input", logs.len() as i32 + 1, "[time]\nidle_after = \"1s\"");
    // What comes after it closes all windows.
    let after = bed.installation.folder().join("after.log");
    std::fs::write(&after, "[2016-12-20 12:00:00,000] INFO the next day (test)\n").unwrap();
    logs.push(after);

    let store = ["--embedded", "--store", "logs.sqlite"];
    let inputs: Vec<String> = logs.iter().map(|path| path.display().to_string()).collect();
    let mut arguments: Vec<&str> = store.to_vec();
    arguments.extend(["--format", "log4j", "--json", "--input"]);
    arguments.extend(inputs.iter().map(String::as_str));
    let run = bed.installation.output("run", arguments);
    assert_eq!(run.exit_code, Some(0), "{}", run.stderr);
    let summary: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&summary["records"]["late"], &summary["records"]["dead"]), (&json!(0), &json!(0)));
    let embedded = (shown(&bed.installation, "totals", &store), shown(&bed.installation, "incidents", &store));
    assert!(!embedded.1.as_array().unwrap().is_empty(), "the log holds a flood");

    // In the order of time, as if it happened now.
    let record_time = RecordTime(4_000_000_000_000);
    let mut records: Vec<(i64, i32, String)> = Vec::new();
    for (partition, path) in (0..).zip(&logs) {
        records.extend(as_json(path, record_time).into_iter().map(|(ts, payload)| (ts, partition, payload)));
    }
    records.sort_by_key(|(ts, ..)| *ts);
    let read = records.len();
    assert_eq!(summary["records"]["read"], json!(read));
    // The last record is in the last partition; when all are idle, the least of their watermarks stands (T-4).
    let (ts, after, payload) = records.last().unwrap().clone();
    records.extend((0..after).map(|partition| (ts, partition, payload.clone())));
    bed.topic.produce(records.into_iter().map(|(_, partition, payload)| (partition, record_time, payload)));
    let _engine = bed.start_ready(2);
    bed.wait_until_durable(bed.topic.end_offsets().iter().sum());
    let observe = || (shown(&bed.installation, "totals", &[]), shown(&bed.installation, "incidents", &[]));
    wait_until_equal("the same totals and incidents", super::bed::PATIENCE, observe, |found| {
        if found == &embedded { Ok(()) } else { Err(format!("{found:#?}\nis not\n{embedded:#?}")) }
    });
}
