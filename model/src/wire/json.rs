//! Occurrences as JSON (design, section 5): one object a record.
//!
//! | key | meaning |
//! | --- | --- |
//! | `tenant` | absent or null: `default`; an empty one is a tenant of its own (Q25) |
//! | `ts` | T-1 and T-2 |
//! | `message` | absent, null or empty: the exception's message |
//! | `level` `service` `host` `source` `type` `template_id` | text |
//! | `fingerprint` | 32 hex digits; absent, null or empty: computed |
//! | `event_id` | the client's own id (I-2); an empty one is absent (Q34) |
//! | `exception` | an object of which `type` and `message` are read |
//!
//! Where text is wanted, numbers and booleans are their text, and null is absent. All else, `attributes` and
//! `exception.stack` with it, need only be JSON: it stays in the raw record. A byte order mark is skipped. Of the keys
//! above a second one is refused (`duplicate_key`); elsewhere a repeated key harms nobody.

pub(super) mod reader;

use super::fields::{Field, FoundFields, duplicate_key};
use super::{DecodeSettings, Fields, Rejected, assemble, payload_text};
use crate::{DeadReason, Occurrence, RawRecord};
use reader::Reader;

/// Reads a record as JSON.
///
/// # Errors
/// The record is a dead letter: `empty_record`, `too_large`, `invalid_utf8`; `malformed_json` (cut off, followed by
/// more, or a lone surrogate in a text that is read), `too_deep` (more than [`DEPTH_MAX`] levels), `not_an_object`,
/// `duplicate_key`, `wrong_type` (an object or array where text is wanted, or an `exception` that is no object), and
/// those of [`assemble`].
pub fn decode<'a>(record: RawRecord<'a>, settings: &DecodeSettings) -> Result<Occurrence<'a>, Rejected> {
    assemble(fields(payload_text(record, settings)?)?, record, settings)
}

/// Levels of objects and arrays that a record may have.
pub const DEPTH_MAX: u32 = reader::DEPTH_MAX;

fn fields(text: &str) -> Result<Fields<'_>, Rejected> {
    let mut reader = Reader::new(text);
    let mut found = FoundFields::default();
    let mut exception_seen = false;
    reader.open_record()?;
    while let Some(key) = reader.next_key()? {
        let field = match &*key.unescape()? {
            "tenant" => Field::Tenant,
            "ts" => Field::Ts,
            "message" => Field::Message,
            "level" => Field::Level,
            "service" => Field::Service,
            "host" => Field::Host,
            "source" => Field::Source,
            "type" => Field::Kind,
            "template_id" => Field::TemplateId,
            "fingerprint" => Field::Fingerprint,
            "event_id" => Field::EventId,
            "exception" if exception_seen => return Err(duplicate_key("exception").into()),
            "exception" => {
                exception_seen = true;
                exception(&mut reader, &mut found)?;
                continue;
            }
            _ => {
                reader.skip_value()?;
                continue;
            }
        };
        found.put(field, reader.value()?)?;
    }
    reader.end()?;
    found.finish()
}

fn exception<'a>(reader: &mut Reader<'a>, found: &mut FoundFields<'a>) -> Result<(), Box<Rejected>> {
    if !reader.at_object() {
        return match reader.value()? {
            reader::Value::Null => Ok(()),
            _ => Err(Box::new(Rejected::new(DeadReason::WrongType, "exception is not an object"))),
        };
    }
    reader.open_object()?;
    while let Some(key) = reader.next_key()? {
        match &*key.unescape()? {
            "type" => found.put(Field::ExceptionType, reader.value()?)?,
            "message" => found.put(Field::ExceptionMessage, reader.value()?)?,
            _ => reader.skip_value()?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
