//! Plain text logs: what a line says, in one of the presets or a regular expression of the user's own.
//!
//! A record is a line that begins one in its format, and the lines up to the next such line: stack traces and the
//! like. [`RecordSplitter`] finds the records in a stream of bytes, [`decode`] reads one. Of the lines after the first
//! only the exception's type and message are read; all of them are kept in the raw record.

mod access;
mod exception;
mod level;
mod log4j;
mod pattern;
mod splitter;

pub use pattern::{PATTERN_BYTES_MAX, Pattern, PatternError};
pub use splitter::{Framing, RecordSplitter, SplitRecord};

use super::{DecodeSettings, Fields, Rejected, assemble, payload_text};
use crate::{DeadReason, Occurrence, RawRecord};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// How a text log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// `log4j`: lines that begin with a date and time, as log4j, logback, Spring Boot, Hadoop and Kafka write them; see
    /// the examples in the tests. A level is needed; the logger becomes `source`.
    Log4j,
    /// `access`: the common and the combined log format of Apache and nginx. The status makes the level: 5xx `error`,
    /// 4xx `warn`, else `info`. The message is method, path without ids and query, and status; `host` is the client.
    Access,
    /// `regex:...`.
    Pattern(Pattern),
}

impl TextFormat {
    /// Whether this line begins a record. The line has no line break at its end.
    #[must_use]
    pub fn begins_record(&self, line: &[u8]) -> bool {
        match self {
            Self::Log4j => log4j::begins_record(line),
            // Every line is a request, so that one that cannot be read is a dead letter of its own.
            Self::Access => true,
            Self::Pattern(pattern) => pattern.begins_record(line),
        }
    }

    /// Reads the fields of a record.
    ///
    /// # Errors
    /// `unknown_format`: the first line is not in this format.
    pub fn fields<'a>(&self, record: &'a str) -> Result<Fields<'a>, Rejected> {
        let (line, rest) = record.split_once('\n').unwrap_or((record, ""));
        let line = line.trim_end_matches('\r');
        let fields = match self {
            Self::Log4j => log4j::fields(line, rest),
            Self::Access => access::fields(line),
            Self::Pattern(pattern) => pattern.fields(line),
        };
        let mut fields = fields.ok_or_else(|| self.unknown(line))?;
        if fields.exception_type.is_none()
            && let Some(exception) = exception::find(rest)
        {
            fields.exception_type = Some(Cow::Borrowed(exception.kind));
            fields.exception_message = fields.exception_message.or(exception.message.map(Cow::Borrowed));
        }
        Ok(fields)
    }

    #[cold]
    fn unknown(&self, line: &str) -> Rejected {
        let excerpt: String = line.chars().take(80).collect();
        Rejected::new(DeadReason::UnknownFormat, format!("a line that is not in the format {self}: {excerpt:?}"))
    }
}

/// Reads a record that a [`RecordSplitter`] found.
///
/// # Errors
/// The record is a dead letter: `empty_record`, `too_large`, `invalid_utf8`; `unknown_format`; and those of
/// [`assemble`].
pub fn decode<'a>(
    record: RawRecord<'a>,
    format: &TextFormat,
    settings: &DecodeSettings,
) -> Result<Occurrence<'a>, Rejected> {
    assemble(format.fields(payload_text(record, settings)?)?, record, settings)
}

/// A format that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextFormatError {
    /// None of the known ones.
    #[error("unknown format {0:?}: want log4j, access or regex:PATTERN")]
    Unknown(String),
    /// The regular expression.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl FromStr for TextFormat {
    type Err = TextFormatError;

    fn from_str(text: &str) -> Result<Self, TextFormatError> {
        match text {
            "log4j" => Ok(Self::Log4j),
            "access" => Ok(Self::Access),
            _ => match text.strip_prefix("regex:") {
                Some(pattern) => Ok(Self::Pattern(Pattern::new(pattern)?)),
                None => Err(TextFormatError::Unknown(text.into())),
            },
        }
    }
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log4j => f.write_str("log4j"),
            Self::Access => f.write_str("access"),
            Self::Pattern(pattern) => write!(f, "regex:{}", pattern.as_str()),
        }
    }
}

#[cfg(test)]
mod tests;
