//! The stores: the other ends of the dataflow's channels.
//!
//! [`OccurrenceStore`] holds every raw occurrence and answers totals (ClickHouse, or SQLite when embedded);
//! [`IncidentStore`] holds incidents and progress (Postgres, or SQLite when embedded). Every write is idempotent by a
//! key derived from the input (G-4), so that one which was applied but reported as failed can be repeated.

pub mod clickhouse;
pub mod error;
pub mod inputs;
pub mod inspect;
mod ledger;
pub mod postgres;
pub mod rows;
mod rule_versions;
pub mod sqlite;

pub use error::{Failure, StoreError};

use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, Status, WindowFacts};
use floodmark_model::progress::Progress;
use floodmark_model::{Coordinates, Detection, EventTime, Fingerprint, Identity, IncidentId, IncidentKey, Reach, Rule};
use rows::RowBlock;
use std::future::Future;
use std::sync::Arc;

/// Raised by every start that takes a pipeline over; a write with an older one fails (design, decision 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub i64);

/// How many distinct occurrences of one key lie in one bucket of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketCount {
    /// Tenant.
    pub tenant: Arc<str>,
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// First instant of the bucket, aligned to the rule's bucket length.
    pub bucket_start: EventTime,
    /// Distinct occurrences in it.
    pub count: u64,
}

/// A stretch of event time of one key: `from` inclusive, `until` exclusive, both aligned to the windows of the rule that
/// is asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeySpan {
    /// Tenant.
    pub tenant: Arc<str>,
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// First instant inside.
    pub from: EventTime,
    /// First instant after it.
    pub until: EventTime,
}

impl KeySpan {
    /// The spans in order, those of one key that touch joined, without empty ones: no instant is in two of them.
    fn merged(spans: &[Self]) -> Vec<Self> {
        let mut sorted: Vec<&Self> = spans.iter().filter(|span| span.from < span.until).collect();
        sorted.sort_unstable();
        let mut merged: Vec<Self> = Vec::with_capacity(sorted.len());
        for span in sorted {
            match merged.last_mut() {
                Some(last)
                    if (&last.tenant, last.fingerprint) == (&span.tenant, span.fingerprint)
                        && span.from <= last.until =>
                {
                    last.until = last.until.max(span.until);
                }
                _ => merged.push(span.clone()),
            }
        }
        merged
    }
}

/// An occurrence with a client's id, or one that was backfilled, for the filter of client retries (I-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// (tenant, `event_id`), hashed; without a client's id that of its origin.
    pub identity: Identity,
    /// Its event time.
    pub ts: EventTime,
    /// Its owner: the record that stands for it (I-4).
    pub owner: Coordinates,
}

/// Distinct occurrences of one key in one window of one rule, as `floodmark totals` shows it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TotalRow {
    /// Tenant.
    pub tenant: String,
    /// 32 hex digits.
    pub fingerprint: String,
    /// Rule.
    pub rule: String,
    /// First instant of the window, milliseconds since 1970 UTC.
    pub window_start: EventTime,
    /// Distinct occurrences in it.
    pub total: u64,
}

/// How much history one day holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryDay {
    /// First instant of the day, UTC.
    pub start: EventTime,
    /// Rows stored of it, whatever rule counts them: no fewer than distinct occurrences.
    pub rows: u64,
    /// Event time of the first.
    pub first_ts: EventTime,
    /// Event time of the last.
    pub last_ts: EventTime,
}

/// Which rows a query is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only this tenant.
    pub tenant: Option<String>,
    /// Only windows that start at or after this time.
    pub since: Option<EventTime>,
    /// Only windows that start before this time.
    pub until: Option<EventTime>,
}

/// An incident row as far as a start needs it (design, decision 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredIncident {
    /// What it is about. The window's length is the rule's.
    pub key: IncidentKey,
    /// Where it stands; never [`Status::Withdrawn`].
    pub status: Status,
    /// The window's closing is stored: `closed_at` is set.
    pub is_closed: bool,
    /// What its window had reached when it was judged last. It stands also where counts that are cut at the committed
    /// offsets do not show it yet.
    pub reach: Reach,
    /// How it first became due.
    pub detection: Detection,
}

