//! The stores: the other ends of the dataflow's channels.
//!
//! [`OccurrenceStore`] holds every raw occurrence and answers totals (ClickHouse, or SQLite when embedded);
//! [`IncidentStore`] holds incidents and progress (Postgres, or SQLite when embedded). Every write is idempotent by a
//! key derived from the input (G-4), so that one which was applied but reported as failed can be repeated.

pub mod clickhouse;
pub mod error;
pub mod postgres;
pub mod rows;
mod rule_versions;
pub mod sqlite;

pub use error::{Failure, StoreError};

use floodmark_model::incident::{IncidentRow, JudgedIncident, WindowFacts};
use floodmark_model::progress::Progress;
use floodmark_model::{Coordinates, EventTime, Fingerprint, Identity, IncidentKey, Rule};
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

/// An occurrence with a client's id, for the filter of client retries (I-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// (tenant, `event_id`), hashed.
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
    /// Its total is set: the window's closing is stored.
    pub is_closed: bool,
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

    /// The occurrences with a client's id and `ts >= since` that `progress` covers.
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

    /// The keys of one window of `rule` that reach the threshold of their tenant in that window, with their counts: what
    /// is judged for keys that had no pane (Q46).
    fn keys_over_threshold(
        &self,
        rule: &Rule,
        window_start: EventTime,
    ) -> impl Future<Output = Result<Vec<(IncidentKey, u64)>, StoreError>> + Send;

    /// Totals per (tenant, fingerprint, window) of one rule, sorted.
    fn totals(
        &self,
        rule: &Rule,
        selection: &Selection,
    ) -> impl Future<Output = Result<Vec<TotalRow>, StoreError>> + Send;
}

/// The most keys of one [`OccurrenceStore::window_facts`] call.
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

    /// Inserts the incidents that are not stored yet, and keeps `episode_id` of the runs they join right (W-11,
    /// Q44), in one transaction. Returns the ids that are new.
    fn insert_incidents(
        &self,
        generation: Generation,
        incidents: &[JudgedIncident],
    ) -> impl Future<Output = Result<Vec<floodmark_model::IncidentId>, StoreError>> + Send;

    /// Which of these ids have a row.
    fn existing(
        &self,
        ids: &[floodmark_model::IncidentId],
    ) -> impl Future<Output = Result<Vec<floodmark_model::IncidentId>, StoreError>> + Send;

    /// Writes samples and times of incidents whose window is still open (W-10). Leaves rows with a total alone, and
    /// never creates one.
    fn refresh_incidents(
        &self,
        generation: Generation,
        facts: &[WindowFacts],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes totals, times and samples of incidents whose window has closed (W-9): status `closed`, or `withdrawn`
    /// with the reason where the total says that the row was never due (`total < threshold`). Repeating it with
    /// other facts corrects them. With `settled`, the total is written but the status stays `open` (embedded end of
    /// input, decision 14).
    fn close_incidents(
        &self,
        generation: Generation,
        threshold: u32,
        facts: &[WindowFacts],
        settled: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

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

    /// Incidents of occurrences whose window starts at or after `since`.
    fn stored_incidents(
        &self,
        since: EventTime,
    ) -> impl Future<Output = Result<Vec<StoredIncident>, StoreError>> + Send;

    /// Incidents for people and programs, sorted by (window, tenant, rule, fingerprint).
    fn incidents(&self, selection: &Selection) -> impl Future<Output = Result<Vec<IncidentRow>, StoreError>> + Send;
}
