//! Event time and record time, and rules T-1 and T-2: what a `ts` field means.

use serde::{Deserialize, Serialize};

mod civil;
mod format;
mod number;
mod raw;
mod text;

pub use format::{TimeFormat, TimeFormatError};
pub use raw::{RawTime, Zone};
pub use text::parse_clf;

/// When something happened: milliseconds since 1970-01-01T00:00:00Z, negative before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventTime(pub i64);

impl EventTime {
    /// Before every time a record can have.
    pub const MIN: Self = Self(i64::MIN);

    /// After every time a record can have: the watermark of a partition that never holds anything back.
    pub const MAX: Self = Self(i64::MAX);

    /// The earliest time that the stores can hold: 1900-01-01T00:00:00Z (Q33).
    pub const EARLIEST: Self = Self(-2_208_988_800_000);

    /// The latest time that the stores can hold: 2299-12-31T23:59:59.999Z.
    pub const LATEST: Self = Self(10_413_791_999_999);

    /// This time moved by `ms` milliseconds; saturates.
    #[must_use]
    pub fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This time moved back by `ms` milliseconds; saturates.
    #[must_use]
    pub fn minus(self, ms: i64) -> Self {
        Self(self.0.saturating_sub(ms))
    }
}

/// The time Kafka holds for a record: milliseconds since 1970-01-01T00:00:00Z. The reference of T-1 and T-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordTime(pub i64);

/// A record's event time after T-1 and T-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTime {
    /// The time that counts.
    pub time: EventTime,
    /// T-1: there was no usable `ts`; the record time stands for it.
    pub missing: bool,
    /// T-2: `ts` lay too far in the future; the record time stands for it.
    pub clamped: bool,
}

impl EffectiveTime {
    /// Applies T-1 and T-2 (with Q30 to Q33) to a record's `ts`: the record time stands for one that is unusable or
    /// lies before [`EventTime::EARLIEST`], and for one more than `max_future_ms` after the record time. Text without
    /// a zone is read in `zone`.
    #[must_use]
    pub fn new(raw: &RawTime<'_>, record_time: RecordTime, max_future_ms: i64, zone: &Zone) -> Self {
        let read = match raw {
            RawTime::Absent | RawTime::Unusable(_) => None,
            RawTime::Number(text) => number::read(text),
            RawTime::Text(text) => {
                let text = text.trim();
                number::read(text).or_else(|| text::read(text, zone))
            }
            RawTime::Read { time, .. } => Some(*time),
        };
        let at_record_time = EventTime(record_time.0);
        match read {
            Some(time) if time > at_record_time.plus(max_future_ms) => {
                Self { time: at_record_time, missing: false, clamped: true }
            }
            Some(time) if time >= EventTime::EARLIEST => Self { time, missing: false, clamped: false },
            _ => Self { time: at_record_time, missing: true, clamped: false },
        }
    }
}

#[cfg(test)]
mod tests;
