//! Times in a form of the user's own: `time_format` of a field mapping.

use super::Zone;
use crate::EventTime;
use jiff::fmt::strtime;

/// A form of time in `strftime` notation, such as `%d.%m.%Y %H:%M:%S%.f`. It names a whole date and time of day, or
/// seconds since 1970 (`%s`); without an offset (`%z`, `%:z`) the zone is given. Digits below a millisecond are cut.
/// Second 60 is read as 59, unlike in T-1's own forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeFormat(String);

/// The time that a format is checked with: 2016-12-19T16:12:33.123Z, whose parts all differ.
const SAMPLE_MS: i64 = 1_482_163_953_123;

/// A [`TimeFormat`] that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeFormatError {
    /// Not in `strftime` notation, or a part that cannot be read back, such as `%Z`.
    #[error("{format:?} is no time format: {reason}")]
    Notation {
        /// The format.
        format: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It leaves open which day, or which time of day.
    #[error("{format:?} does not name a whole date and time of day (a year, a month, a day and an hour at least)")]
    Incomplete {
        /// The format.
        format: String,
    },
}

impl TimeFormat {
    /// Checks a format by writing a time in it and reading that back.
    ///
    /// # Errors
    /// When it is not in `strftime` notation or names no instant.
    pub fn new(format: &str) -> Result<Self, TimeFormatError> {
        let notation =
            |error: jiff::Error| TimeFormatError::Notation { format: format.into(), reason: error.to_string() };
        let sample = jiff::Timestamp::from_millisecond(SAMPLE_MS).map_err(notation)?.to_zoned_datetime(Zone::UTC);
        let written = strtime::format(format, &sample).map_err(notation)?;
        strtime::parse(format, &written).map_err(notation)?;
        let this = Self(format.into());
        let hour = |ms: i64| ms / 3_600_000;
        match this.read(&written, &Zone::UTC) {
            Some(read) if hour(read.0) == hour(SAMPLE_MS) => Ok(this),
            _ => Err(TimeFormatError::Incomplete { format: format.into() }),
        }
    }

    /// The format.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The time that a text in this form names; `None` when it is in another form.
    #[must_use]
    pub fn read(&self, text: &str, zone: &Zone) -> Option<EventTime> {
        let parts = strtime::parse(&self.0, text).ok()?;
        let fraction = i64::from(parts.subsec_nanosecond().unwrap_or(0) / 1_000_000);
        if let Some(seconds) = parts.timestamp() {
            return Some(EventTime(seconds.as_millisecond() + fraction));
        }
        let civil = parts.to_datetime().ok()?;
        let instant = match (parts.offset(), parts.iana_time_zone()) {
            (Some(offset), _) => offset.to_timestamp(civil),
            (None, Some(name)) => Zone::get(name).and_then(|zone| zone.to_timestamp(civil)),
            (None, None) => zone.to_timestamp(civil),
        };
        // Floored, also before 1970 (Q31), which `as_millisecond` is not.
        Some(EventTime(instant.ok()?.as_nanosecond().div_euclid(1_000_000) as i64))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(format: &str, text: &str) -> Option<i64> {
        TimeFormat::new(format).unwrap().read(text, &Zone::UTC).map(|time| time.0)
    }

    #[test]
    fn a_format_reads_what_it_describes_and_nothing_else() {
        assert_eq!(read("%d.%m.%Y %H:%M:%S%.f", "19.12.2016 16:12:33.123999"), Some(1_482_163_953_123));
        assert_eq!(read("%d/%b/%Y:%H:%M:%S %z", "19/Dec/2016:17:12:33 +0100"), Some(1_482_163_953_000));
        assert_eq!(read("%Y%m%d%H%M%S", "20161219161233"), Some(1_482_163_953_000));
        assert_eq!(read("%s.%f", "1482163953.123"), Some(1_482_163_953_123));
        assert_eq!(read("%Y-%m-%d %H:%M:%S%.f", "1969-12-31 23:59:59.9999"), Some(-1));
        assert_eq!(read("%d.%m.%Y %H:%M", "2016-12-19 16:12"), None);
        assert_eq!(read("%d.%m.%Y %H:%M", "30.02.2016 16:12"), None);
    }

    #[test]
    fn a_format_without_an_offset_is_in_the_given_zone() {
        let format = TimeFormat::new("%F %T").unwrap();
        let berlin = Zone::get("Europe/Berlin").unwrap();
        let time = format.read("2016-12-19 17:12:33", &berlin).unwrap();
        assert_eq!(time.0, 1_482_163_953_000);
    }

    #[test]
    fn a_format_that_names_no_instant_is_refused() {
        for format in ["", "%H:%M:%S", "%b %d %H:%M:%S", "%Y-%m-%d"] {
            let refused = TimeFormat::new(format);
            assert!(matches!(refused, Err(TimeFormatError::Incomplete { .. })), "{format}: {refused:?}");
        }
        for format in ["%", "%F %T %Z", "%F %T %!"] {
            let refused = TimeFormat::new(format);
            assert!(matches!(refused, Err(TimeFormatError::Notation { .. })), "{format}: {refused:?}");
        }
    }
}
