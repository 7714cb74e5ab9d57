//! Times for people.

use floodmark_model::EventTime;

/// A time in RFC 3339, to the second; in milliseconds where no calendar reaches.
#[must_use]
pub(crate) fn shown_time(time: EventTime) -> String {
    jiff::Timestamp::from_millisecond(time.0).map_or_else(|_| format!("{} ms", time.0), |stamp| format!("{stamp:.0}"))
}
