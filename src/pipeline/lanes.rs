//! The other ends of the dataflow's channels: one thread a lane takes deliveries, writes them, and acknowledges.
//!
//! Rows, incidents, closings, questions and samples have lanes of their own, so that an incident never waits behind an
//! insert or a query, and nothing behind samples. A closing waits until the rows that were judged before it are stored
//! ([`Marks`]): so no lane writes an older state of a row over a newer one.

use crate::pipeline::OnIncident;
use crate::pipeline::budget::Admitted;
use crate::pipeline::commit::ToCommit;
use crate::pipeline::crowds::{OpenCrowds, closed_crowd, crowd_incident};
use crate::pipeline::intake::IntakeShared;
use crate::pipeline::marks::Marks;
use crate::pipeline::persist::{Ended, Persist};
use crate::pipeline::questions::{answer, closed_windows};
use crate::pipeline::samples::{Waiting, pause_after};
use crossbeam_channel::{Receiver, Sender};
use floodmark_dataflow::ask::Asking;
use floodmark_dataflow::egress::{Acknowledge, Delivery};
use floodmark_dataflow::message::{Closing, CrowdKey, Due, JudgedRow, Question, WindowKey};
use floodmark_model::incident::JudgedIncident;
use floodmark_model::rule::RuleIndex;
use floodmark_model::{EventTime, IncidentKey, IncidentKind, Rule, Window};
use floodmark_sinks::{FACTS_MAX, Generation, IncidentStore, OccurrenceStore};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Incidents of one write.
const INCIDENTS_MAX: usize = 5_000;

