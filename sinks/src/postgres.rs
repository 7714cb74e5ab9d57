//! Postgres: incidents and progress.
//!
//! # Promises
//!
//! - Every write is one transaction that first locks the pipeline's generation row `FOR SHARE` and compares it
//!   (decision 8): after a take-over a zombie's write fails as [`Failure::Fenced`] and leaves nothing.
//! - Every write may be repeated: rows have derived keys, progress never goes back.
//! - Two writers never wait for each other in a circle (see the module `ledger`).
//! - A call on a broken connection fails as transient, and the next one connects anew.
//!
//! `synchronous_commit` stays on: what was answered is on disk.

mod backfill;
mod classify;
mod connection;
mod incidents;
mod inspect;
mod ledger;
mod progress;
mod rules;
mod schema;
mod values;

pub use backfill::{BackfillInput, Produced};

use crate::rule_versions;
use crate::{Failure, Generation, IncidentStore, Selection, StoreError, StoredIncident};
use connection::{Connections, Lane};
use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, WindowFacts};
use floodmark_model::progress::Progress;
use floodmark_model::{EventTime, IncidentId, Rule};
use ledger::Alone;
use std::fmt;

/// The store's name in messages and metrics.
const STORE: &str = "postgres";

/// Incidents and progress of one pipeline in Postgres.
pub struct PostgresStore {
    connections: Connections,
    pipeline: String,
}

impl PostgresStore {
    /// A store at this URL (`postgres://user:password@host:port/database?sslmode=...`), for the pipeline of this name.
    /// Connects when it is first used. `sslmode=require` checks the server's certificate; `prefer`, the default, takes
    /// any.
    ///
    /// # Errors
    ///
    /// The URL cannot be read; the message does not repeat it.
    pub fn new(url: &str, pipeline: &str) -> Result<Self, StoreError> {
        Ok(Self { connections: Connections::new(url)?, pipeline: pipeline.to_owned() })
    }

    fn lane(&self, lane: Lane, action: &'static str) -> connection::Call<'_> {
        self.connections.call(lane, action)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("pipeline", &self.pipeline).finish_non_exhaustive()
    }
}

fn fenced(action: &'static str, ours: Generation, theirs: Option<i64>) -> StoreError {
    let detail = match theirs {
        Some(theirs) => format!("generation {} was replaced by {theirs}", ours.0),
        None => format!("generation {} is unknown: the pipeline's row is gone", ours.0),
    };
    StoreError { store: STORE, action, failure: Failure::Fenced, detail }
}

fn permanent(action: &'static str, error: &impl fmt::Display) -> StoreError {
    StoreError { store: STORE, action, failure: Failure::Permanent, detail: error.to_string() }
}

impl IncidentStore for PostgresStore {
    fn name(&self) -> &'static str {
        STORE
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        schema::migrate(&self.connections).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let call = self.lane(Lane::Progress, "ping");
        call.run(async |session| session.query("SELECT 1", &[]).await.map(drop)).await
    }

    async fn take_over(&self) -> Result<Generation, StoreError> {
        let call = self.lane(Lane::Progress, "take over");
        call.run(async |session| progress::take_over(session, &self.pipeline).await).await
    }

    async fn heartbeat(&self, generation: Generation) -> Result<(), StoreError> {
        let call = self.lane(Lane::Progress, "heartbeat");
        let held = call.run(async |session| progress::heartbeat(session, &self.pipeline, generation).await).await?;
        if held == Some(generation.0) { Ok(()) } else { Err(fenced("heartbeat", generation, held)) }
    }

    async fn write_incidents(
        &self,
        generation: Generation,
        rows: &[JudgedIncident],
    ) -> Result<Vec<IncidentId>, StoreError> {
        const ACTION: &str = "write incidents";
        let call = self.lane(Lane::Incidents, ACTION);
        let written = call.run(async |session| incidents::write(session, &self.pipeline, generation, rows).await);
        written.await?.map_err(|held| fenced(ACTION, generation, held))
    }

    async fn refresh_incidents(&self, generation: Generation, facts: &[WindowFacts]) -> Result<(), StoreError> {
        let call = self.lane(Lane::Closings, "write samples");
        let rows = values::FactRows::new(facts);
        call.fenced(&self.pipeline, generation, async |session, pipeline| {
            incidents::refresh(session, pipeline, &rows).await
        })
        .await
    }

    async fn close_incidents(
        &self,
        generation: Generation,
        windows: &[ClosedWindow],
        settled: bool,
    ) -> Result<usize, StoreError> {
        let call = self.lane(Lane::Closings, "write totals");
        for alone in [Alone::No, Alone::Yes] {
            let closing = incidents::Closing { generation, windows, settled, alone };
            let close = async |session: &_, pipeline: &_| incidents::close(session, pipeline, closing).await;
            if let Some(withdrawn) = call.fenced(&self.pipeline, generation, close).await? {
                return Ok(withdrawn);
            }
        }
        Ok(0)
    }

    async fn commit(&self, generation: Generation, progress: &Progress) -> Result<(), StoreError> {
        let call = self.lane(Lane::Progress, "commit progress");
        call.fenced(&self.pipeline, generation, async |session, pipeline| {
            progress::commit(session, pipeline, progress).await
        })
        .await
    }

    async fn progress(&self) -> Result<Progress, StoreError> {
        let call = self.lane(Lane::Progress, "read progress");
        call.run(async |session| progress::read(session, &self.pipeline).await).await
    }

    async fn rules(&self) -> Result<Vec<Rule>, StoreError> {
        const ACTION: &str = "read rules";
        let call = self.lane(Lane::Progress, ACTION);
        let rows = call.run(async |session| rules::read(session, &self.pipeline).await).await?;
        rule_versions::rules(rows).map_err(|unknown| permanent(ACTION, &unknown))
    }

    async fn store_rules(&self, generation: Generation, rules: &[Rule]) -> Result<(), StoreError> {
        const ACTION: &str = "store rules";
        let rows = rule_versions::rows(rules).map_err(|error| permanent(ACTION, &error))?;
        let call = self.lane(Lane::Progress, ACTION);
        call.fenced(&self.pipeline, generation, async |session, pipeline| rules::write(session, pipeline, &rows).await)
            .await
    }

    async fn stored_incidents(&self, since: EventTime) -> Result<Vec<StoredIncident>, StoreError> {
        let call = self.lane(Lane::Closings, "read incidents");
        let rows = call.run(async |session| incidents::stored(session, since).await).await?;
        rows.iter().map(values::stored_incident).collect()
    }

    async fn incidents(&self, selection: &Selection) -> Result<Vec<IncidentRow>, StoreError> {
        let call = self.lane(Lane::Closings, "read incidents");
        let rows = call.run(async |session| incidents::select(session, selection).await).await?;
        rows.iter().map(values::incident_row).collect()
    }
}
