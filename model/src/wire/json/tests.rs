//! Records as they come, good and bad.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Coordinates, EventTime, Fingerprint, Identity, Level, RecordTime, TopicId};
use proptest::prelude::*;

fn record(payload: &[u8]) -> RawRecord<'_> {
    RawRecord {
        at: Coordinates { topic_id: TopicId([3; 16]), partition: 2, offset: 40 },
        record_time: RecordTime(1_767_225_700_000),
        payload: Some(payload),
    }
}

fn decoded(payload: &str) -> Occurrence<'_> {
    decode(record(payload.as_bytes()), &DecodeSettings::default()).unwrap()
}

fn reason(payload: impl AsRef<[u8]>) -> DeadReason {
    decode(record(payload.as_ref()), &DecodeSettings::default()).unwrap_err().reason
}

#[test]
fn a_whole_record() {
    let text = r#"{"tenant":"acme","ts":1767225660123,"message":"disk full","level":"fatal","service":"db","host":"h1",
        "source":"log","type":"io","template_id":"t7","fingerprint":"0123456789abcdef0123456789ABCDEF","event_id":"e1",
        "exception":{"type":"IOError","message":"no space","stack":["a","b"]},"attributes":{"a":{"b":[1,2]}},"x":null}"#;
    let occurrence = decoded(text);
    assert_eq!(occurrence.tenant, "acme");
    assert_eq!(occurrence.ts, EventTime(1_767_225_660_123));
    assert!(!occurrence.ts_missing && !occurrence.ts_clamped);
    assert_eq!(occurrence.message, "disk full");
    assert_eq!(occurrence.level, Level::Fatal);
    assert_eq!(occurrence.service, "db");
    assert_eq!(occurrence.host, "h1");
    assert_eq!(occurrence.source, "log");
    assert_eq!(occurrence.kind, "io");
    assert_eq!(occurrence.template_id, "t7");
    assert_eq!(occurrence.fingerprint, Fingerprint::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
    assert_eq!(occurrence.event_id, "e1");
    assert_eq!(occurrence.exception_type, "IOError");
    assert_eq!(occurrence.identity, Identity::of_event("acme", "e1"));
    assert_eq!(&*occurrence.raw, text.as_bytes());
    assert!(matches!(occurrence.message, std::borrow::Cow::Borrowed(_)), "text without escapes is not copied");
}

#[test]
fn an_empty_object_is_an_occurrence() {
    let occurrence = decoded("{}");
    assert_eq!((&*occurrence.tenant, occurrence.level, occurrence.ts_missing), ("default", Level::Error, true));
}

#[test]
fn null_is_absent_everywhere() {
    let keys = "tenant ts message level service host source type template_id fingerprint event_id exception attributes";
    let members: Vec<String> = keys.split(' ').map(|key| format!("\"{key}\":null")).collect();
    let all_null = format!("{{{}}}", members.join(","));
    let (nulls, empty) = (decoded(&all_null), decoded("{}"));
    assert_eq!(nulls, Occurrence { raw: nulls.raw.clone(), ..empty });
}

