//! A timestamp as a record gives it, before T-1.

use crate::EventTime;
use std::borrow::Cow;

/// The zone that text without one is read in.
pub type Zone = jiff::tz::TimeZone;

/// A `ts` field as it stood in the record, before T-1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RawTime<'a> {
    /// Missing or null.
    #[default]
    Absent,
    /// A JSON number, as its text.
    Number(Cow<'a, str>),
    /// A JSON string, unescaped, or the time of a text log in one of T-1's forms.
    Text(Cow<'a, str>),
    /// A text that its format has read already, such as an access log's time.
    Read {
        /// What it says.
        time: EventTime,
        /// The text.
        original: Cow<'a, str>,
    },
    /// What is no time: a boolean, an object, an array, or text that does not match the format given for it.
    Unusable(Cow<'a, str>),
}

impl<'a> RawTime<'a> {
    /// The text as it stood in the record; empty when there was none.
    #[must_use]
    pub fn into_original(self) -> Cow<'a, str> {
        match self {
            Self::Absent => Cow::Borrowed(""),
            Self::Number(text) | Self::Text(text) | Self::Unusable(text) | Self::Read { original: text, .. } => text,
        }
    }
}
