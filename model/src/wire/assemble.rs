//! From fields to an occurrence: the rules that hold for every format.

use super::{DecodeSettings, Fields, Rejected};
use crate::fingerprint::{self, FingerprintInput};
use crate::time::{EffectiveTime, Zone};
use crate::{DeadReason, EventTime, Fingerprint, Identity, Level, Occurrence, RawRecord};
use std::borrow::Cow;

/// The tenant of a record that names none (Q25).
pub const DEFAULT_TENANT: &str = "default";

/// Longest tenant, in bytes.
pub const TENANT_BYTES_MAX: usize = 256;

/// Longest `event_id`, in bytes.
pub const EVENT_ID_BYTES_MAX: usize = 1024;

/// Makes an occurrence of what a format read.
///
/// The tenant and `event_id` are keys and have limits of their own; every other text is as long as the record allows
/// and never shortened.
///
/// # Errors
/// - `key_too_long`: the tenant or the `event_id` is beyond [`TENANT_BYTES_MAX`] or [`EVENT_ID_BYTES_MAX`].
/// - `nul_in_key`: a NUL in the tenant or the fingerprint (Q52).
/// - `bad_fingerprint`: a fingerprint that is not 32 hex digits.
/// - `time_out_of_range`: the effective time is one that the stores cannot hold; only a record time can be so.
pub fn assemble<'a>(
    fields: Fields<'a>,
    record: RawRecord<'a>,
    settings: &DecodeSettings,
) -> Result<Occurrence<'a>, Rejected> {
    assemble_in(fields, record, settings, &settings.zone)
}

/// [`assemble`] with another zone for text without one.
pub(super) fn assemble_in<'a>(
    fields: Fields<'a>,
    record: RawRecord<'a>,
    settings: &DecodeSettings,
    zone: &Zone,
) -> Result<Occurrence<'a>, Rejected> {
    let tenant = fields.tenant.unwrap_or(Cow::Borrowed(DEFAULT_TENANT));
    let event_id = fields.event_id.unwrap_or_default();
    refuse_long("tenant", &tenant, TENANT_BYTES_MAX)?;
    refuse_long("event_id", &event_id, EVENT_ID_BYTES_MAX)?;
    refuse_nul("tenant", &tenant)?;

    let effective = EffectiveTime::new(&fields.ts, record.record_time, settings.max_future_ms, zone);
    if !(EventTime::EARLIEST..=EventTime::LATEST).contains(&effective.time) {
        let detail = format!("record time {} ms is not within 1900 to 2299", effective.time.0);
        return Err(Rejected::new(DeadReason::TimeOutOfRange, detail));
    }

    let level = Level::from_name(fields.level.as_deref());
    let service = fields.service.unwrap_or_default();
    let exception_type = fields.exception_type.unwrap_or_default();
    let message = present(fields.message).or(fields.exception_message).unwrap_or_default();
    let fingerprint = match present(fields.fingerprint) {
        Some(given) => given_fingerprint(&given)?,
        None => fingerprint::compute(&FingerprintInput {
            service: &service,
            level,
            exception_type: &exception_type,
            message: &message,
        }),
    };
    let identity = match &*event_id {
        "" => Identity::of_record(record.at),
        event_id => Identity::of_event(&tenant, event_id),
    };
    Ok(Occurrence {
        fingerprint,
        ts: effective.time,
        ts_missing: effective.missing,
        ts_clamped: effective.clamped,
        ts_original: match effective.missing || effective.clamped {
            true => fields.ts.into_original(),
            false => Cow::Borrowed(""),
        },
        level,
        service,
        host: fields.host.unwrap_or_default(),
        source: fields.source.unwrap_or_default(),
        kind: fields.kind.unwrap_or_default(),
        template_id: fields.template_id.unwrap_or_default(),
        message,
        exception_type,
        event_id,
        identity,
        tenant,
        at: record.at,
        origin: None,
        record_time: record.record_time,
        raw: Cow::Borrowed(record.payload.unwrap_or_default()),
    })
}

/// The text, unless it is empty.
fn present(text: Option<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    text.filter(|text| !text.is_empty())
}

fn given_fingerprint(text: &str) -> Result<Fingerprint, Rejected> {
    refuse_nul("fingerprint", text)?;
    Fingerprint::from_hex(text).ok_or_else(|| {
        let excerpt: String = text.chars().take(40).collect();
        Rejected::new(DeadReason::BadFingerprint, format!("fingerprint {excerpt:?}: want 32 hex digits"))
    })
}

fn refuse_long(name: &str, text: &str, bytes_max: usize) -> Result<(), Rejected> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(Rejected::new(DeadReason::KeyTooLong, format!("{name} has {} bytes; at most {bytes_max}", text.len())))
}

fn refuse_nul(name: &str, text: &str) -> Result<(), Rejected> {
    match text.bytes().position(|byte| byte == 0) {
        None => Ok(()),
        Some(position) => Err(Rejected::new(DeadReason::NulInKey, format!("{name} has a NUL at byte {position}"))),
    }
}

#[cfg(test)]
mod tests;
