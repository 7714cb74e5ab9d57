//! The rules of identity, time and keys, whatever the format.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::time::RawTime;
use crate::{Coordinates, DeadLetter, RecordTime, TopicId};

fn record() -> RawRecord<'static> {
    RawRecord {
        at: Coordinates { topic_id: TopicId([3; 16]), partition: 2, offset: 40 },
        record_time: RecordTime(1_767_225_600_000),
        payload: Some(b"raw"),
    }
}

fn assembled(fields: Fields<'static>) -> Occurrence<'static> {
    assemble(fields, record(), &DecodeSettings::default()).unwrap()
}

fn reason(fields: Fields<'static>) -> DeadReason {
    assemble(fields, record(), &DecodeSettings::default()).unwrap_err().reason
}

#[test]
fn nothing_given_is_an_error_of_the_default_tenant_at_the_record_time() {
    let occurrence = assembled(Fields::default());
    assert_eq!(occurrence.tenant, DEFAULT_TENANT);
    assert_eq!(occurrence.level, Level::Error);
    assert_eq!(occurrence.ts, EventTime(1_767_225_600_000));
    assert!(occurrence.ts_missing && !occurrence.ts_clamped);
    assert_eq!(occurrence.message, "");
    assert_eq!(occurrence.identity, Identity::of_record(record().at));
    assert_eq!(&*occurrence.raw, b"raw");
}

#[test]
fn q25_an_empty_tenant_is_its_own() {
    assert_eq!(assembled(Fields { tenant: Some("".into()), ..Fields::default() }).tenant, "");
}

#[test]
fn i2_an_event_id_is_the_identity_and_q34_an_empty_one_is_absent() {
    let with = |id: &'static str| {
        assembled(Fields { tenant: Some("a".into()), event_id: Some(id.into()), ..Fields::default() })
    };
    assert_eq!(with("e1").identity, Identity::of_event("a", "e1"));
    assert_eq!(with("").identity, Identity::of_record(record().at));
}

#[test]
fn the_original_time_is_kept_exactly_where_the_record_time_stands_for_it() {
    let with = |ts: &'static str| assembled(Fields { ts: RawTime::Text(ts.into()), ..Fields::default() });
    assert_eq!(with("yesterday").ts_original, "yesterday");
    assert_eq!(with("2099-01-01T00:00:00Z").ts_original, "2099-01-01T00:00:00Z");
    assert!(with("2099-01-01T00:00:00Z").ts_clamped);
    assert_eq!(with("2026-01-01T00:00:01Z").ts_original, "");
}

#[test]
fn an_exception_s_message_stands_for_an_absent_or_empty_one() {
    let with = |message: Option<&'static str>| {
        let message = message.map(Cow::Borrowed);
        assembled(Fields { message, exception_message: Some("boom".into()), ..Fields::default() }).message
    };
    assert_eq!(with(None), "boom");
    assert_eq!(with(Some("")), "boom");
    assert_eq!(with(Some("text")), "text");
}

#[test]
fn a_given_fingerprint_counts_and_else_it_is_computed() {
    let with = |fingerprint: Option<&'static str>| {
        let fingerprint = fingerprint.map(Cow::Borrowed);
        assembled(Fields { fingerprint, message: Some("text".into()), ..Fields::default() }).fingerprint
    };
    assert_eq!(with(Some("000000000000000000000000000000AB")), Fingerprint::from_bits(0xab));
    assert_eq!(with(Some("")), with(None));
    let computed = FingerprintInput { service: "", level: Level::Error, exception_type: "", message: "text" };
    assert_eq!(with(None), fingerprint::compute(&computed));
}

#[test]
fn a_fingerprint_that_is_no_32_hex_digits_is_refused() {
    for text in ["ab", "000000000000000000000000000000zz", "+00000000000000000000000000000ab"] {
        let fields = Fields { fingerprint: Some(text.into()), ..Fields::default() };
        assert_eq!(reason(fields), DeadReason::BadFingerprint, "{text}");
    }
}

#[test]
fn q52_a_nul_is_refused_in_keys_and_kept_in_a_message() {
    assert_eq!(reason(Fields { tenant: Some("a\0b".into()), ..Fields::default() }), DeadReason::NulInKey);
    let fingerprint = Some("0000000000000000000000000000000\0".into());
    assert_eq!(reason(Fields { fingerprint, ..Fields::default() }), DeadReason::NulInKey);
    assert_eq!(assembled(Fields { message: Some("a\0b".into()), ..Fields::default() }).message, "a\0b");
}

#[test]
fn keys_have_limits_and_other_text_has_none() {
    let tenant = |length: usize| Fields { tenant: Some("t".repeat(length).into()), ..Fields::default() };
    assert_eq!(assembled(tenant(TENANT_BYTES_MAX)).tenant.len(), TENANT_BYTES_MAX);
    assert_eq!(reason(tenant(TENANT_BYTES_MAX + 1)), DeadReason::KeyTooLong);
    let event_id = |length: usize| Fields { event_id: Some("e".repeat(length).into()), ..Fields::default() };
    assert_eq!(assembled(event_id(EVENT_ID_BYTES_MAX)).event_id.len(), EVENT_ID_BYTES_MAX);
    assert_eq!(reason(event_id(EVENT_ID_BYTES_MAX + 1)), DeadReason::KeyTooLong);
    let service = Fields { service: Some("s".repeat(100_000).into()), ..Fields::default() };
    assert_eq!(assembled(service).service.len(), 100_000);
}

#[test]
fn a_time_that_the_stores_cannot_hold_is_refused() {
    let at = |ms: i64| {
        let record = RawRecord { record_time: RecordTime(ms), ..record() };
        assemble(Fields::default(), record, &DecodeSettings::default()).map_err(|rejected| rejected.reason)
    };
    assert!(at(EventTime::EARLIEST.0).is_ok());
    assert!(at(EventTime::LATEST.0).is_ok());
    assert_eq!(at(EventTime::EARLIEST.0 - 1), Err(DeadReason::TimeOutOfRange));
    assert_eq!(at(EventTime::LATEST.0 + 1), Err(DeadReason::TimeOutOfRange));
    assert_eq!(at(i64::MAX), Err(DeadReason::TimeOutOfRange));
}

#[test]
fn a_dead_letter_keeps_the_first_bytes() {
    let payload = vec![b'x'; DeadLetter::RAW_BYTES_MAX + 1];
    let record = RawRecord { payload: Some(&payload), ..record() };
    let letter = Rejected::new(DeadReason::MalformedJson, "why").into_dead_letter(record);
    assert_eq!(letter.raw.len(), DeadLetter::RAW_BYTES_MAX);
    assert_eq!((letter.reason, &*letter.detail, letter.at), (DeadReason::MalformedJson, "why", record.at));
}