/// How long the occurrence store is left alone after a question, at most; else as long as that took.
const QUESTION_PAUSE_MAX: Duration = Duration::from_secs(2);

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
    /// How far the rows of each worker are stored.
    pub marks: Marks,
    /// Incidents of too many bugs, whose window is open.
    pub crowds: Arc<OpenCrowds>,
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

    /// Writes incidents until the dataflow or the pipeline ends.
    pub async fn due(&self, deliveries: Receiver<Delivery<Due>>) {
        while let Some((items, acknowledges)) = next_deliveries(&deliveries, INCIDENTS_MAX) {
            if self.write(items).await.is_err() {
                return;
            }
            acknowledges.into_iter().for_each(Acknowledge::confirm);
        }
    }

    /// Writes rows in order. What one judgement changes is one write (W-7).
    async fn write(&self, items: Vec<Due>) -> Result<(), Ended> {
        let (mut rows, mut marks) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Due::Rows(judged) => {
                    rows.extend(judged.iter().map(|row| self.judged_incident(row)));
                    if rows.len() >= INCIDENTS_MAX {
                        self.write_rows(&std::mem::take(&mut rows)).await?;
                    }
                }
                Due::Crowd { key, panes } => rows.push(self.crowd_incident(&key, panes)),
                Due::Mark { worker, number } => marks.push((worker, number)),
            }
        }
        self.write_rows(&rows).await?;
        marks.into_iter().for_each(|(worker, number)| self.marks.reach(worker, number));
        Ok(())
    }

    async fn write_rows(&self, rows: &[JudgedIncident]) -> Result<(), Ended> {
        if rows.is_empty() {
            return Ok(());
        }
        let write = async || self.incidents.write_incidents(self.generation, rows).await;
        let new = self.persist.until_stored(self.incidents.name(), "write incidents", write).await?;
        let mut new: BTreeSet<_> = new.into_iter().collect();
        for incident in rows.iter().filter(|row| row.verdict.is_incident()) {
            if new.remove(&incident.key.id()) {
                self.intake.metrics.incident(incident.detection);
                if let Some(tell) = &self.on_incident {
                    tell(incident);
                }
            }
        }
        Ok(())
    }

    fn judged_incident(&self, row: &JudgedRow) -> JudgedIncident {
        JudgedIncident {
            key: self.incident_key(&row.key),
            verdict: row.verdict,
            detection: row.detection,
            count: u64::from(row.count),
            opened_at: row.opened_at,
            message: self.intake.recent.of(&row.key.pane),
        }
    }

    /// Answers the judges' questions until the dataflow or the pipeline ends.
    pub async fn questions(&self, questions: Receiver<Asking>) {
        while let Ok(Asking { question, reply }) = questions.recv() {
            let asked = Instant::now();
            let is_about_keys = matches!(question, Question::Keys(_));
            let (rules, tenants) = (&self.intake.rules, &self.intake.tenants);
            let ask = async || answer(&*self.occurrences, rules, tenants, &question).await;
            let Ok(answer) = self.persist.until_stored(self.occurrences.name(), "judge late keys", ask).await else {
                return;
            };
            reply.answer(answer);
            if !is_about_keys {
                continue;
            }
            // While late ones come in a flood, fewer questions are asked, each about more keys.
            tokio::select! {
                () = tokio::time::sleep(asked.elapsed().min(QUESTION_PAUSE_MAX)) => {}
                () = self.persist.stop.stopped() => return,
            }
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
        for (worker, number) in sorted.after {
            self.marks.reached(worker, number, &self.persist.stop).await?;
        }
        for (index, rule) in self.intake.rules.iter().enumerate() {
            for keys in self.of_rule(index, &sorted.closed).chunks(FACTS_MAX) {
                self.close_keys(rule, keys).await?;
            }
        }
        for (worker, time) in sorted.closed_to {
            self.close_crowds(time).await?;
            // The committer ends only with the pipeline.
            let _ = commit.send(ToCommit::Closed { worker, time });
        }
        Ok(())
    }

    fn crowd_incident(&self, crowd: &CrowdKey, panes: u64) -> JudgedIncident {
        let tenant = self.intake.tenants.name(crowd.tenant);
        let incident = crowd_incident(self.rule(crowd.rule), tenant, crowd, panes);
        self.crowds.add(incident.key.clone());
        incident
    }

    async fn close_crowds(&self, watermark: EventTime) -> Result<(), Ended> {
        for key in self.crowds.take_closed(watermark) {
            // A rule that is no longer configured leaves its rows as they are.
            let Some(rule) = self.intake.rules.iter().find(|rule| *rule.name == *key.rule) else { continue };
            let count = async || self.occurrences.distinct_fingerprints(rule, &key.tenant, key.window.start).await;
            let fingerprints = self.persist.until_stored(self.occurrences.name(), "count bugs", count).await?;
            let closed = [closed_crowd(key.clone(), fingerprints)];
            let write = async || self.incidents.close_incidents(self.generation, &closed, false).await;
            self.persist.until_stored(self.incidents.name(), "write totals", write).await?;
        }
        Ok(())
    }

    /// W-9: totals and samples of rows whose window has closed.
    async fn close_keys(&self, rule: &Rule, keys: &[IncidentKey]) -> Result<(), Ended> {
        let ask = async || closed_windows(&*self.occurrences, rule, keys).await;
        let windows = self.persist.until_stored(self.occurrences.name(), "read totals", ask).await?;
        let write = async || self.incidents.close_incidents(self.generation, &windows, false).await;
        let withdrawn = self.persist.until_stored(self.incidents.name(), "write totals", write).await?;
        self.intake.metrics.withdrawn(withdrawn as u64);
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
                if !keys.is_empty() && self.refresh(rule, &keys).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause_after(started.elapsed())) => {}
                () = stop.stopped() => return,
            }
        }
    }

    async fn refresh(&self, rule: &Rule, keys: &[IncidentKey]) -> Result<(), Ended> {
        let ask = async || self.occurrences.window_facts(rule, keys).await;
        let facts = self.persist.until_stored(self.occurrences.name(), "read samples", ask).await?;
        let write = async || self.incidents.refresh_incidents(self.generation, &facts).await;
        self.persist.until_stored(self.incidents.name(), "write samples", write).await
    }
}

/// Closings by what is done with them; one window of one key once.
#[derive(Default)]
struct Sorted {
    refresh: BTreeSet<WindowKey>,
    after: Vec<(u32, u64)>,
    closed: BTreeSet<WindowKey>,
    closed_to: Vec<(u32, EventTime)>,
}

impl Sorted {
    fn new(closings: Vec<Closing>) -> Self {
        let mut sorted = Self::default();
        for closing in closings {
            match closing {
                Closing::Refresh(key) => _ = sorted.refresh.insert(key),
                Closing::After { worker, number } => sorted.after.push((worker, number)),
                Closing::Close(key) => _ = sorted.closed.insert(key),
                Closing::ClosedTo { worker, time } => sorted.closed_to.push((worker, time)),
            }
        }
        sorted.refresh.retain(|key| !sorted.closed.contains(key));
        sorted
    }
}
