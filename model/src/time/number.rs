//! T-1: numbers and strings of digits, by their magnitude.

use crate::EventTime;

/// Below this a number counts seconds; a thousand times as much per step: milliseconds, microseconds, nanoseconds.
const SECONDS_END: u64 = 100_000_000_000;

/// A nano of the number's own unit: the fixed point in which decimals are compared and cut.
const NANO: u128 = 1_000_000_000;

/// Significant digits that are kept; more would be below the fixed point, or beyond 64 bits.
const DIGITS_MAX: u32 = 38;

/// The time that a positive number names. `None` when the text is no number (JSON's grammar, leading zeros allowed),
/// when it is zero or negative (T-1), or when it needs more than 64 bits (Q32). Digits below a millisecond are cut
/// (Q31).
pub(super) fn read(text: &str) -> Option<EventTime> {
    match whole(text.as_bytes()) {
        Some(0) => None,
        Some(number) => Some(EventTime(milliseconds(number))),
        None => decimal(text.as_bytes()),
    }
}

/// The value of up to 19 digits and nothing else: the common case, which cannot overflow.
fn whole(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
}

fn milliseconds(number: u64) -> i64 {
    let ms = match number {
        _ if number < SECONDS_END => number * 1_000,
        _ if number < SECONDS_END * 1_000 => number,
        _ if number < SECONDS_END * 1_000_000 => number / 1_000,
        _ => number / 1_000_000,
    };
    // At most 1e14, or a 64-bit number of nanoseconds.
    ms as i64
}

/// Any other number: with a fraction, an exponent, or many digits.
fn decimal(text: &[u8]) -> Option<EventTime> {
    let nanos = fixed_point(text)?;
    let number = u64::try_from(nanos / NANO).ok()?;
    if number >= SECONDS_END {
        // The fraction is below a millisecond.
        return Some(EventTime(milliseconds(number)));
    }
    i64::try_from(nanos / (NANO / 1_000)).ok().map(EventTime)
}

/// The number in billionths, floored; `None` as for [`read`], or when it is far beyond 64 bits.
fn fixed_point(text: &[u8]) -> Option<u128> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => match split_digits(rest) {
            ([], _) => return None,
            split => split,
        },
        _ => (&[][..], rest),
    };
    if whole.is_empty() {
        return None;
    }
    let mut exponent = exponent(rest)?;
    let mut digits = 0_u128;
    let mut kept = 0;
    for (position, byte) in whole.iter().chain(fraction).enumerate() {
        let in_fraction = position >= whole.len();
        if kept == DIGITS_MAX {
            // Cut: in the whole part the next digit's place still counts.
            exponent = exponent.saturating_add(i64::from(!in_fraction));
            continue;
        }
        digits = digits * 10 + u128::from(byte - b'0');
        kept += u32::from(digits != 0);
        exponent = exponent.saturating_sub(i64::from(in_fraction));
    }
    if digits == 0 {
        return None;
    }
    let shift = exponent.saturating_add(9);
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|shift| 10_u128.checked_pow(shift));
    match (shift >= 0, power) {
        (true, power) => digits.checked_mul(power?),
        (false, power) => Some(power.map_or(0, |power| digits / power)),
    }
}

/// The exponent that `rest` writes: 0 when it is empty, `None` when it is anything else. A huge one saturates.
fn exponent(rest: &[u8]) -> Option<i64> {
    let (negative, digits) = match rest {
        [] => return Some(0),
        [b'e' | b'E', b'-', digits @ ..] => (true, digits),
        [b'e' | b'E', b'+', digits @ ..] | [b'e' | b'E', digits @ ..] => (false, digits),
        _ => return None,
    };
    let (digits, []) = split_digits(digits) else { return None };
    if digits.is_empty() {
        return None;
    }
    let size = digits.iter().fold(0_i64, |size, byte| size.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    Some(if negative { -size } else { size })
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn ms(text: &str) -> Option<i64> {
        read(text).map(|time| time.0)
    }

    #[test]
    fn t1_magnitude_decides_the_unit() {
        assert_eq!(ms("99999999999"), Some(99_999_999_999_000));
        assert_eq!(ms("100000000000"), Some(100_000_000_000));
        assert_eq!(ms("99999999999999"), Some(99_999_999_999_999));
        assert_eq!(ms("100000000000000"), Some(100_000_000_000));
        assert_eq!(ms("99999999999999999"), Some(99_999_999_999_999));
        assert_eq!(ms("100000000000000000"), Some(100_000_000_000));
        assert_eq!(ms("99999999999.9999999999"), Some(99_999_999_999_999));
        assert_eq!(ms("1"), Some(1_000));
    }

    #[test]
    fn t1_decimals_and_exponents_are_exact() {
        assert_eq!(ms("1767225660.0"), Some(1_767_225_660_000));
        assert_eq!(ms("1767225660.123"), Some(1_767_225_660_123));
        assert_eq!(ms("1.7e9"), Some(1_700_000_000_000));
        assert_eq!(ms("1.7E+9"), Some(1_700_000_000_000));
        assert_eq!(ms("17000000000000e-4"), Some(1_700_000_000_000));
        assert_eq!(ms("1767225660123.999"), Some(1_767_225_660_123));
        assert_eq!(ms("0.0009"), Some(0));
        assert_eq!(ms("1e-400"), Some(0));
    }

    #[test]
    fn q31_digits_below_a_millisecond_are_cut() {
        assert_eq!(ms("1767225599.9999"), Some(1_767_225_599_999));
        assert_eq!(ms("1767225599999999999"), Some(1_767_225_599_999));
    }

    #[test]
    fn t1_zero_and_negative_numbers_are_no_time() {
        for text in ["0", "-0", "0.0", "0e9", "000", "-1", "-1767225660", "-1.5e3"] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn q32_what_is_no_number_or_beyond_64_bits_is_no_time() {
        for text in ["", "NaN", "Infinity", "1.", ".5", "1e", "1e+", "1x", "0x10", "+1", "1 2", "1_000", "１"] {
            assert_eq!(ms(text), None, "{text}");
        }
        assert_eq!(ms("18446744073709551615"), Some(18_446_744_073_709));
        assert_eq!(ms("18446744073709551616"), None);
        assert_eq!(ms("1e20"), None);
        assert_eq!(ms("1e999999999999999999999"), None);
        assert_eq!(ms(&format!("1{}", "0".repeat(5_000))), None);
        assert_eq!(ms(&format!("1{}e-5000", "0".repeat(5_009))), Some(1_000_000_000_000));
        assert_eq!(ms(&format!("1767225660.5{}", "0".repeat(5_000))), Some(1_767_225_660_500));
        assert_eq!(ms(&format!("{}1767225660", "0".repeat(60))), Some(1_767_225_660_000));
    }

    proptest! {
        #[test]
        fn every_way_to_write_a_millisecond_is_the_same(ms_value in 100_000_000_000_i64..18_000_000_000_000) {
            let seconds = format!("{}.{:03}", ms_value / 1_000, ms_value % 1_000);
            let digits = ms_value.to_string();
            let scientific = format!("{}.{}e{}", &digits[..1], &digits[1..], digits.len() - 1);
            for text in [format!("{ms_value}"), format!("{ms_value}000"), format!("{ms_value}999999"), seconds, scientific] {
                prop_assert_eq!(ms(&text), Some(ms_value), "{}", text);
            }
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.eE]{0,60}") {
            let _ = read(&text);
        }
    }
}
