//! Wire formats: how a record's bytes become an [`Occurrence`].
//!
//! Each format fills [`Fields`]; [`assemble`] alone decides what they mean, so that every format obeys the same rules.
//! A record that cannot be an occurrence is [`Rejected`] with its reason and costs its neighbours nothing (G-2).

mod assemble;
pub mod backfill;
mod fields;
pub mod json;
pub mod mapping;
pub mod text;

pub use assemble::{DEFAULT_TENANT, EVENT_ID_BYTES_MAX, TENANT_BYTES_MAX, assemble};

use crate::time::{RawTime, Zone};
use crate::{DeadLetter, DeadReason, RawRecord};
use std::borrow::Cow;

/// What a format read from a record, before any rule is applied. `None` is absent, which includes JSON's null (Q25).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields<'a> {
    /// Tenant; an empty one is a tenant of its own.
    pub tenant: Option<Cow<'a, str>>,
    /// When it happened.
    pub ts: RawTime<'a>,
    /// The message.
    pub message: Option<Cow<'a, str>>,
    /// Name of the level.
    pub level: Option<Cow<'a, str>>,
    /// Service name.
    pub service: Option<Cow<'a, str>>,
    /// Host name.
    pub host: Option<Cow<'a, str>>,
    /// Source, such as a logger or a file.
    pub source: Option<Cow<'a, str>>,
    /// Event type.
    pub kind: Option<Cow<'a, str>>,
    /// The message's template, where the client knows it.
    pub template_id: Option<Cow<'a, str>>,
    /// The client's own fingerprint; computed when absent or empty.
    pub fingerprint: Option<Cow<'a, str>>,
    /// The client's own id (I-2); an empty one is absent (Q34).
    pub event_id: Option<Cow<'a, str>>,
    /// Exception type.
    pub exception_type: Option<Cow<'a, str>>,
    /// Exception message: stands for a message that is absent or empty.
    pub exception_message: Option<Cow<'a, str>>,
}

/// What decoding needs to know beside the record.
#[derive(Clone, Debug)]
pub struct DecodeSettings {
    /// Longest record that is read, in bytes; a longer one is a dead letter (`too_large`).
    pub max_record_bytes: usize,
    /// T-2: how far `ts` may lie after the record time, in milliseconds.
    pub max_future_ms: i64,
    /// The zone of text without one.
    pub zone: Zone,
}

impl Default for DecodeSettings {
    fn default() -> Self {
        Self { max_record_bytes: 1024 * 1024, max_future_ms: 60_000, zone: Zone::UTC }
    }
}

/// Why a record is no occurrence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", reason.name())]
pub struct Rejected {
    /// The reason that is counted.
    pub reason: DeadReason,
    /// What exactly, for a human; short, and without the record's content beyond an excerpt.
    pub detail: Cow<'static, str>,
}

impl Rejected {
    /// A rejection with its detail.
    pub fn new(reason: DeadReason, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, detail: detail.into() }
    }

    /// The dead letter to store for the record: its first [`DeadLetter::RAW_BYTES_MAX`] bytes are kept.
    #[must_use]
    pub fn into_dead_letter(self, record: RawRecord<'_>) -> DeadLetter<'_> {
        let payload = record.payload.unwrap_or_default();
        DeadLetter {
            at: record.at,
            record_time: record.record_time,
            reason: self.reason,
            detail: self.detail,
            raw: &payload[..payload.len().min(DeadLetter::RAW_BYTES_MAX)],
        }
    }
}

impl From<Box<Rejected>> for Rejected {
    fn from(rejected: Box<Self>) -> Self {
        *rejected
    }
}

/// The record's bytes, within the limits that hold for every format: present, not empty, and not too long.
///
/// # Errors
/// `empty_record` and `too_large`.
pub fn payload_bytes<'a>(record: RawRecord<'a>, settings: &DecodeSettings) -> Result<&'a [u8], Rejected> {
    let payload = record.payload.unwrap_or_default();
    if payload.is_empty() {
        return Err(Rejected::new(DeadReason::EmptyRecord, "the record has no value"));
    }
    if payload.len() > settings.max_record_bytes {
        let detail = format!("{} bytes; max_record_bytes is {}", payload.len(), settings.max_record_bytes);
        return Err(Rejected::new(DeadReason::TooLarge, detail));
    }
    Ok(payload)
}

/// [`payload_bytes`] as text, without a byte order mark.
///
/// # Errors
/// Those of [`payload_bytes`], and `invalid_utf8`.
pub fn payload_text<'a>(record: RawRecord<'a>, settings: &DecodeSettings) -> Result<&'a str, Rejected> {
    let text = std::str::from_utf8(payload_bytes(record, settings)?)
        .map_err(|error| Rejected::new(DeadReason::InvalidUtf8, error.to_string()))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}
