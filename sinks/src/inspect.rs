//! What people and checks ask the stores, and the engine does not: why there is an incident or none (`floodmark
//! explain`), and whether the stores agree with each other (`floodmark reconcile`).
//!
//! Nothing here writes. As everywhere, occurrences are distinct ones, whatever was inserted twice.

use crate::StoreError;
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::{EventTime, Fingerprint, IncidentId, Level, RecordTime, Rule};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

/// One key, in a stretch of event time.
#[derive(Clone, Copy, Debug)]
pub struct KeyStretch<'a> {
    /// Tenant.
    pub tenant: &'a str,
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// First instant inside.
    pub from: EventTime,
    /// First instant after it.
    pub until: EventTime,
}

/// Occurrences of one key that are alike in all that decides where they count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowGroup {
    /// Their level.
    pub level: Level,
    /// Their service.
    pub service: String,
    /// Whether the record time stands for a missing `ts` (T-1).
    pub ts_missing: bool,
    /// Whether it stands for one in the future (T-2).
    pub ts_clamped: bool,
    /// Whether their record time is at or after the one that was asked about.
    pub recorded_after: bool,
    /// How many there are.
    pub count: u64,
}

/// Occurrences of a fingerprint that one tenant has.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Seen {
    /// The tenant.
    pub tenant: String,
    /// Event time of the first.
    pub first_ts: EventTime,
    /// Event time of the last.
    pub last_ts: EventTime,
    /// How many there are.
    pub count: u64,
}

/// An occurrence whose own time lies in the future of its record (T-2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClampedRow {
    /// Where it counts.
    pub ts: EventTime,
    /// Its `ts` as it was written.
    pub ts_original: String,
    /// Time of its record.
    pub record_time: RecordTime,
}

/// The rows of one partition below its committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRows {
    /// The partition.
    pub key: PartitionKey,
    /// Distinct occurrences.
    pub occurrences: u64,
    /// Those of them with a client's id, of which another record may be a retry (I-2).
    pub with_event_id: u64,
    /// Records that no rule counts.
    pub unmatched: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// When the oldest of them was inserted, where the store knows.
    pub oldest: Option<EventTime>,
}

/// Distinct occurrences of one key in one bucket of a rule, now and as far as progress covers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledCount {
    /// Tenant.
    pub tenant: Arc<str>,
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// First instant of the bucket.
    pub bucket_start: EventTime,
    /// All that is stored.
    pub count: u64,
    /// Those whose record is durable with all that it caused (G-3).
    pub covered: u64,
}

/// The most groups, rows or fingerprints of one answer.
pub const ANSWERS_MAX: usize = 1_000;

/// Questions to the store of occurrences.
pub trait InspectOccurrences: Send + Sync + 'static {
    /// How long a row is kept, in milliseconds since its insertion; `None`: for ever.
    fn keeps_for_ms(&self) -> Option<i64>;

    /// The fingerprints of a tenant that begin with these hex digits (1 to 32) and occur in `[from, until)`, sorted; at
    /// most [`ANSWERS_MAX`].
    fn fingerprints(
        &self,
        tenant: &str,
        prefix: &str,
        from: EventTime,
        until: EventTime,
    ) -> impl Future<Output = Result<Vec<Fingerprint>, StoreError>> + Send;

    /// All occurrences of a key, whatever rule counts them, in groups; the largest first, at most [`ANSWERS_MAX`].
    fn row_groups(
        &self,
        stretch: KeyStretch<'_>,
        recorded_after: RecordTime,
    ) -> impl Future<Output = Result<Vec<RowGroup>, StoreError>> + Send;

    /// The occurrences of a key whose own time was clamped; the earliest first, at most [`ANSWERS_MAX`].
    fn clamped(&self, stretch: KeyStretch<'_>) -> impl Future<Output = Result<Vec<ClampedRow>, StoreError>> + Send;

    /// Dead letters with a record time in `[from, until)`, by reason.
    fn dead_letters(
        &self,
        from: RecordTime,
        until: RecordTime,
    ) -> impl Future<Output = Result<BTreeMap<String, u64>, StoreError>> + Send;

    /// The rows of each partition that `progress` covers; partitions without rows may be left out. Reads all tables in
    /// whole.
    fn stored_rows(&self, progress: &Progress) -> impl Future<Output = Result<Vec<StoredRows>, StoreError>> + Send;

    /// Dead letters of records that are in no topic of `progress`: those of backfilled inputs have their place there.
    fn dead_letters_elsewhere(&self, progress: &Progress) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Where a fingerprint occurs at all, by tenant: the tenants with most occurrences first, at most [`ANSWERS_MAX`].
    /// Looks through all that is stored.
    fn tenants_with(&self, fingerprint: Fingerprint) -> impl Future<Output = Result<Vec<Seen>, StoreError>> + Send;

    /// Counts per key and bucket of all that `rule` counts with `from <= ts < until`, sorted by tenant, fingerprint and
    /// bucket. Streams.
    fn settled_counts(
        &self,
        rule: &Rule,
        from: EventTime,
        until: EventTime,
        progress: &Progress,
        each: impl FnMut(SettledCount) + Send,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A change in an incident's life.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Transition {
    /// What happened.
    pub transition: String,
    /// When, by the store's clock.
    pub at: EventTime,
    /// Why, where there is more to say.
    pub reason: Option<String>,
}

/// What an incident's row does not say by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Why it is withdrawn or superseded.
    pub reason: Option<String>,
    /// Its changes, in order.
    pub transitions: Vec<Transition>,
}

/// Questions to the store of incidents.
pub trait InspectIncidents: Send + Sync + 'static {
    /// The history of a row; an empty one where there is no such row.
    fn history(&self, id: IncidentId) -> impl Future<Output = Result<History, StoreError>> + Send;
}

/// The least and the greatest fingerprint that begin with these hex digits; `None` when they are none.
pub(crate) fn fingerprint_range(prefix: &str) -> Option<(Fingerprint, Fingerprint)> {
    let of = |filler: char| {
        let filled: String = prefix.chars().chain(std::iter::repeat(filler)).take(32).collect();
        Fingerprint::from_hex(&filled)
    };
    if prefix.is_empty() || prefix.len() > 32 {
        return None;
    }
    of('0').zip(of('f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_range_of_fingerprints() {
        let bits = |(low, high): (Fingerprint, Fingerprint)| (low.bits(), high.bits());
        assert_eq!(fingerprint_range("aB").map(bits), Some((0xab << 120, (0xac << 120) - 1)));
        let whole = "0123456789abcdef0123456789abcdef";
        assert_eq!(fingerprint_range(whole).map(|(low, high)| low == high), Some(true));
        for wrong in ["", "xy", "é", &"0".repeat(33)] {
            assert_eq!(fingerprint_range(wrong), None, "{wrong}");
        }
    }
}
