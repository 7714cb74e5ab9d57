//! The other ends of the dataflow's channels: one thread a lane takes deliveries, writes them, and acknowledges.
//!
//! Rows, incidents, closings and samples have lanes of their own, so that an incident never waits behind an insert or a
//! query, and nothing behind samples.

use crate::pipeline::OnIncident;
use crate::pipeline::budget::Admitted;
use crate::pipeline::commit::ToCommit;
use crate::pipeline::intake::IntakeShared;
use crate::pipeline::persist::{Ended, Persist};
use crate::pipeline::samples::{Waiting, pause_after};
use crate::rules;
use crossbeam_channel::{Receiver, Sender};
use floodmark_dataflow::egress::{Acknowledge, Delivery};
use floodmark_dataflow::message::{Closing, Due, WindowKey};
use floodmark_model::incident::{JudgedIncident, WindowFacts};
use floodmark_model::rule::RuleIndex;
use floodmark_model::{Detection, EventTime, IncidentKey, IncidentKind, Rule, Verdict, Window};
use floodmark_sinks::{FACTS_MAX, Generation, IncidentStore, OccurrenceStore};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Incidents of one write.
const INCIDENTS_MAX: usize = 5_000;

/// What the lanes of a pipeline share.
pub struct Lanes<O, I> {
    /// Holds the rows, and answers totals.
    pub occurrences: Arc<O>,
    /// Holds the incidents.
    pub incidents: Arc<I>,
    /// This process's generation.
    pub generation: Generation,
    /// Rules and tenant names.
    pub intake: Arc<IntakeShared>,
    /// How stores are called.
    pub persist: Persist,
    /// Samples that may be refreshed.
    pub waiting: Waiting,
    /// Tells of each new incident, for the `demo`.
    pub on_incident: Option<Arc<OnIncident>>,
}

/// Waits for a delivery, and takes what else is there, so that one write carries them all.
fn next_deliveries<T>(deliveries: &Receiver<Delivery<T>>, items_max: usize) -> Option<(Vec<T>, Vec<Acknowledge>)> {
    let first = deliveries.recv().ok()?;
    let (mut items, mut acknowledges) = (first.items, vec![first.acknowledge]);
    while items.len() < items_max
        && let Ok(next) = deliveries.try_recv()
    {
        items.extend(next.items);
        acknowledges.push(next.acknowledge);
    }
    Some((items, acknowledges))
}

impl<O: OccurrenceStore, I: IncidentStore> Lanes<O, I> {
    /// Inserts rows until the dataflow or the pipeline ends. Several threads may run it.
    pub async fn rows(&self, deliveries: Receiver<Delivery<Admitted>>) {
        while let Ok(Delivery { items, acknowledge }) = deliveries.recv() {
            // A clone of a block shares its rows.
            let blocks: Vec<_> = items.iter().map(|item| item.block.clone()).collect();
            let insert = async || self.occurrences.insert(&blocks).await;
            if self.persist.until_stored(self.occurrences.name(), "insert rows", insert).await.is_err() {
                return;
            }
            acknowledge.confirm();
        }
    }

    /// Inserts incidents until the dataflow or the pipeline ends.
    pub async fn due(&self, deliveries: Receiver<Delivery<Due>>) {
        while let Some((items, acknowledges)) = next_deliveries(&deliveries, INCIDENTS_MAX) {
            let incidents: Vec<_> = items.iter().map(|due| self.new_incident(due)).collect();
            if self.insert(&incidents).await.is_err() {
                return;
            }
            acknowledges.into_iter().for_each(Acknowledge::confirm);
        }
    }

    async fn insert(&self, incidents: &[JudgedIncident]) -> Result<(), Ended> {
        for some in incidents.chunks(INCIDENTS_MAX) {
            let insert = async || self.incidents.insert_incidents(self.generation, some).await;
            let new = self.persist.until_stored(self.incidents.name(), "insert incidents", insert).await?;
            let new: BTreeSet<_> = new.into_iter().collect();
            for incident in some.iter().filter(|incident| new.contains(&incident.key.id())) {
                self.intake.metrics.incident(incident.detection);
                if let Some(tell) = &self.on_incident {
                    tell(incident);
                }
            }
        }
        Ok(())
    }

