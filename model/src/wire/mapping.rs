//! Arbitrary JSON through a field mapping: where in a record of another shape the fields of an occurrence stand.
//!
//! ```toml
//! [mapping]
//! tenant = "/kubernetes/namespace"        # a JSON pointer (RFC 6901)
//! service = { constant = "checkout" }     # the same for every record
//! message = "/log"
//! ts = "/time"
//! time_format = "%d.%m.%Y %H:%M:%S"       # absent: the forms of T-1
//! zone = "Europe/Berlin"                  # absent: that of the input
//! filter = { pointer = "/kind", equals = ["error", "crash"] }
//! ```
//!
//! A record is read once, whatever the number of pointers, and nothing of it is copied that need not be. Values become
//! fields as in [`json`](super::json).

mod config;
mod pointers;

pub use config::{FilterConfig, FilterValue, MappingConfig, MappingError, Source};

use super::assemble::assemble_in;
use super::fields::{Field, FoundFields};
use super::json::reader::{Reader, Value};
use super::{DecodeSettings, Rejected, payload_text};
use crate::time::{RawTime, TimeFormat, Zone};
use crate::{Occurrence, RawRecord};
use pointers::{Found, Node};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A field mapping, checked and ready: made of a [`MappingConfig`], also by serde.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "MappingConfig", into = "MappingConfig")]
pub struct Mapping {
    config: MappingConfig,
    pointers: Node,
    constants: Vec<(Field, String)>,
    time_format: Option<TimeFormat>,
    zone: Option<Zone>,
    /// What the filtered value may be, as text; without a filter every record passes.
    filter: Option<Vec<String>>,
}

impl Mapping {
    /// What it was made of. Two mappings read alike when this is equal.
    #[must_use]
    pub fn config(&self) -> &MappingConfig {
        &self.config
    }

    fn passes(&self, value: Option<Value<'_>>) -> bool {
        let Some(equals) = &self.filter else { return true };
        match value {
            None | Some(Value::Composite(_)) => false,
            Some(value) => value.into_text().is_some_and(|text| equals.iter().any(|wanted| *wanted == text)),
        }
    }

    /// A time in the configured form; text in another form is no time.
    fn read_time<'a>(&self, ts: RawTime<'a>, zone: &Zone) -> RawTime<'a> {
        match (&self.time_format, ts) {
            (Some(format), RawTime::Number(text) | RawTime::Text(text)) => match format.read(&text, zone) {
                Some(time) => RawTime::Read { time, original: text },
                None => RawTime::Unusable(text),
            },
            (_, ts) => ts,
        }
    }
}

/// Reads a record through a mapping. `None`: the filter leaves it out.
///
/// # Errors
/// Those of [`json::decode`](super::json::decode); `duplicate_key` is for keys on the way of a pointer.
pub fn decode_mapped<'a>(
    record: RawRecord<'a>,
    mapping: &'a Mapping,
    settings: &DecodeSettings,
) -> Result<Option<Occurrence<'a>>, Rejected> {
    let mut found = Found::default();
    let mut reader = Reader::new(payload_text(record, settings)?);
    mapping.pointers.find(&mut reader, &mut found)?;
    if !mapping.passes(found.filter) {
        return Ok(None);
    }
    let mut found: FoundFields<'a> = found.fields;
    for (field, constant) in &mapping.constants {
        found.put(*field, Value::String(Cow::Borrowed(constant)))?;
    }
    let mut fields = found.finish()?;
    let zone = mapping.zone.as_ref().unwrap_or(&settings.zone);
    fields.ts = mapping.read_time(fields.ts, zone);
    assemble_in(fields, record, settings, zone).map(Some)
}

#[cfg(test)]
mod tests;
