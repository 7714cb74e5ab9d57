//! The comparison that a run makes of itself now and then: on a task and connections of its own, so that nothing waits
//! for it.

use crate::config::Config;
use crate::metrics::Metrics;
use crate::pipeline::health::Health;
use crate::pipeline::stop::Stop;
use crate::pipeline::{Clock, SystemClock};
use crate::reconcile::{LogOf, Reconcile, ReconcileError, Report};
use floodmark_model::EventTime;
use floodmark_sinks::inspect::{InspectIncidents, InspectOccurrences};
use floodmark_sinks::{IncidentStore, OccurrenceStore};
use std::sync::Arc;
use std::time::Duration;

/// Compares every `reconcile.every` until it is told to stop.
pub(super) struct Periodic<O, I> {
    pub(super) config: Arc<Config>,
    /// Of its own.
    pub(super) occurrences: O,
    /// Likewise.
    pub(super) incidents: I,
    /// The log, where there is one to ask.
    pub(super) log: Option<LogOf>,
    pub(super) metrics: Arc<Metrics>,
    /// Nothing is compared while the run is in trouble: a store is away, or the start still makes its tables.
    pub(super) health: Arc<Health>,
    pub(super) halt: Stop,
}

impl<O, I> Periodic<O, I>
where
    O: OccurrenceStore + InspectOccurrences,
    I: IncidentStore + InspectIncidents,
{
    /// The first comparison comes when the span has passed once. Ends at once where it is 0.
    pub(super) async fn run(self) {
        let every = Duration::from_millis(self.config.reconcile_every_ms.unsigned_abs());
        if every.is_zero() {
            return;
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = self.halt.stopped() => return,
            }
            if !self.health.troubles().is_empty() {
                continue;
            }
            tokio::select! {
                compared = self.compare() => self.tell(compared),
                () = self.halt.stopped() => return,
            }
        }
    }

    async fn compare(&self) -> Result<Report, ReconcileError> {
        let reconcile = Reconcile {
            occurrences: &self.occurrences,
            incidents: &self.incidents,
            rules: &self.config.rules,
            since: None,
            now: EventTime(SystemClock.now_ms()),
        };
        reconcile.run(self.log.clone(), |_, _| {}).await
    }

    fn tell(&self, compared: Result<Report, ReconcileError>) {
        match compared {
            Ok(report) => {
                self.metrics.reconciled(&report.counts, SystemClock.now_ms());
                for (kind, count) in &report.counts {
                    tracing::warn!(kind, count, "log, tallies, rows and incidents differ: see `floodmark reconcile`");
                }
            }
            Err(error) => tracing::warn!(%error, "log, tallies, rows and incidents could not be compared"),
        }
    }
}