    fn new_incident(&self, due: &Due) -> JudgedIncident {
        JudgedIncident {
            verdict: Verdict::Own,
            key: self.incident_key(&due.key),
            detection: due.detection,
            count: u64::from(due.count),
            opened_at: due.opened_at,
            message: self.intake.recent.of(&due.key.pane),
        }
    }

    fn rule(&self, index: RuleIndex) -> &Rule {
        &self.intake.rules[usize::from(index.0)]
    }

    fn incident_key(&self, key: &WindowKey) -> IncidentKey {
        let rule = self.rule(key.rule);
        IncidentKey {
            kind: IncidentKind::Burst,
            rule: rule.name.as_str().into(),
            tenant: self.intake.tenants.name(key.pane.tenant),
            fingerprint: key.pane.fingerprint,
            window: Window { start: key.window_start, size_ms: rule.window_ms },
        }
    }

    /// Reads totals and samples, and writes them, until the dataflow or the pipeline ends.
    pub async fn closings(&self, deliveries: Receiver<Delivery<Closing>>, commit: Sender<ToCommit>) {
        while let Some((items, acknowledges)) = next_deliveries(&deliveries, usize::MAX) {
            if self.close(Sorted::new(items), &commit).await.is_err() {
                return;
            }
            acknowledges.into_iter().for_each(Acknowledge::confirm);
        }
    }

    async fn close(&self, sorted: Sorted, commit: &Sender<ToCommit>) -> Result<(), Ended> {
        self.waiting.add(sorted.refresh);
        for (index, start) in sorted.sweeps {
            self.sweep(index, start).await?;
        }
        for (index, rule) in self.intake.rules.iter().enumerate() {
            self.with_facts(rule, &self.of_rule(index, &sorted.closed), |facts| self.closed(rule, facts)).await?;
            let late = self.existing(&self.of_rule(index, &sorted.late)).await?;
            self.with_facts(rule, &late, |facts| self.retotalled(rule, facts)).await?;
        }
        for (worker, time) in sorted.closed_to {
            // The committer ends only with the pipeline.
            let _ = commit.send(ToCommit::Closed { worker, time });
        }
        Ok(())
    }

    /// Asks the occurrence store about the keys, and hands its answers on.
    async fn with_facts<F: Future<Output = Result<(), Ended>>>(
        &self,
        rule: &Rule,
        keys: &[IncidentKey],
        mut write: impl FnMut(Vec<WindowFacts>) -> F,
    ) -> Result<(), Ended> {
        for some in keys.chunks(FACTS_MAX) {
            let ask = async || self.occurrences.window_facts(rule, some).await;
            let facts = self.persist.until_stored(self.occurrences.name(), "read totals", ask).await?;
            write(facts).await?;
        }
        Ok(())
    }

