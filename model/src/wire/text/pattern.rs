//! `regex:...`: a regular expression whose named groups are the fields.

use super::level;
use crate::time::{RawTime, parse_clf};
use crate::wire::Fields;
use crate::wire::fields::Field;
use regex::{Regex, RegexBuilder};
use std::borrow::Cow;

/// A regular expression that reads the first line of a record, and by matching a line says that one begins there. It
/// is not anchored: begin it with `^` if other lines could match. Its groups are named like the fields; `message` is
/// needed.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// Which group holds which field.
    groups: Vec<(usize, Field)>,
}

/// Longest regular expression, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Largest compiled regular expression, in bytes of memory.
const PROGRAM_BYTES_MAX: usize = 1024 * 1024;

/// The names that groups may have. Some fields go by more than one.
const GROUPS: [(&str, Field); 16] = [
    ("ts", Field::Ts),
    ("level", Field::Level),
    ("message", Field::Message),
    ("tenant", Field::Tenant),
    ("service", Field::Service),
    ("host", Field::Host),
    ("source", Field::Source),
    ("logger", Field::Source),
    ("type", Field::Kind),
    ("template_id", Field::TemplateId),
    ("fingerprint", Field::Fingerprint),
    ("event_id", Field::EventId),
    ("exception", Field::ExceptionType),
    ("exception_type", Field::ExceptionType),
    ("exception_message", Field::ExceptionMessage),
    ("time", Field::Ts),
];

/// A [`Pattern`] that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`PATTERN_BYTES_MAX`].
    #[error("the regular expression has {0} bytes; at most {PATTERN_BYTES_MAX}")]
    TooLong(usize),
    /// No regular expression, or one that needs too much memory.
    #[error("the regular expression cannot be used: {0}")]
    Notation(String),
    /// A group with a name of its own.
    #[error("the regular expression has a group {name:?}: want {}", known_groups())]
    UnknownGroup {
        /// The name.
        name: String,
    },
    /// Two groups for one field, such as `source` and `logger`.
    #[error("the regular expression has two groups for {field}")]
    TwoGroups {
        /// The field.
        field: &'static str,
    },
    /// No group `message`.
    #[error("the regular expression has no group (?<message>...)")]
    NoMessage,
}

fn known_groups() -> String {
    GROUPS.map(|(name, _)| name).join(", ")
}

impl Pattern {
    /// Checks and compiles a regular expression.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong(pattern.len()));
        }
        let regex = RegexBuilder::new(pattern)
            .size_limit(PROGRAM_BYTES_MAX)
            .build()
            .map_err(|error| PatternError::Notation(error.to_string()))?;
        let mut groups: Vec<(usize, Field)> = Vec::new();
        for (group, name) in regex.capture_names().enumerate() {
            let Some(name) = name else { continue };
            let Some(&(_, field)) = GROUPS.iter().find(|(known, _)| *known == name) else {
                return Err(PatternError::UnknownGroup { name: name.into() });
            };
            if groups.iter().any(|(_, taken)| *taken == field) {
                return Err(PatternError::TwoGroups { field: field.name() });
            }
            groups.push((group, field));
        }
        if !groups.iter().any(|(_, field)| *field == Field::Message) {
            return Err(PatternError::NoMessage);
        }
        Ok(Self { regex, groups })
    }

    /// The regular expression.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    pub(super) fn begins_record(&self, line: &[u8]) -> bool {
        self.regex.is_match(&String::from_utf8_lossy(line))
    }

    pub(super) fn fields<'a>(&self, line: &'a str) -> Option<Fields<'a>> {
        let captures = self.regex.captures(line)?;
        let mut fields = Fields::default();
        for &(group, field) in &self.groups {
            let Some(text) = captures.get(group).map(|found| found.as_str()) else { continue };
            put(&mut fields, field, text);
        }
        Some(fields)
    }
}

/// Two patterns are equal when they are written alike.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

fn put<'a>(fields: &mut Fields<'a>, field: Field, text: &'a str) {
    let text = Cow::Borrowed(text);
    let slot = match field {
        Field::Ts => {
            fields.ts = match parse_clf(&text) {
                Some(time) => RawTime::Read { time, original: text },
                None => RawTime::Text(text),
            };
            return;
        }
        Field::Level => {
            // A word that names no level goes on as it is, and counts as Q48 says.
            fields.level = Some(level::of_word(text.trim()).map_or(text, |level| Cow::Borrowed(level.name())));
            return;
        }
        Field::Message => &mut fields.message,
        Field::Tenant => &mut fields.tenant,
        Field::Service => &mut fields.service,
        Field::Host => &mut fields.host,
        Field::Source => &mut fields.source,
        Field::Kind => &mut fields.kind,
        Field::TemplateId => &mut fields.template_id,
        Field::Fingerprint => &mut fields.fingerprint,
        Field::EventId => &mut fields.event_id,
        Field::ExceptionType => &mut fields.exception_type,
        Field::ExceptionMessage => &mut fields.exception_message,
    };
    *slot = Some(text);
}