#[test]
fn numbers_and_booleans_are_text_where_text_is_wanted() {
    let occurrence =
        decoded(r#"{"event_id":12345678901234567890123,"message":4.50,"host":true,"service":-1,"tenant":7}"#);
    assert_eq!(occurrence.event_id, "12345678901234567890123");
    assert_eq!(occurrence.message, "4.50");
    assert_eq!(occurrence.host, "true");
    assert_eq!(occurrence.service, "-1");
    assert_eq!(occurrence.tenant, "7");
}

#[test]
fn an_object_or_array_where_text_is_wanted_is_refused() {
    for key in ["tenant", "message", "level", "service", "host", "source", "type", "template_id", "event_id"] {
        assert_eq!(reason(format!(r#"{{"{key}":{{}}}}"#)), DeadReason::WrongType, "{key}");
        assert_eq!(reason(format!(r#"{{"{key}":["x"]}}"#)), DeadReason::WrongType, "{key}");
    }
    for payload in [r#"{"exception":"x"}"#, r#"{"exception":[1]}"#, r#"{"exception":{"type":{}}}"#] {
        assert_eq!(reason(payload), DeadReason::WrongType, "{payload}");
    }
    let rejected = decode(record(br#"{"host":[]}"#), &DecodeSettings::default()).unwrap_err();
    assert_eq!(rejected.to_string(), "wrong_type: host is an object or an array; want text");
}

#[test]
fn what_is_not_read_may_be_anything() {
    for payload in
        [r#"{"attributes":[1,"\ud800"]}"#, r#"{"attributes":"x"}"#, r#"{"exception":{"stack":{"a":1,"a":2}}}"#]
    {
        decoded(payload);
    }
}

#[test]
fn t1_every_kind_of_ts() {
    let ts = |json: &str| decoded(&format!(r#"{{"ts":{json}}}"#)).ts.0;
    const MINUTE: i64 = 1_767_225_660_000;
    for json in ["1767225660", "1767225660.0", "1.76722566e9", "\"1767225660\"", "\"2026-01-01T00:01:00Z\""] {
        assert_eq!(ts(json), MINUTE, "{json}");
    }
    assert_eq!(ts("1767225660.001"), MINUTE + 1, "a float would have lost it");
    assert_eq!(ts(r#""2026-01-01T00:01:00\u005a""#), MINUTE);
}

#[test]
fn q32_an_unusable_ts_is_the_record_time_and_its_text_is_kept() {
    for (json, original) in [
        ("true", "true"),
        ("{\"a\": 1}", "{\"a\": 1}"),
        ("[1]", "[1]"),
        ("\"NaN\"", "NaN"),
        ("0", "0"),
        ("99999999999999999999", "99999999999999999999"),
        ("null", ""),
    ] {
        let payload = format!(r#"{{"ts":{json}}}"#);
        let occurrence = decoded(&payload);
        assert_eq!((occurrence.ts.0, occurrence.ts_missing), (1_767_225_700_000, true), "{json}");
        assert_eq!(occurrence.ts_original, original);
    }
}

#[test]
fn o11_times_after_2262_are_held() {
    let record =
        RawRecord { record_time: RecordTime(9_223_372_200_000), ..record(br#"{"ts":"2262-04-11T23:50:00Z"}"#) };
    assert_eq!(decode(record, &DecodeSettings::default()).unwrap().ts, EventTime(9_223_372_200_000));
}

#[test]
fn escaped_keys_and_values_are_the_same_text() {
    let occurrence = decoded(r#"{"t\u0065nant":"a\tb","message":"\u00e9\ud83d\ude00","host":"\u0000"}"#);
    assert_eq!(occurrence.tenant, "a\tb");
    assert_eq!(occurrence.message, "é😀");
    assert_eq!(occurrence.host, "\0");
}

#[test]
fn a_key_that_is_read_stands_once() {
    for payload in [
        r#"{"tenant":"a","tenant":"b"}"#,
        r#"{"tenant":null,"tenant":"b"}"#,
        r#"{"tenant":"a","t\u0065nant":"a"}"#,
        r#"{"ts":1,"ts":1}"#,
        r#"{"exception":null,"exception":{}}"#,
        r#"{"exception":{"type":"a","type":"a"}}"#,
    ] {
        assert_eq!(reason(payload), DeadReason::DuplicateKey, "{payload}");
    }
    decoded(r#"{"x":1,"x":2,"attributes":{},"attributes":{"a":1,"a":1}}"#);
}

#[test]
fn lone_surrogates_are_refused_where_text_is_read() {
    assert_eq!(reason(r#"{"message":"\ud800"}"#), DeadReason::MalformedJson);
    assert_eq!(reason(r#"{"\udc00":1}"#), DeadReason::MalformedJson);
}

#[test]
fn nothing_is_an_empty_record() {
    let nothing = RawRecord { payload: None, ..record(b"") };
    assert_eq!(decode(nothing, &DecodeSettings::default()).unwrap_err().reason, DeadReason::EmptyRecord);
    assert_eq!(reason(""), DeadReason::EmptyRecord);
}

#[test]
fn the_limit_on_length_is_exact() {
    let padded = |length: usize| format!("{{}}{}", " ".repeat(length - 2));
    let limit = DecodeSettings::default().max_record_bytes;
    decoded(&padded(limit));
    assert_eq!(reason(padded(limit + 1)), DeadReason::TooLarge);
    assert_eq!(reason(padded(2 * limit)), DeadReason::TooLarge);
}

#[test]
fn invalid_utf8_is_refused_wherever_it_stands() {
    assert_eq!(reason(b"{\"message\":\"\xff\"}"), DeadReason::InvalidUtf8);
    assert_eq!(reason(b"{\"attributes\":\"\xc3\"}"), DeadReason::InvalidUtf8);
    assert_eq!(reason(b"{\"message\":\"\xed\xa0\x80\"}"), DeadReason::InvalidUtf8, "a surrogate in bytes");
}

#[test]
fn one_byte_order_mark_is_skipped() {
    assert_eq!(decoded("\u{feff}{\"tenant\":\"a\"}").tenant, "a");
    assert_eq!(reason("\u{feff}\u{feff}{}"), DeadReason::MalformedJson);
    assert_eq!(reason("{}\u{feff}"), DeadReason::MalformedJson);
}

#[test]
fn every_prefix_of_a_record_is_malformed() {
    let whole = r#"{"tenant":"a","ts":1.5,"exception":{"type":"x"},"attributes":[true,null]}"#;
    decoded(whole);
    for end in 1..whole.len() {
        assert_eq!(reason(&whole[..end]), DeadReason::MalformedJson, "{}", &whole[..end]);
    }
}

#[test]
fn trailing_text_and_other_kinds_of_json_are_refused() {
    assert_eq!(reason("{}x"), DeadReason::MalformedJson);
    assert_eq!(reason("{}{}"), DeadReason::MalformedJson);
    assert_eq!(reason("{}\0"), DeadReason::MalformedJson);
    decoded(" {} \r\n\t");
    for payload in ["[]", "[{}]", "\"x\"", "1", "null", "true"] {
        assert_eq!(reason(payload), DeadReason::NotAnObject, "{payload}");
    }
    assert_eq!(reason("[1"), DeadReason::MalformedJson);
    assert_eq!(reason("   "), DeadReason::MalformedJson);
    assert_eq!(reason("ERROR disk full"), DeadReason::MalformedJson);
}

#[test]
fn depth_10000_is_too_deep_wherever_it_is() {
    let nested = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    for payload in [nested.clone(), format!("{{\"attributes\":{nested}}}"), format!("{{\"message\":{nested}}}")] {
        assert_eq!(reason(payload), DeadReason::TooDeep);
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_and_every_refusal_has_a_short_detail(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(rejected) = decode(record(&payload), &DecodeSettings::default()) {
            prop_assert!(!rejected.detail.is_empty() && rejected.detail.len() < 300);
        }
    }

    #[test]
    fn text_comes_back_as_it_was_written(message in any::<String>(), host in any::<String>(), ts in 1_i64..1_767_225_760_000) {
        let payload = serde_json::json!({"message": message, "host": host, "ts": ts, "tenant": "a"}).to_string();
        let occurrence = decoded(&payload);
        prop_assert_eq!(&*occurrence.message, message.as_str());
        prop_assert_eq!(&*occurrence.host, host.as_str());
        prop_assert!(!occurrence.ts_missing);
    }
}
