//! T-1: RFC 3339 and ISO 8601 text, and the time of an access log.

use super::Zone;
use super::civil::Civil;
use crate::EventTime;

/// Reads `2026-01-01T00:01:00.5Z` and its kin: `T`, `t` or a space between date and time; seconds may be left out; a
/// fraction of 1 to 9 digits after a point or a comma, cut below a millisecond (Q31); then `Z`, an offset (`+05:30`,
/// `+0530`, `+05`, also after a space) or nothing, which means `zone`. The text is taken literally, also before 1970
/// (Q30). `None` for everything else.
pub(super) fn read(text: &str, zone: &Zone) -> Option<EventTime> {
    let mut rest = Cursor(text.as_bytes());
    let year = rest.number(4)?;
    rest.expect(b"-")?;
    let month = rest.number(2)?;
    rest.expect(b"-")?;
    let day = rest.number(2)?;
    rest.expect(b"Tt ")?;
    let hour = rest.number(2)?;
    rest.expect(b":")?;
    let minute = rest.number(2)?;
    let mut civil = Civil { year, month, day, hour, minute, second: 0, millisecond: 0 };
    if rest.expect(b":").is_some() {
        civil.second = rest.number(2)?;
        if rest.expect(b".,").is_some() {
            civil.millisecond = rest.fraction()?;
        }
    }
    match rest.0 {
        [] => civil.instant_in(zone),
        [b'Z' | b'z'] => civil.instant(0),
        [b' ', offset @ ..] | offset => civil.instant(Cursor(offset).offset()?),
    }
}

/// Reads the time of the common log format, `19/Dec/2016:16:12:33 +0000`. `None` for everything else.
#[must_use]
pub fn parse_clf(text: &str) -> Option<EventTime> {
    let mut rest = Cursor(text.as_bytes());
    let day = rest.number(2)?;
    rest.expect(b"/")?;
    let month = rest.month_name()?;
    rest.expect(b"/")?;
    let year = rest.number(4)?;
    rest.expect(b":")?;
    let hour = rest.number(2)?;
    rest.expect(b":")?;
    let minute = rest.number(2)?;
    rest.expect(b":")?;
    let second = rest.number(2)?;
    rest.expect(b" ")?;
    Civil { year, month, day, hour, minute, second, millisecond: 0 }.instant(rest.offset()?)
}

