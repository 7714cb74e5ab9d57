//! Occurrences in ClickHouse: the authority for totals (W-9).
//!
//! # Semantics
//! - Every write is idempotent by identity (design, decision 5): a row that is inserted again replaces itself, and
//!   reads say `FINAL`. A call that failed, or was applied and then reported as failed, is repeated as it is.
//! - An insert returns when the server has stored all of it. One over several tables, days or requests is not atomic;
//!   the repeat completes it.
//! - Values reach the server as rows or as bound parameters, never as part of a statement's text.
//! - Every call ends: connecting, the whole request and the query on the server each have a limit.
//!
//! # Rights
//! The engine needs SELECT, INSERT and ALTER DELETE on its database; `floodmark migrate` also CREATE TABLE, CREATE VIEW
//! and ALTER TABLE there, and CREATE DATABASE only where the database does not exist yet.

mod classify;
mod conditions;
mod connection;
mod history;
mod insert;
mod inspect;
mod keys;
mod names;
mod recover;
mod schema;
mod settings;
mod totals;

pub use settings::ClickHouseSettings;

use crate::rows::RowBlock;
use crate::{BucketCount, HistoryDay, KeySpan, OccurrenceStore, Selection, StoreError, StoredEvent, TotalRow};
use connection::Connection;
use floodmark_model::incident::WindowFacts;
use floodmark_model::progress::Progress;
use floodmark_model::{EventTime, Fingerprint, IncidentKey, Rule};
use std::sync::Arc;

/// The store's name in messages, metrics and `/readyz`.
const STORE: &str = "clickhouse";

/// The tables that hold rows of records.
const TABLES: [&str; 3] = ["occurrences", "unmatched", DEAD_LETTERS];

/// The table of records that cannot be read.
const DEAD_LETTERS: &str = "dead_letters";

/// A ClickHouse server, or a cluster behind one address.
#[derive(Debug)]
pub struct ClickHouseStore {
    connection: Connection,
    retention_days: u16,
}

impl ClickHouseStore {
    /// A store at this address. Nothing is connected yet: the first call does that.
    ///
    /// # Errors
    /// [`crate::Failure::Permanent`] when the address cannot be one.
    pub fn new(settings: &ClickHouseSettings) -> Result<Self, StoreError> {
        Ok(Self { connection: Connection::new(settings)?, retention_days: settings.retention_days })
    }

    /// The database that holds the tables.
    #[must_use]
    pub fn database(&self) -> &str {
        self.connection.database()
    }
}

impl OccurrenceStore for ClickHouseStore {
    fn name(&self) -> &'static str {
        STORE
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        schema::migrate(&self.connection, self.retention_days).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.connection.ping().await
    }

    async fn insert(&self, blocks: &[RowBlock]) -> Result<(), StoreError> {
        insert::insert(&self.connection, blocks).await
    }

    async fn bucket_counts(
        &self,
        rule: &Rule,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        recover::bucket_counts(&self.connection, rule, since, progress, each).await
    }

    async fn events(
        &self,
        since: EventTime,
        progress: &Progress,
        each: impl FnMut(StoredEvent) + Send,
    ) -> Result<(), StoreError> {
        recover::events(&self.connection, since, progress, each).await
    }

    async fn delete_uncommitted(&self, progress: &Progress) -> Result<(), StoreError> {
        recover::delete_uncommitted(&self.connection, progress).await
    }

    async fn window_facts(&self, rule: &Rule, keys: &[IncidentKey]) -> Result<Vec<WindowFacts>, StoreError> {
        totals::window_facts(&self.connection, rule, keys).await
    }

    async fn key_counts(&self, rule: &Rule, spans: &[KeySpan]) -> Result<Vec<BucketCount>, StoreError> {
        keys::key_counts(&self.connection, rule, spans).await
    }

    async fn candidates(
        &self,
        rule: &Rule,
        window_start: EventTime,
    ) -> Result<Vec<(Arc<str>, Fingerprint)>, StoreError> {
        keys::candidates(&self.connection, rule, window_start).await
    }

    async fn distinct_fingerprints(
        &self,
        rule: &Rule,
        tenant: &str,
        window_start: EventTime,
    ) -> Result<u64, StoreError> {
        keys::distinct_fingerprints(&self.connection, rule, tenant, window_start).await
    }

    async fn history_days(&self, since: EventTime, until: EventTime) -> Result<Vec<HistoryDay>, StoreError> {
        history::history_days(&self.connection, since, until).await
    }

    async fn history_counts(
        &self,
        rule: &Rule,
        bucket_ms: i64,
        selection: &Selection,
        each: impl FnMut(BucketCount) + Send,
    ) -> Result<(), StoreError> {
        history::history_counts(&self.connection, rule, bucket_ms, selection, each).await
    }

    async fn totals(&self, rule: &Rule, selection: &Selection) -> Result<Vec<TotalRow>, StoreError> {
        totals::totals(&self.connection, rule, selection).await
    }
}
