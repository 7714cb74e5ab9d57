//! Records that cannot be read: each becomes a dead letter with its reason, and costs its neighbours nothing (G-2).

use super::bed::Bed;
use super::records::{T0, error};
use floodmark_model::RecordTime;
use std::collections::BTreeMap;

/// What is wrong, with the reason that it must get; `None` is accepted.
fn specimens() -> Vec<(Vec<u8>, Option<&'static str>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let nested = format!(r#"{{"tenant":"acme","attributes":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let long = format!(r#"{{"tenant":"acme","message":"{}"}}"#, "x".repeat(2 << 20));
    vec![
        (text(r#"{"tenant":"acme","message":"cut"#), Some("malformed_json")),
        (text(r#"{"tenant":{"not":"text"}}"#), Some("wrong_type")),
        (text(r#"["an","array"]"#), Some("not_an_object")),
        (b"{\"tenant\":\"acme\",\"message\":\"\xff\xfe\"}".to_vec(), Some("invalid_utf8")),
        (text("{\"tenant\":\"acme\0\"}"), Some("malformed_json")),
        (text(r#"{"tenant":"ac\u0000me"}"#), Some("nul_in_key")),
        (text(r#"{"tenant":"acme","message":"a\u0000b"}"#), None),
        (text(r#"{"tenant":"acme","message":"\ud800"}"#), Some("malformed_json")),
        (text(r#"{"tenant":"acme","tenant":"other"}"#), Some("duplicate_key")),
        (text(r#"{"tenant":"acme","fingerprint":"12"}"#), Some("bad_fingerprint")),
        (text(r#"{"tenant":"","message":"nobody's"}"#), None),
        (long.into_bytes(), Some("too_large")),
        (nested.into_bytes(), Some("too_deep")),
        (
            text(
                r#"{"tenant":"acme","ts":123456789012345678901234567890,"event_id":340282366920938463463374607431768211456}"#,
            ),
            None,
        ),
        (Vec::new(), Some("empty_record")),
    ]
}

#[test]
fn g2_each_bad_record_is_a_dead_letter_with_its_reason_and_its_neighbours_land() {
    let bed = Bed::new("bad_input", 1, "");
    let specimens = specimens();
    let mut records = Vec::new();
    for (n, (bytes, _)) in specimens.iter().enumerate() {
        let ts = T0 + n as i64;
        records.push((0, RecordTime(ts), error("acme", 1, ts).into_bytes()));
        records.push((0, RecordTime(ts), bytes.clone()));
    }
    bed.topic.produce(records);
    let engine = bed.start_ready(2);
    bed.wait_until_durable(2 * specimens.len() as i64);

    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    specimens.iter().filter_map(|(_, reason)| *reason).for_each(|reason| *wanted.entry(reason).or_default() += 1);
    for (reason, count) in &wanted {
        let query = format!("SELECT count() FROM dead_letters FINAL WHERE reason = '{reason}'");
        assert_eq!(bed.clickhouse.number(&query), *count, "{reason}");
        let label = format!("reason=\"{reason}\"");
        assert_eq!(engine.metric("floodmark_dead_letters_total", &label), Some(*count as f64), "{reason}");
    }
    let dead: u64 = wanted.values().sum();
    assert_eq!(bed.clickhouse.number("SELECT count() FROM dead_letters FINAL"), dead);
    let accepted = specimens.len() as u64 - dead;
    let stored = bed.clickhouse.number("SELECT count() FROM occurrences FINAL");
    assert_eq!(stored, specimens.len() as u64 + accepted, "the neighbours, and what is accepted");
    let offsets = bed.clickhouse.number("SELECT countIf(offset % 2 = 1) FROM dead_letters FINAL");
    assert_eq!(offsets, dead, "each stands at its own place in the log");
    assert_eq!(bed.clickhouse.number("SELECT max(length(raw)) FROM dead_letters FINAL"), 64 << 10);
    bed.assert_tallies_balance();
    assert_eq!(engine.stop(), Some(0));
}