/// What is left of a text.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// The next byte, if it is one of these.
    fn expect(&mut self, any_of: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        any_of.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// A number of exactly `width` digits.
    fn number(&mut self, width: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(width)?;
        self.0 = rest;
        digits.iter().try_fold(0, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then(|| number * 10 + i64::from(digit))
        })
    }

    /// Milliseconds of a fraction of 1 to 9 digits.
    fn fraction(&mut self) -> Option<i64> {
        let width = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&width) {
            return None;
        }
        let kept = width.min(3);
        let milliseconds = self.number(kept)? * [0, 100, 10, 1][kept];
        self.0 = &self.0[width - kept..];
        Some(milliseconds)
    }

    /// Seconds of an offset that ends the text.
    fn offset(&mut self) -> Option<i64> {
        let sign = if self.expect(b"+-")? == b'-' { -1 } else { 1 };
        let hours = self.number(2)?;
        let minutes = match self.0 {
            [] => 0,
            _ => {
                self.expect(b":");
                self.number(2)?
            }
        };
        (self.0.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
    }

    /// The number of a month by its English name of three letters.
    fn month_name(&mut self) -> Option<i64> {
        const NAMES: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
        let (name, rest) = self.0.split_at_checked(3)?;
        self.0 = rest;
        let index = NAMES.chunks_exact(3).position(|known| known.eq_ignore_ascii_case(name))?;
        i64::try_from(index + 1).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn ms(text: &str) -> Option<i64> {
        read(text, &Zone::UTC).map(|time| time.0)
    }

    #[test]
    fn t1_every_form_names_the_same_minute() {
        const MINUTE: i64 = 1_767_225_660_000;
        for text in [
            "2026-01-01T00:01:00Z",
            "2026-01-01t00:01:00z",
            "2026-01-01 00:01:00",
            "2026-01-01T00:01",
            "2026-01-01T05:31:00+05:30",
            "2026-01-01T05:31:00+0530",
            "2026-01-01T05:01:00+05",
            "2026-01-01 00:01:00 +0000",
            "2025-12-31T19:01:00.000-05:00",
            "2026-01-01T00:00:60Z",
        ] {
            assert_eq!(ms(text), Some(MINUTE), "{text}");
        }
        assert_eq!(ms("2026-01-01T00:01:00,5Z"), Some(MINUTE + 500));
        assert_eq!(ms("2026-01-01T00:01:00.123456789Z"), Some(MINUTE + 123));
        assert_eq!(ms("2016-12-19 16:12:33,123"), Some(1_482_163_953_123));
    }

    #[test]
    fn q31_the_fraction_is_cut_also_before_1970() {
        assert_eq!(ms("2026-01-01T00:00:59.9999Z"), Some(1_767_225_659_999));
        assert_eq!(ms("1969-12-31T23:59:59.9999Z"), Some(-1));
        assert_eq!(ms("1969-12-31T23:59:59Z"), Some(-1_000));
        assert_eq!(ms("1969-12-31T23:59:60Z"), Some(0));
    }

    #[test]
    fn q32_what_is_no_such_text_is_no_time() {
        for text in [
            "",
            "yesterday",
            "2026-01-01",
            "2026-01-01T",
            "2026-01-01T00",
            "2026-01-01T00:01:",
            "2026-01-01T00:01:00.",
            "2026-01-01T00:01:00.Z",
            "2026-01-01T00:01:00.1234567890Z",
            "2026-01-01T00:01:00ZZ",
            "2026-01-01T00:01:00+",
            "2026-01-01T00:01:00+5",
            "2026-01-01T00:01:00+053",
            "2026-01-01T00:01:00+05:30:00",
            "2026-01-01T00:01:00+24:00",
            "2026-01-01T00:01:00+05:60",
            "2026-01-01T00:01:00 ",
            "2026-01-01T24:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T00:00:61Z",
            "2026-1-1T00:00:00Z",
            "+2026-01-01T00:00:00Z",
            "12026-01-01T00:00:00Z",
            "2026-01-01T00:01:0éZ",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn text_without_a_zone_is_in_the_given_one_and_text_with_one_is_not() {
        let berlin = Zone::get("Europe/Berlin").unwrap();
        let read_ms = |text| read(text, &berlin).unwrap().0;
        assert_eq!(read_ms("2026-07-01 12:00:00,250"), ms("2026-07-01T10:00:00.250Z").unwrap());
        assert_eq!(read_ms("2026-07-01T12:00:60"), ms("2026-07-01T10:01:00Z").unwrap());
        assert_eq!(read_ms("2026-07-01T12:00:00Z"), ms("2026-07-01T12:00:00Z").unwrap());
    }

    #[test]
    fn the_access_log_form() {
        let time = parse_clf("19/Dec/2016:16:12:33 +0000").map(|time| time.0);
        assert_eq!(time, Some(1_482_163_953_000));
        assert_eq!(parse_clf("19/dec/2016:17:12:33 +0100").map(|time| time.0), time);
        for text in ["", "19/Dez/2016:16:12:33 +0000", "31/Feb/2016:16:12:33 +0000", "19/Dec/2016:16:12:33"] {
            assert_eq!(parse_clf(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_calendar_library(second in -62_135_596_800_i64..253_402_300_799, nanosecond in 0_i32..1_000_000_000) {
            let at = jiff::Timestamp::new(second, 0).unwrap();
            let civil = Zone::UTC.to_datetime(at).to_string();
            let text = format!("{civil}.{nanosecond:09}Z");
            let expected = second * 1_000 + i64::from(nanosecond / 1_000_000);
            prop_assert_eq!(ms(&text), Some(expected), "{}", text);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[-+0-9:TZ ,.é/]{0,40}") {
            let _ = read(&text, &Zone::UTC);
            let _ = parse_clf(&text);
        }
    }
}
