//! Durations and sizes as people write them: `"250ms"`, `"60s"`, `"5m"`, `"24h"`, `"64MiB"`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Span(pub i64);

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&write(self.0, &SPANS))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

const SPANS: [(&str, i64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: [(&str, i64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

/// Reads a whole number and one of the units.
fn read(text: &str, units: &[(&str, i64)]) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = (text[..digits].parse::<i64>().ok()?, text[digits..].trim());
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// Writes with the largest unit that divides.
fn write(value: i64, units: &[(&str, i64)]) -> String {
    // Zero is a whole number of all of them: people write 0s and 0B.
    let fitting = units.iter().filter(|(_, factor)| value % factor == 0 && (value != 0 || *factor <= 1_000));
    let (name, factor) = fitting.max_by_key(|(_, factor)| *factor).unwrap_or(&units[0]);
    format!("{}{name}", value / factor)
}

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text, &SPANS).map(Self).ok_or_else(|| "a span is a whole number and ms, s, m, h or d, such as 5m".into())
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let span = read(&text, &SPANS).map(Self);
        span.ok_or_else(|| {
            de::Error::invalid_value(de::Unexpected::Str(&text), &"a span such as \"60s\", \"5m\", \"250ms\"")
        })
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write(self.0, &SPANS))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let size = read(&text, &SIZES).and_then(|bytes| usize::try_from(bytes).ok()).map(Self);
        size.ok_or_else(|| {
            de::Error::invalid_value(de::Unexpected::Str(&text), &"a size such as \"64MiB\", \"512KiB\"")
        })
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write(self.0 as i64, &SIZES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_go_both_ways() {
        for (text, ms) in [("250ms", 250), ("60s", 60_000), ("5m", 300_000), ("36h", 129_600_000), ("0s", 0)] {
            assert_eq!(read(text, &SPANS), Some(ms), "{text}");
            assert_eq!(read(&write(ms, &SPANS), &SPANS), Some(ms), "{text}");
        }
        assert_eq!(write(60_000, &SPANS), "1m");
        assert_eq!(read("64MiB", &SIZES), Some(64 << 20));
        assert_eq!(write(1 << 20, &SIZES), "1MiB");
    }

    #[test]
    fn a_number_without_a_unit_is_refused() {
        for text in ["60", "s", "", "-5s", "1.5s", "60 parsecs", "99999999999999999999s", "9223372036854775807d"] {
            assert_eq!(read(text, &SPANS), None, "{text}");
        }
    }
}
