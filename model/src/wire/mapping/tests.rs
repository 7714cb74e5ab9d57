//! Mappings as the configuration gives them, and records through them.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Coordinates, DeadReason, EventTime, Level, RecordTime, TopicId};
use serde_json::json;

fn mapping(config: serde_json::Value) -> Mapping {
    serde_json::from_value(config).unwrap()
}

fn refusal(config: serde_json::Value) -> String {
    serde_json::from_value::<Mapping>(config).unwrap_err().to_string()
}

fn record(payload: &str) -> RawRecord<'_> {
    RawRecord {
        at: Coordinates { topic_id: TopicId([3; 16]), partition: 2, offset: 40 },
        record_time: RecordTime(1_767_225_700_000),
        payload: Some(payload.as_bytes()),
    }
}

fn decoded<'a>(mapping: &'a Mapping, payload: &'a str) -> Occurrence<'a> {
    decode_mapped(record(payload), mapping, &DecodeSettings::default()).unwrap().unwrap()
}

fn reason(mapping: &Mapping, payload: &str) -> DeadReason {
    decode_mapped(record(payload), mapping, &DecodeSettings::default()).unwrap_err().reason
}

#[test]
fn a_record_of_another_shape() {
    let mapping = mapping(json!({
        "tenant": "/kubernetes/namespace", "message": "/log/0/text", "ts": "/time", "level": "/a~1b/~0c",
        "service": {"constant": "checkout"}, "type": "/kubernetes", "source": "/time", "event_id": "/missing/way",
        "exception_type": "/kubernetes/0",
    }));
    let ignores_kubernetes =
        decode_mapped(record(r#"{"kubernetes":{"namespace":"acme"}}"#), &mapping, &DecodeSettings::default());
    assert_eq!(ignores_kubernetes.unwrap_err().reason, DeadReason::WrongType, "type points at an object");
    let payload = r#"{"time":"2026-01-01T00:01:00Z","log":[{"text":"disk full","more":[1]},2],"a/b":{"~c":"warn"},
        "kubernetes":null,"missing":7}"#;
    let occurrence = decoded(&mapping, payload);
    assert_eq!(occurrence.tenant, "default");
    assert_eq!(occurrence.message, "disk full");
    assert_eq!(occurrence.ts, EventTime(1_767_225_660_000));
    assert_eq!(occurrence.level, Level::Warn);
    assert_eq!(occurrence.service, "checkout");
    assert_eq!(occurrence.source, "2026-01-01T00:01:00Z", "two fields may point at one value");
    assert_eq!(occurrence.event_id, "");
    assert_eq!(&*occurrence.raw, payload.as_bytes());
}

#[test]
fn an_index_is_also_a_key() {
    let mapping = mapping(json!({"message": "/a/1", "host": "/a/01"}));
    assert_eq!(decoded(&mapping, r#"{"a":["x","y"]}"#).message, "y");
    let keyed = decoded(&mapping, r#"{"a":{"1":"z","01":"h"}}"#);
    assert_eq!((&*keyed.message, &*keyed.host), ("z", "h"));
    assert_eq!(decoded(&mapping, r#"{"a":["x"]}"#).message, "");
}

#[test]
fn the_filter_lets_only_its_values_pass() {
    let mapping = mapping(json!({
        "message": "/m", "filter": {"pointer": "/kind", "equals": ["error", 7, true]},
    }));
    let passes =
        |payload: &str| decode_mapped(record(payload), &mapping, &DecodeSettings::default()).unwrap().is_some();
    for payload in [r#"{"kind":"error"}"#, r#"{"m":"x","kind":7}"#, r#"{"kind":"7"}"#, r#"{"kind":true}"#] {
        assert!(passes(payload), "{payload}");
    }
    for payload in ["{}", r#"{"kind":null}"#, r#"{"kind":"errors"}"#, r#"{"kind":7.0}"#, r#"{"kind":{"a":"error"}}"#] {
        assert!(!passes(payload), "{payload}");
    }
    assert!(!passes(r#"{"m":{},"kind":"other"}"#), "a record that is left out is not judged further");
    assert_eq!(reason(&mapping, r#"{"kind":"other""#), DeadReason::MalformedJson, "but it has to be JSON");
}

#[test]
fn a_time_in_a_form_and_zone_of_the_user_s_own() {
    let with_format = mapping(json!({
        "message": "/m", "ts": "/ts", "time_format": "%d.%m.%Y %H:%M:%S", "zone": "Europe/Berlin",
    }));
    let occurrence = decoded(&with_format, r#"{"ts":"01.01.2026 01:01:00"}"#);
    assert_eq!((occurrence.ts, occurrence.ts_missing), (EventTime(1_767_225_660_000), false));
    let other_form = decoded(&with_format, r#"{"ts":"2026-01-01T00:01:00Z"}"#);
    assert!(other_form.ts_missing, "with a form of its own, other forms are not guessed");
    assert_eq!(other_form.ts_original, "2026-01-01T00:01:00Z");

    let digits = mapping(json!({"message": "/m", "ts": "/ts", "time_format": "%Y%m%d%H%M%S"}));
    assert_eq!(decoded(&digits, r#"{"ts":20260101000100}"#).ts, EventTime(1_767_225_660_000));

    let zoned = mapping(json!({"message": "/m", "ts": "/ts", "zone": "Europe/Berlin"}));
    assert_eq!(decoded(&zoned, r#"{"ts":"2026-01-01 01:01:00,000"}"#).ts, EventTime(1_767_225_660_000));
}

#[test]
fn bad_records_have_the_same_reasons_as_elsewhere() {
    let mapping = mapping(json!({"message": "/a/b", "host": "/h"}));
    assert_eq!(reason(&mapping, r#"{"a":{"b":1,"b":2}}"#), DeadReason::DuplicateKey);
    assert_eq!(reason(&mapping, r#"{"a":{},"x":1,"a":{}}"#), DeadReason::DuplicateKey);
    assert_eq!(reason(&mapping, r#"{"a":{"b":[]}}"#), DeadReason::WrongType);
    assert_eq!(reason(&mapping, "[]"), DeadReason::NotAnObject);
    assert_eq!(reason(&mapping, "{}}"), DeadReason::MalformedJson);
    assert_eq!(reason(&mapping, ""), DeadReason::EmptyRecord);
    let nested = format!("{{\"a\":{}", "{\"b\":".repeat(10_000));
    assert_eq!(reason(&mapping, &nested), DeadReason::TooDeep);
    decoded(&mapping, r#"{"x":1,"x":2}"#);
}

#[test]
fn the_errors_of_a_mapping_name_its_key() {
    for (config, expected) in [
        (json!({"message": "log"}), "mapping.message = \"log\": a JSON pointer begins with a slash"),
        (json!({"message": ""}), "mapping.message"),
        (json!({"message": "/a~2"}), "~0"),
        (json!({"message": "/a".repeat(17)}), "at most 16 steps"),
        (json!({"message": "/m", "mesage": "/m"}), "unknown field `mesage`"),
        (json!({"message": 7}), "want a JSON pointer"),
        (json!({"message": {"constant": "x", "y": 1}}), "want a JSON pointer"),
        (json!({"tenant": "/t"}), "nothing tells one bug from another"),
        (json!({"message": "/m", "ts": {"constant": "1"}}), "mapping.ts"),
        (json!({"message": "/m", "event_id": {"constant": "1"}}), "mapping.event_id"),
        (json!({"message": "/m", "tenant": {"constant": "t".repeat(257)}}), "mapping.tenant"),
        (json!({"fingerprint": {"constant": "1"}}), "mapping.fingerprint"),
        (json!({"message": "/m", "time_format": "%H"}), "mapping.time_format"),
        (json!({"message": "/m", "zone": "Mars/Olympus"}), "mapping.zone = \"Mars/Olympus\""),
        (json!({"message": "/m", "filter": {"pointer": "k", "equals": ["a"]}}), "mapping.filter.pointer"),
        (json!({"message": "/m", "filter": {"pointer": "/k", "equals": []}}), "mapping.filter.equals is empty"),
    ] {
        let refusal = refusal(config.clone());
        assert!(refusal.contains(expected), "{config}: {refusal}");
    }
}

#[test]
fn a_mapping_is_written_as_it_was_read() {
    let config = json!({
        "message": "/m", "service": {"constant": "s"}, "zone": "Europe/Berlin",
        "filter": {"pointer": "/k", "equals": ["a", 1, false]},
    });
    let read = mapping(config);
    assert_eq!(mapping(serde_json::to_value(&read).unwrap()), read);
}
