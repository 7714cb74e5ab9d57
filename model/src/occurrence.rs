//! One error event, as read from the log and as stored.

use crate::{Coordinates, EventTime, Fingerprint, Identity, Level, RecordTime};
use std::borrow::Cow;

/// A record as the log holds it, before anything is read into it.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// Where it stands.
    pub at: Coordinates,
    /// The time the log holds for it.
    pub record_time: RecordTime,
    /// Its bytes; `None` is a record without a value.
    pub payload: Option<&'a [u8]>,
}

/// One error event, ready to be counted and stored. Text that was absent is empty, since both are counted alike;
/// where absent and empty differ (tenant, `event_id`) that is decided before.
#[derive(Clone, Debug, PartialEq)]
pub struct Occurrence<'a> {
    /// Tenant; `default` when the record named none.
    pub tenant: Cow<'a, str>,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// Effective event time (T-1, T-2).
    pub ts: EventTime,
    /// T-1 used the record time.
    pub ts_missing: bool,
    /// T-2 used the record time.
    pub ts_clamped: bool,
    /// The original `ts` text where the record time stands for it, else empty.
    pub ts_original: Cow<'a, str>,
    /// Severity (Q48).
    pub level: Level,
    /// Service name.
    pub service: Cow<'a, str>,
    /// Host name.
    pub host: Cow<'a, str>,
    /// Source, such as a logger or a file.
    pub source: Cow<'a, str>,
    /// Event type.
    pub kind: Cow<'a, str>,
    /// The message's template, where the client knows it.
    pub template_id: Cow<'a, str>,
    /// The message.
    pub message: Cow<'a, str>,
    /// Exception type.
    pub exception_type: Cow<'a, str>,
    /// The client's own id (I-2); empty when absent (Q34).
    pub event_id: Cow<'a, str>,
    /// Which records are this same occurrence.
    pub identity: Identity,
    /// Where the record stands in the log.
    pub at: Coordinates,
    /// Where the record stands that this one was backfilled for (design, decision 13).
    pub origin: Option<Coordinates>,
    /// The time the log holds for it; for a backfilled one, that of its origin.
    pub record_time: RecordTime,
    /// The whole record, as read.
    pub raw: Cow<'a, [u8]>,
}

/// Why a record cannot be an occurrence (G-2). The names are metric labels and column values: stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeadReason {
    /// The record has no value.
    EmptyRecord,
    /// Longer than the limit (`max_record_bytes`).
    TooLarge,
    /// Not UTF-8.
    InvalidUtf8,
    /// Not JSON, cut off, or followed by more.
    MalformedJson,
    /// JSON nested deeper than the limit.
    TooDeep,
    /// JSON, but not an object.
    NotAnObject,
    /// A key stands twice.
    DuplicateKey,
    /// A field has a type that cannot be read as what it is.
    WrongType,
    /// A NUL in a key field (Q52).
    NulInKey,
    /// A key field is longer than its limit.
    KeyTooLong,
    /// The `fingerprint` is not 32 hex digits.
    BadFingerprint,
    /// The event time lies outside what the stores can hold.
    TimeOutOfRange,
    /// A text record does not match its format.
    UnknownFormat,
    /// More distinct tenants than the limit (`max_tenants`).
    TooManyTenants,
    /// A header of a backfilled record cannot be read.
    BadHeader,
}

impl DeadReason {
    /// Every reason.
    pub const ALL: [Self; 15] = [
        Self::EmptyRecord,
        Self::TooLarge,
        Self::InvalidUtf8,
        Self::MalformedJson,
        Self::TooDeep,
        Self::NotAnObject,
        Self::DuplicateKey,
        Self::WrongType,
        Self::NulInKey,
        Self::KeyTooLong,
        Self::BadFingerprint,
        Self::TimeOutOfRange,
        Self::UnknownFormat,
        Self::TooManyTenants,
        Self::BadHeader,
    ];

    /// The stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EmptyRecord => "empty_record",
            Self::TooLarge => "too_large",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::MalformedJson => "malformed_json",
            Self::TooDeep => "too_deep",
            Self::NotAnObject => "not_an_object",
            Self::DuplicateKey => "duplicate_key",
            Self::WrongType => "wrong_type",
            Self::NulInKey => "nul_in_key",
            Self::KeyTooLong => "key_too_long",
            Self::BadFingerprint => "bad_fingerprint",
            Self::TimeOutOfRange => "time_out_of_range",
            Self::UnknownFormat => "unknown_format",
            Self::TooManyTenants => "too_many_tenants",
            Self::BadHeader => "bad_header",
        }
    }
}

/// A record that cannot be read, kept for a human (G-2).
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter<'a> {
    /// Where it stands in the log.
    pub at: Coordinates,
    /// The time the log holds for it.
    pub record_time: RecordTime,
    /// Why.
    pub reason: DeadReason,
    /// What exactly, for a human.
    pub detail: Cow<'a, str>,
    /// Its bytes, at most [`DeadLetter::RAW_BYTES_MAX`] of them.
    pub raw: &'a [u8],
}

impl DeadLetter<'_> {
    /// How much of a dead record is kept.
    pub const RAW_BYTES_MAX: usize = 64 * 1024;
}
