//! The two contracts, in terms of the modules beside.

use super::{STORE, SqliteStore, conditions, history, incidents, insert, keys, pipeline, recover, rules, totals};
use crate::rows::RowBlock;
use crate::{
    BucketCount, Generation, HistoryDay, IncidentStore, KeySpan, OccurrenceStore, Selection, StoreError, StoredEvent,
    StoredIncident, TotalRow,
};
use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, WindowFacts};
use floodmark_model::progress::Progress;
use floodmark_model::{EventTime, Fingerprint, IncidentId, IncidentKey, Rule};
use std::sync::Arc;

impl OccurrenceStore for SqliteStore {
    fn name(&self) -> &'static str {
        STORE
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.migrate_schema().await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.answers().await
    }

    async fn insert(&self, blocks: &[RowBlock]) -> Result<(), StoreError> {
        let blocks = blocks.to_vec();
        self.write("insert rows", move |transaction| insert::blocks(transaction, &blocks)).await
    }

    async fn bucket_counts(
        &self,
        rule: &Rule,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        let (rule, cut) = (rule.clone(), conditions::cut(progress));
        self.stream("count buckets", move |reader, out| recover::bucket_counts(reader, &rule, since, &cut, out), each)
            .await
    }

    async fn events(
        &self,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(StoredEvent) + Send,
    ) -> Result<(), StoreError> {
        let cut = conditions::cut(progress);
        self.stream("read events", move |reader, out| recover::events(reader, since, &cut, out), each).await
    }

    async fn delete_uncommitted(&self, progress: &Progress) -> Result<(), StoreError> {
        let cut = conditions::cut(progress);
        self.write("delete uncommitted rows", move |transaction| recover::delete_uncommitted(transaction, &cut)).await
    }

    async fn window_facts(&self, rule: &Rule, keys: &[IncidentKey]) -> Result<Vec<WindowFacts>, StoreError> {
        let (rule, keys) = (rule.clone(), keys.to_vec());
        self.read("read window facts", move |reader| totals::window_facts(reader, &rule, &keys)).await
    }

    async fn key_counts(&self, rule: &Rule, spans: &[KeySpan]) -> Result<Vec<BucketCount>, StoreError> {
        let (rule, spans) = (rule.clone(), spans.to_vec());
        self.read("count buckets of keys", move |reader| keys::key_counts(reader, &rule, &spans)).await
    }

    async fn candidates(
        &self,
        rule: &Rule,
        window_start: EventTime,
    ) -> Result<Vec<(Arc<str>, Fingerprint)>, StoreError> {
        let rule = rule.clone();
        self.read("read the keys to judge", move |reader| keys::candidates(reader, &rule, window_start)).await
    }

    async fn distinct_fingerprints(
        &self,
        rule: &Rule,
        tenant: &str,
        window_start: EventTime,
    ) -> Result<u64, StoreError> {
        let (rule, tenant) = (rule.clone(), tenant.to_owned());
        let ask = move |reader: &_| keys::distinct_fingerprints(reader, &rule, &tenant, window_start);
        self.read("count the bugs of a tenant", ask).await
    }

    async fn history_days(&self, since: EventTime, until: EventTime) -> Result<Vec<HistoryDay>, StoreError> {
        self.read("read days of history", move |reader| history::history_days(reader, since, until)).await
    }

    async fn history_counts(
        &self,
        rule: &Rule,
        bucket_ms: i64,
        selection: &Selection,
        each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        let (rule, selection) = (rule.clone(), selection.clone());
        let read = move |reader: &_, out: &mut _| history::history_counts(reader, &rule, bucket_ms, &selection, out);
        self.stream("read history", read, each).await
    }

    async fn totals(&self, rule: &Rule, selection: &Selection) -> Result<Vec<TotalRow>, StoreError> {
        let (rule, selection) = (rule.clone(), selection.clone());
        self.read("read totals", move |reader| totals::totals(reader, &rule, &selection)).await
    }
}

impl IncidentStore for SqliteStore {
    fn name(&self) -> &'static str {
        STORE
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.migrate_schema().await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.answers().await
    }

    async fn take_over(&self) -> Result<Generation, StoreError> {
        self.write("take over", pipeline::take_over).await
    }

    async fn heartbeat(&self, generation: Generation) -> Result<(), StoreError> {
        self.write_as(generation, "heartbeat", pipeline::heartbeat).await
    }

    async fn write_incidents(
        &self,
        generation: Generation,
        rows: &[JudgedIncident],
    ) -> Result<Vec<IncidentId>, StoreError> {
        let rows = rows.to_vec();
        self.write_as(generation, "write incidents", move |transaction| {
            incidents::write(transaction, generation, &rows)
        })
        .await
    }

    async fn refresh_incidents(&self, generation: Generation, facts: &[WindowFacts]) -> Result<(), StoreError> {
        let facts = facts.to_vec();
        self.write_as(generation, "refresh incidents", move |transaction| incidents::refresh(transaction, &facts)).await
    }

    async fn close_incidents(
        &self,
        generation: Generation,
        windows: &[ClosedWindow],
        settled: bool,
    ) -> Result<usize, StoreError> {
        let windows = windows.to_vec();
        self.write_as(generation, "close incidents", move |transaction| {
            incidents::close(transaction, generation, &windows, settled)
        })
        .await
    }

    async fn commit(&self, generation: Generation, progress: &Progress) -> Result<(), StoreError> {
        let progress = progress.clone();
        self.write_as(generation, "commit progress", move |transaction| pipeline::commit(transaction, &progress)).await
    }

    async fn progress(&self) -> Result<Progress, StoreError> {
        self.read("read progress", pipeline::progress).await
    }

    async fn rules(&self) -> Result<Vec<Rule>, StoreError> {
        self.read("read rules", rules::read).await
    }

    async fn store_rules(&self, generation: Generation, rules: &[Rule]) -> Result<(), StoreError> {
        let rules = rules.to_vec();
        self.write_as(generation, "store rules", move |transaction| rules::write(transaction, &rules)).await
    }

    async fn stored_incidents(&self, since: EventTime) -> Result<Vec<StoredIncident>, StoreError> {
        self.read("read stored incidents", move |reader| incidents::stored(reader, since)).await
    }

    async fn incidents(&self, selection: &Selection) -> Result<Vec<IncidentRow>, StoreError> {
        let selection = selection.clone();
        self.read("read incidents", move |reader| incidents::select(reader, &selection)).await
    }
}
