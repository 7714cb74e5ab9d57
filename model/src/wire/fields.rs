//! The fields of an occurrence by name, and how JSON values become them.

use super::json::reader::Value;
use super::{Fields, Rejected};
use crate::DeadReason;
use crate::time::RawTime;
use std::borrow::Cow;

/// One field of [`Fields`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Field {
    Tenant,
    Ts,
    Message,
    Level,
    Service,
    Host,
    Source,
    Kind,
    TemplateId,
    Fingerprint,
    EventId,
    ExceptionType,
    ExceptionMessage,
}

impl Field {
    pub(super) const COUNT: usize = 13;

    /// The name for people, and in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Ts => "ts",
            Self::Message => "message",
            Self::Level => "level",
            Self::Service => "service",
            Self::Host => "host",
            Self::Source => "source",
            Self::Kind => "type",
            Self::TemplateId => "template_id",
            Self::Fingerprint => "fingerprint",
            Self::EventId => "event_id",
            Self::ExceptionType => "exception_type",
            Self::ExceptionMessage => "exception_message",
        }
    }
}

/// Fields of which the JSON values are found one by one.
#[derive(Default)]
pub(super) struct FoundFields<'a> {
    fields: Fields<'a>,
    /// One bit a field, so that a second value is noticed, also after a null.
    seen: u16,
    wrong_type: Option<Field>,
}

impl<'a> FoundFields<'a> {
    /// Keeps the value of a field. Where text is wanted, numbers and booleans are their text.
    ///
    /// # Errors
    /// `duplicate_key` when it has one: which of the two was meant cannot be known.
    #[inline]
    pub(super) fn put(&mut self, field: Field, value: Value<'a>) -> Result<(), Box<Rejected>> {
        let bit = 1 << field as u16;
        if self.seen & bit != 0 {
            return Err(duplicate_key(field.name()));
        }
        self.seen |= bit;
        match (self.text_slot(field), value) {
            (None, value) => self.fields.ts = raw_time(value),
            (Some(_), Value::Composite(_)) => self.wrong_type = Some(field),
            (Some(slot), value) => *slot = value.into_text(),
        }
        Ok(())
    }

    /// The fields.
    ///
    /// # Errors
    /// `wrong_type` when an object or array was put where text is wanted.
    pub(super) fn finish(self) -> Result<Fields<'a>, Rejected> {
        match self.wrong_type {
            None => Ok(self.fields),
            Some(field) => {
                let detail = format!("{} is an object or an array; want text", field.name());
                Err(Rejected::new(DeadReason::WrongType, detail))
            }
        }
    }

    /// Where the text of a field is kept; `None` for the time.
    #[inline]
    fn text_slot(&mut self, field: Field) -> Option<&mut Option<Cow<'a, str>>> {
        let fields = &mut self.fields;
        Some(match field {
            Field::Ts => return None,
            Field::Tenant => &mut fields.tenant,
            Field::Message => &mut fields.message,
            Field::Level => &mut fields.level,
            Field::Service => &mut fields.service,
            Field::Host => &mut fields.host,
            Field::Source => &mut fields.source,
            Field::Kind => &mut fields.kind,
            Field::TemplateId => &mut fields.template_id,
            Field::Fingerprint => &mut fields.fingerprint,
            Field::EventId => &mut fields.event_id,
            Field::ExceptionType => &mut fields.exception_type,
            Field::ExceptionMessage => &mut fields.exception_message,
        })
    }
}

fn raw_time(value: Value<'_>) -> RawTime<'_> {
    match value {
        Value::Null => RawTime::Absent,
        Value::Number(text) => RawTime::Number(Cow::Borrowed(text)),
        Value::String(text) => RawTime::Text(text),
        Value::Bool(value) => RawTime::Unusable(Cow::Borrowed(bool_text(value))),
        Value::Composite(text) => RawTime::Unusable(Cow::Borrowed(text)),
    }
}

/// Rejects a record in which a key that is read stands twice.
#[cold]
pub(super) fn duplicate_key(name: &str) -> Box<Rejected> {
    Box::new(Rejected::new(DeadReason::DuplicateKey, format!("{name} stands twice")))
}

pub(super) fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