    fn of_rule<'a>(&self, index: usize, keys: impl IntoIterator<Item = &'a WindowKey>) -> Vec<IncidentKey> {
        let of_rule = keys.into_iter().filter(|key| usize::from(key.rule.0) == index);
        of_rule.map(|key| self.incident_key(key)).collect()
    }

    /// Refreshes samples until the pipeline ends.
    pub async fn samples(&self) {
        let stop = &self.persist.stop;
        while !stop.is_stopped() {
            let started = Instant::now();
            let keys = self.waiting.take(FACTS_MAX);
            for (index, rule) in self.intake.rules.iter().enumerate() {
                let keys = self.of_rule(index, &keys);
                if self.with_facts(rule, &keys, |facts| self.refreshed(facts)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause_after(started.elapsed())) => {}
                () = stop.stopped() => return,
            }
        }
    }

    async fn refreshed(&self, facts: Vec<WindowFacts>) -> Result<(), Ended> {
        let write = async || self.incidents.refresh_incidents(self.generation, &facts).await;
        self.persist.until_stored(self.incidents.name(), "write samples", write).await
    }

    /// W-9. A row may still be on its way in the other lane: it is inserted here first, which changes nothing where
    /// it is there.
    async fn closed(&self, rule: &Rule, facts: Vec<WindowFacts>) -> Result<(), Ended> {
        let incidents: Vec<_> = facts.iter().map(|facts| found(facts, Detection::Window)).collect();
        self.insert(&incidents).await?;
        self.retotalled(rule, facts).await
    }

    async fn retotalled(&self, rule: &Rule, facts: Vec<WindowFacts>) -> Result<(), Ended> {
        for (threshold, facts) in rules::by_threshold(rule, facts) {
            let withdrawn = facts.iter().filter(|facts| facts.total < u64::from(threshold)).count();
            self.intake.metrics.withdrawn(withdrawn as u64);
            let write = async || self.incidents.close_incidents(self.generation, threshold, &facts, false).await;
            self.persist.until_stored(self.incidents.name(), "write totals", write).await?;
        }
        Ok(())
    }

    /// Which of these keys have a row: a late occurrence of any other key changes nothing.
    async fn existing(&self, keys: &[IncidentKey]) -> Result<Vec<IncidentKey>, Ended> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = keys.iter().map(IncidentKey::id).collect();
        let ask = async || self.incidents.existing(&ids).await;
        let known = self.persist.until_stored(self.incidents.name(), "look incidents up", ask).await?;
        let known: BTreeSet<_> = known.into_iter().collect();
        Ok(keys.iter().filter(|key| known.contains(&key.id())).cloned().collect())
    }

    /// Q46: judges the keys of a window that had no pane.
    async fn sweep(&self, index: RuleIndex, start: EventTime) -> Result<(), Ended> {
        let rule = self.rule(index);
        let ask = async || self.occurrences.keys_over_threshold(rule, start).await;
        let over = self.persist.until_stored(self.occurrences.name(), "judge a window", ask).await?;
        let keys: Vec<_> = over.into_iter().map(|(key, _)| key).collect();
        self.with_facts(rule, &keys, |facts| async {
            let incidents: Vec<_> = facts.iter().map(|facts| found(facts, Detection::Late)).collect();
            self.insert(&incidents).await?;
            self.retotalled(rule, facts).await
        })
        .await
    }
}

/// An incident as its facts show it, for a row that is not there.
fn found(facts: &WindowFacts, detection: Detection) -> JudgedIncident {
    JudgedIncident {
        verdict: Verdict::Own,
        key: facts.key.clone(),
        detection,
        count: facts.total,
        opened_at: facts.first_ts,
        message: facts.samples.first().map(|sample| sample.message.as_str().into()),
    }
}

/// Closings by what is done with them; one window of one key once.
#[derive(Default)]
struct Sorted {
    refresh: BTreeSet<WindowKey>,
    closed: BTreeSet<WindowKey>,
    late: BTreeSet<WindowKey>,
    sweeps: BTreeSet<(RuleIndex, EventTime)>,
    closed_to: Vec<(u32, EventTime)>,
}

impl Sorted {
    fn new(closings: Vec<Closing>) -> Self {
        let mut sorted = Self::default();
        for closing in closings {
            match closing {
                Closing::Refresh(key) => _ = sorted.refresh.insert(key),
                Closing::Close(key) => _ = sorted.closed.insert(key),
                Closing::Late(key) => _ = sorted.late.insert(key),
                Closing::Sweep { rule, window_start } => _ = sorted.sweeps.insert((rule, window_start)),
                Closing::ClosedTo { worker, time } => sorted.closed_to.push((worker, time)),
            }
        }
        sorted.refresh.retain(|key| !sorted.closed.contains(key));
        sorted.late.retain(|key| !sorted.closed.contains(key));
        sorted
    }
}
