//! Stores for measuring: one that counts what another takes, and one that takes all at once and keeps nothing.

use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, WindowFacts};
use floodmark_model::progress::Progress;
use floodmark_model::{EventTime, Fingerprint, IncidentId, IncidentKey, Rule};
use floodmark_sinks::rows::RowBlock;
use floodmark_sinks::{
    BucketCount, Generation, HistoryDay, IncidentStore, KeySpan, OccurrenceStore, Selection, StoreError, StoredEvent,
    StoredIncident, TotalRow,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts what a store has acknowledged.
pub(crate) struct Counted<O> {
    store: O,
    rows: AtomicU64,
    bytes: AtomicU64,
    inserts: AtomicU64,
}

impl<O> Counted<O> {
    /// Counts for this store.
    pub(crate) fn new(store: O) -> Self {
        Self { store, rows: AtomicU64::new(0), bytes: AtomicU64::new(0), inserts: AtomicU64::new(0) }
    }

    /// Rows acknowledged.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Acquire)
    }

    /// Bytes of rows acknowledged, as encoded.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Calls that inserted them.
    pub(crate) fn inserts(&self) -> u64 {
        self.inserts.load(Ordering::Acquire)
    }
}

impl<O: OccurrenceStore> OccurrenceStore for Counted<O> {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.store.migrate().await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.store.ping().await
    }

    async fn insert(&self, blocks: &[RowBlock]) -> Result<(), StoreError> {
        self.store.insert(blocks).await?;
        self.inserts.fetch_add(1, Ordering::Release);
        self.bytes.fetch_add(blocks.iter().map(|block| block.bytes() as u64).sum(), Ordering::Release);
        self.rows.fetch_add(blocks.iter().map(|block| block.rows() as u64).sum(), Ordering::Release);
        Ok(())
    }

    async fn bucket_counts(
        &self,
        rule: &Rule,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        self.store.bucket_counts(rule, since, progress, each).await
    }

    async fn events(
        &self,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(StoredEvent) + Send,
    ) -> Result<(), StoreError> {
        self.store.events(since, progress, each).await
    }

    async fn delete_uncommitted(&self, progress: &Progress) -> Result<(), StoreError> {
        self.store.delete_uncommitted(progress).await
    }

    async fn window_facts(&self, rule: &Rule, keys: &[IncidentKey]) -> Result<Vec<WindowFacts>, StoreError> {
        self.store.window_facts(rule, keys).await
    }

    async fn key_counts(&self, rule: &Rule, spans: &[KeySpan]) -> Result<Vec<BucketCount>, StoreError> {
        self.store.key_counts(rule, spans).await
    }

    async fn candidates(
        &self,
        rule: &Rule,
        window_start: EventTime,
    ) -> Result<Vec<(Arc<str>, Fingerprint)>, StoreError> {
        self.store.candidates(rule, window_start).await
    }

    async fn distinct_fingerprints(
        &self,
        rule: &Rule,
        tenant: &str,
        window_start: EventTime,
    ) -> Result<u64, StoreError> {
        self.store.distinct_fingerprints(rule, tenant, window_start).await
    }

    async fn history_days(&self, since: EventTime, until: EventTime) -> Result<Vec<HistoryDay>, StoreError> {
        self.store.history_days(since, until).await
    }

    async fn history_counts(
        &self,
        rule: &Rule,
        bucket_ms: i64,
        selection: &Selection,
        each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        self.store.history_counts(rule, bucket_ms, selection, each).await
    }

    async fn totals(&self, rule: &Rule, selection: &Selection) -> Result<Vec<TotalRow>, StoreError> {
        self.store.totals(rule, selection).await
    }
}

/// Acknowledges rows at once, and answers that each window it is asked about holds what its rule asks for.
pub(crate) struct NoRows;

impl OccurrenceStore for NoRows {
    fn name(&self) -> &'static str {
        "no rows"
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn insert(&self, _blocks: &[RowBlock]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn bucket_counts(
        &self,
        _rule: &Rule,
        _since: EventTime,
        _progress: &Progress,
        _each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn events(
        &self,
        _since: EventTime,
        _progress: &Progress,
        _each: impl FnMut(StoredEvent) + Send,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete_uncommitted(&self, _progress: &Progress) -> Result<(), StoreError> {
        Ok(())
    }

    async fn window_facts(&self, rule: &Rule, keys: &[IncidentKey]) -> Result<Vec<WindowFacts>, StoreError> {
        let facts = |key: &IncidentKey| WindowFacts {
            key: key.clone(),
            total: u64::from(rule.threshold),
            first_ts: key.window.start,
            last_ts: key.window.start,
            samples: Vec::new(),
        };
        Ok(keys.iter().map(facts).collect())
    }

    async fn key_counts(&self, _rule: &Rule, _spans: &[KeySpan]) -> Result<Vec<BucketCount>, StoreError> {
        Ok(Vec::new())
    }

    async fn candidates(
        &self,
        _rule: &Rule,
        _window_start: EventTime,
    ) -> Result<Vec<(Arc<str>, Fingerprint)>, StoreError> {
        Ok(Vec::new())
    }

    async fn distinct_fingerprints(
        &self,
        _rule: &Rule,
        _tenant: &str,
        _window_start: EventTime,
    ) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn history_days(&self, _since: EventTime, _until: EventTime) -> Result<Vec<HistoryDay>, StoreError> {
        Ok(Vec::new())
    }

    async fn history_counts(
        &self,
        _rule: &Rule,
        _bucket_ms: i64,
        _selection: &Selection,
        _each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn totals(&self, _rule: &Rule, _selection: &Selection) -> Result<Vec<TotalRow>, StoreError> {
        Ok(Vec::new())
    }
}

/// Acknowledges incidents at once, and knows only which it has seen.
#[derive(Default)]
pub(crate) struct NoIncidents {
    seen: Mutex<HashSet<IncidentId>>,
}

impl NoIncidents {
    fn with_seen<T>(&self, look: impl FnOnce(&mut HashSet<IncidentId>) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl IncidentStore for NoIncidents {
    fn name(&self) -> &'static str {
        "no incidents"
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn take_over(&self) -> Result<Generation, StoreError> {
        Ok(Generation(1))
    }

    async fn heartbeat(&self, _generation: Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn write_incidents(
        &self,
        _generation: Generation,
        incidents: &[JudgedIncident],
    ) -> Result<Vec<IncidentId>, StoreError> {
        let ids = incidents.iter().map(|incident| incident.key.id());
        Ok(self.with_seen(|seen| ids.filter(|id| seen.insert(*id)).collect()))
    }

    async fn refresh_incidents(&self, _generation: Generation, _facts: &[WindowFacts]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close_incidents(
        &self,
        _generation: Generation,
        _windows: &[ClosedWindow],
        _settled: bool,
    ) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn commit(&self, _generation: Generation, _progress: &Progress) -> Result<(), StoreError> {
        Ok(())
    }

    async fn progress(&self) -> Result<Progress, StoreError> {
        Ok(Progress::default())
    }

    async fn rules(&self) -> Result<Vec<Rule>, StoreError> {
        Ok(Vec::new())
    }

    async fn store_rules(&self, _generation: Generation, _rules: &[Rule]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn stored_incidents(&self, _since: EventTime) -> Result<Vec<StoredIncident>, StoreError> {
        Ok(Vec::new())
    }

    async fn incidents(&self, _selection: &Selection) -> Result<Vec<IncidentRow>, StoreError> {
        Ok(Vec::new())
    }
}