/// Holds every raw occurrence; the authority for totals.
///
/// All reads count distinct occurrences by identity, whatever was inserted twice.
pub trait OccurrenceStore: Send + Sync + 'static {
    /// The store's name in messages, metrics and `/readyz`.
    fn name(&self) -> &'static str;

    /// Creates or migrates the schema; safe to repeat and to run twice at once.
    fn migrate(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether the store answers.
    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Stores blocks of rows: occurrences, unmatched ones and dead letters. When it returns they are durable.
    fn insert(&self, blocks: &[RowBlock]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Counts per key and bucket of all that `rule` counts with `ts >= since`, of records that `progress` covers.
    /// Streams: `each` is called per row, in any order.
    fn bucket_counts(
        &self,
        rule: &Rule,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(BucketCount) + Send,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The occurrences with a client's id, and those that were backfilled through a topic, with `ts >= since`, that
    /// `progress` covers.
    fn events(
        &self,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(StoredEvent) + Send,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Deletes all rows of records that `progress` does not cover (settings that identity depends on have changed,
    /// or a topic was created anew; decisions 5 and 7).
    fn delete_uncommitted(&self, progress: &Progress) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Totals, first and last times and samples of windows of `rule` (W-9, W-10). A key without rows is answered
    /// with a total of 0. Callers pass at most [`FACTS_MAX`] keys.
    fn window_facts(
        &self,
        rule: &Rule,
        keys: &[IncidentKey],
    ) -> impl Future<Output = Result<Vec<WindowFacts>, StoreError>> + Send;

    /// Counts per key and bucket of all that `rule` counts inside each key's spans, whatever is committed: what is judged
    /// for keys that memory does not hold (W-8). Empty buckets are left out. Sorted by tenant, fingerprint and bucket.
    ///
    /// A key may have several spans, of any length; what two of them hold is counted once. Callers pass at most
    /// [`FACTS_MAX`] spans.
    fn key_counts(
        &self,
        rule: &Rule,
        spans: &[KeySpan],
    ) -> impl Future<Output = Result<Vec<BucketCount>, StoreError>> + Send;

    /// The keys that may have an incident in the window of `rule` that starts at `window_start`: with an occurrence in it,
    /// and with the threshold of its tenant in it and the window before together (in it alone without
    /// [`Rule::straddle`]). What is judged for keys that had no pane (Q46). Sorted.
    fn candidates(
        &self,
        rule: &Rule,
        window_start: EventTime,
    ) -> impl Future<Output = Result<Vec<(Arc<str>, Fingerprint)>, StoreError>> + Send;

    /// How many bugs of the tenant `rule` counts in the window that starts at `window_start` (Q46).
    fn distinct_fingerprints(
        &self,
        rule: &Rule,
        tenant: &str,
        window_start: EventTime,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// The days with rows of `since <= ts < until`, in order: what a reader of history plans its parts by. Cheap; it
    /// counts rows and not distinct occurrences.
    fn history_days(
        &self,
        since: EventTime,
        until: EventTime,
    ) -> impl Future<Output = Result<Vec<HistoryDay>, StoreError>> + Send;

    /// Counts per key and bucket of `bucket_ms` of all that `rule` *matches*, with `since <= ts < until`, and of one
    /// tenant where the selection names one: of all that is stored, committed or not. The rule's own window and buckets
    /// do not matter. Where the selection does not begin and end with a bucket, its first and last are counted in part.
    ///
    /// Streams: `each` is called per row, in any order; this side holds a few thousand rows at most.
    fn history_counts(
        &self,
        rule: &Rule,
        bucket_ms: i64,
        selection: &Selection,
        each: impl FnMut(BucketCount) + Send,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Totals per (tenant, fingerprint, window) of one rule, sorted.
    fn totals(
        &self,
        rule: &Rule,
        selection: &Selection,
    ) -> impl Future<Output = Result<Vec<TotalRow>, StoreError>> + Send;
}

/// The most keys of one [`OccurrenceStore::window_facts`] call, and the most spans of one
/// [`OccurrenceStore::key_counts`] call.
pub const FACTS_MAX: usize = 2_500;

/// Holds incidents and progress. Every write compares `generation` with the stored one in its own transaction and
/// fails with [`Failure::Fenced`] when they differ.
pub trait IncidentStore: Send + Sync + 'static {
    /// The store's name in messages, metrics and `/readyz`.
    fn name(&self) -> &'static str;

    /// Creates or migrates the schema; safe to repeat and to run twice at once.
    fn migrate(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether the store answers.
    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes the pipeline over: raises its generation by one (creating the row at 1) and returns it.
    fn take_over(&self) -> impl Future<Output = Result<Generation, StoreError>> + Send;

    /// Says that the holder of `generation` is alive (every 500 ms, by the database's clock).
    fn heartbeat(&self, generation: Generation) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Makes the rows of these keys what the judge says, in one transaction; W-4's consequences for one key (W-7, Q40)
    /// belong in one call. Of several rows of one key the last verdict holds, and the first one that stands opens it.
    /// Returns the ids that are new: those page.
    ///
    /// - A verdict that is an incident inserts the row as `open`, or brings a superseded or withdrawn one back (Q41),
    ///   which pages nobody again. `reach`, and `count` until there is a total, are raised to what is given; detection
    ///   and `opened_at` never change (Q45).
    /// - [`Verdict::Blocked`](floodmark_model::Verdict::Blocked) makes a live row `superseded` by the window before. It
    ///   inserts none.
    ///
    /// Episodes are right afterwards (W-11, Q44), and every change of a status is in the audit. Repeating the
    /// call changes nothing.
    fn write_incidents(
        &self,
        generation: Generation,
        rows: &[JudgedIncident],
    ) -> impl Future<Output = Result<Vec<IncidentId>, StoreError>> + Send;

    /// Writes samples and times of incidents whose window is still open (W-10). Leaves rows with a total alone, and
    /// never creates one.
    fn refresh_incidents(
        &self,
        generation: Generation,
        facts: &[WindowFacts],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes totals, times and samples of incidents whose window has closed, and judges them by what the occurrence
    /// store shows (W-9, Q42), in the order of their windows:
    ///
    /// - [`Reach::Below`]: `withdrawn`, with the reason: it was never due.
    /// - [`Reach::Own`]: it stands.
    /// - [`Reach::Run`]: `superseded` where the window before has a live row now, else it stands.
    ///
    /// What stands is `closed`, or with `settled` (embedded end of input, decision 14) stays `open` where it is.
    /// Episodes and audit as in [`Self::write_incidents`]. Repeating it with other facts corrects them. It never
    /// creates a row. Gives how many rows it has withdrawn.
    fn close_incidents(
        &self,
        generation: Generation,
        windows: &[ClosedWindow],
        settled: bool,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// Writes progress: the partitions given, never moving an offset, a watermark or the closed time back, and the
    /// settings hash, in one transaction.
    fn commit(
        &self,
        generation: Generation,
        progress: &Progress,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The stored progress; empty for a pipeline that never ran.
    fn progress(&self) -> impl Future<Output = Result<Progress, StoreError>> + Send;

    /// Every rule that was ever stored, with all its versions (Q51), sorted by name.
    fn rules(&self) -> impl Future<Output = Result<Vec<Rule>, StoreError>> + Send;

    /// Makes the stored versions of these rules what is given; rules that are not given stay as they are. Repeating it
    /// changes nothing.
    fn store_rules(
        &self,
        generation: Generation,
        rules: &[Rule],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Incidents of occurrences whose window starts at or after `since`, without those that are withdrawn: to the
    /// judge they never were.
    fn stored_incidents(
        &self,
        since: EventTime,
    ) -> impl Future<Output = Result<Vec<StoredIncident>, StoreError>> + Send;

    /// Incidents for people and programs, sorted by (window, tenant, rule, fingerprint, kind).
    fn incidents(&self, selection: &Selection) -> impl Future<Output = Result<Vec<IncidentRow>, StoreError>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_one_key_that_touch_are_one() {
        let span = |tenant: &str, bits, from, until| KeySpan {
            tenant: tenant.into(),
            fingerprint: Fingerprint::from_bits(bits),
            from: EventTime(from),
            until: EventTime(until),
        };
        let spans = [
            span("b", 1, 0, 10),
            span("a", 1, 20, 30),
            span("a", 1, -10, 20),
            span("a", 1, 0, 5),
            span("a", 1, 40, 50),
            span("a", 2, 30, 40),
            span("a", 2, 60, 60),
        ];
        assert_eq!(
            KeySpan::merged(&spans),
            [span("a", 1, -10, 30), span("a", 1, 40, 50), span("a", 2, 30, 40), span("b", 1, 0, 10)]
        );
    }
}
