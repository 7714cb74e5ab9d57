//! T-1 and T-2 as a whole; the forms of time are tested where they are read.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

const RECORD_TIME: RecordTime = RecordTime(1_767_225_600_000);

fn effective(raw: RawTime<'_>) -> EffectiveTime {
    EffectiveTime::new(&raw, RECORD_TIME, 60_000, &Zone::UTC)
}

fn text(text: &str) -> EffectiveTime {
    effective(RawTime::Text(text.into()))
}

fn number(text: &str) -> EffectiveTime {
    effective(RawTime::Number(text.into()))
}

const MISSING: EffectiveTime = EffectiveTime { time: EventTime(RECORD_TIME.0), missing: true, clamped: false };
const CLAMPED: EffectiveTime = EffectiveTime { time: EventTime(RECORD_TIME.0), missing: false, clamped: true };

fn taken(ms: i64) -> EffectiveTime {
    EffectiveTime { time: EventTime(ms), missing: false, clamped: false }
}

#[test]
fn the_bounds_are_those_of_the_stores() {
    let ms = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(EventTime::EARLIEST.0, ms("1900-01-01T00:00:00Z"));
    assert_eq!(EventTime::LATEST.0, ms("2299-12-31T23:59:59.999Z"));
}

#[test]
fn t1_missing_null_empty_zero_negative_and_boolean_take_the_record_time() {
    assert_eq!(effective(RawTime::Absent), MISSING);
    assert_eq!(effective(RawTime::Unusable("true".into())), MISSING);
    for absent in ["", " ", "0", "-1", "-1767225660", "NaN", "yesterday", "2026-01-01"] {
        assert_eq!(text(absent), MISSING, "{absent}");
    }
    for absent in ["0", "-1", "-1767225660", "99999999999999999999"] {
        assert_eq!(number(absent), MISSING, "{absent}");
    }
}

#[test]
fn t1_digits_in_text_are_a_number() {
    assert_eq!(text("1767225540"), taken(1_767_225_540_000));
    assert_eq!(text(" 1767225540000 "), taken(1_767_225_540_000));
    assert_eq!(text("86400"), taken(86_400_000));
}

#[test]
fn q30_text_before_1970_is_taken_literally() {
    assert_eq!(text("1969-12-31T23:59:59.999Z"), taken(-1));
}

#[test]
fn q33_before_1900_is_missing() {
    assert_eq!(text("0001-01-01T00:00:00Z"), MISSING);
    assert_eq!(text("1899-12-31T23:59:59.999Z"), MISSING);
    assert_eq!(text("1900-01-01T00:00:00Z"), taken(EventTime::EARLIEST.0));
    assert_eq!(text("1900-01-01T00:00:00+01:00"), MISSING);
    let read = RawTime::Read { time: EventTime(EventTime::EARLIEST.0 - 1), original: "".into() };
    assert_eq!(effective(read), MISSING);
}

#[test]
fn t2_exactly_max_future_is_not_future() {
    assert_eq!(number("1767225660000"), taken(RECORD_TIME.0 + 60_000));
    assert_eq!(number("1767225660001"), CLAMPED);
    assert_eq!(text("9999-12-31T23:59:59Z"), CLAMPED);
}

#[test]
fn t2_an_extreme_record_time_does_not_overflow() {
    let latest = EffectiveTime::new(&RawTime::Number("1".into()), RecordTime(i64::MAX), 60_000, &Zone::UTC);
    assert_eq!(latest, taken(1_000));
    let earliest = EffectiveTime::new(&RawTime::Number("1".into()), RecordTime(i64::MIN), 60_000, &Zone::UTC);
    assert!(earliest.clamped);
}

proptest! {
    #[test]
    fn an_effective_time_is_never_in_the_future_and_a_flag_means_the_record_time(
        raw in "\\PC{0,30}|[0-9]{1,22}|20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z",
        record_time in -2_208_988_800_000_i64..10_413_791_999_999,
    ) {
        let raw = RawTime::Text(raw.into());
        let effective = EffectiveTime::new(&raw, RecordTime(record_time), 60_000, &Zone::UTC);
        prop_assert!(effective.time.0 <= record_time + 60_000);
        prop_assert!(effective.time >= EventTime::EARLIEST);
        if effective.missing || effective.clamped {
            prop_assert_eq!(effective.time.0, record_time);
        }
    }
}
