//! Starting from the stores alone (design, decision 1): what was committed, what the open windows hold, which incidents
//! stand.
//!
//! Whatever is read from the occurrence store is cut at the committed offsets: the records behind them are read again.

use crate::config::Config;
use crate::pipeline::crowds::OpenCrowds;
use crate::pipeline::intake::IntakeShared;
use crate::pipeline::persist::{Ended, Persist};
use crate::pipeline::retry_filter::Candidate;
use crate::pipeline::stop::Ending;
use crate::rules;
use floodmark_dataflow::message::{Event, EventKind, TenantId};
use floodmark_model::incident::Status;
use floodmark_model::progress::Progress;
use floodmark_model::rule::RuleIndex;
use floodmark_model::{EventTime, IncidentKind, Rule, Verdict, Window};
use floodmark_sinks::{Generation, IncidentStore, OccurrenceStore, StoredIncident};
use std::sync::Arc;

/// What a start knows before it reads the log.
pub struct Recovered {
    /// Every write of this process carries it.
    pub generation: Generation,
    /// What is committed.
    pub progress: Arc<Progress>,
    /// The rules with their versions, in the order of the configuration (Q51).
    pub rules: Vec<Rule>,
}

/// The earliest time that the stores can hold: 1900-01-01T00:00:00Z.
const EARLIEST: EventTime = EventTime(-2_208_988_800_000);
/// Loaded events of one batch.
const BATCH_EVENTS: usize = 4_096;

/// The stores of a pipeline, and how they are called.
pub struct Recovery<'a, O, I> {
    /// Holds the rows.
    pub occurrences: &'a O,
    /// Holds incidents and progress.
    pub incidents: &'a I,
    /// How stores are called.
    pub persist: &'a Persist,
}

impl<O: OccurrenceStore, I: IncidentStore> Recovery<'_, O, I> {
    /// Migrates the stores, takes the pipeline over, and reads what is committed and which version of a rule judges when.
    pub async fn take_over(&self, config: &Config) -> Result<Recovered, Ended> {
        let (raw, inc) = (self.occurrences, self.incidents);
        self.persist.until_stored(inc.name(), "migrate", async || inc.migrate().await).await?;
        self.persist.until_stored(raw.name(), "migrate", async || raw.migrate().await).await?;
        let generation = self.persist.until_stored(inc.name(), "take over", async || inc.take_over().await).await?;
        let mut progress =
            self.persist.until_stored(inc.name(), "read progress", async || inc.progress().await).await?;
        let settings_hash = config.identity_hash();
        if progress.settings_hash != settings_hash {
            if !progress.partitions.is_empty() {
                tracing::warn!("settings that identity depends on have changed: deleting rows that are not committed");
                self.delete_uncommitted(&progress).await?;
            }
            progress.settings_hash = settings_hash;
        }
        let rules = self.change_rules(generation, &config.rules, progress.watermark()).await?;
        Ok(Recovered { generation, progress: Arc::new(progress), rules })
    }

    /// Q51: what has changed in the configuration since the last start becomes a new version, which is stored before
    /// anything is judged by it.
    async fn change_rules(
        &self,
        generation: Generation,
        configured: &[Rule],
        watermark: Option<EventTime>,
    ) -> Result<Vec<Rule>, Ended> {
        let inc = self.incidents;
        let stored = self.persist.until_stored(inc.name(), "read rules", async || inc.rules().await).await?;
        let rules = rules::changed_to(configured, &stored, watermark).map_err(|refused| {
            self.persist.stop.fail(refused.to_string(), 2);
            Ended
        })?;
        let changed: Vec<Rule> = rules.iter().filter(|rule| !stored.contains(rule)).cloned().collect();
        if !changed.is_empty() {
            let store = async || inc.store_rules(generation, &changed).await;
            self.persist.until_stored(inc.name(), "store rules", store).await?;
        }
        for rule in changed.iter().filter(|rule| !rule.earlier.is_empty()) {
            tracing::info!(
                rule = rule.name,
                from_ms = rule.from.0,
                "the rule has changed: it judges the windows from there on"
            );
        }
        Ok(rules)
    }

    /// Deletes the rows of records that will be read again, or never.
    pub async fn delete_uncommitted(&self, progress: &Progress) -> Result<(), Ended> {
        let delete = async || self.occurrences.delete_uncommitted(progress).await;
        self.persist.until_stored(self.occurrences.name(), "delete uncommitted rows", delete).await
    }

    /// Reads the panes of the windows that end after the closed time, and of the one before them, with their
    /// incidents; hands them on in batches. A failure in the middle starts the pipeline anew: what was handed on would
    /// be counted twice.
    pub async fn load(
        &self,
        intake: &IntakeShared,
        progress: &Progress,
        crowds: &OpenCrowds,
        mut send: impl FnMut(Vec<Event>) + Send,
    ) -> Result<(), Ended> {
        let mut earliest = None;
        for (index, rule) in intake.rules.iter().enumerate() {
            let since = since(rule, progress);
            earliest = earliest.map_or(Some(since), |least: EventTime| Some(least.min(since)));
            self.load_rule(RuleIndex(index as u16), since, intake, progress, &mut send).await?;
        }
        let since = earliest.unwrap_or(EARLIEST);
        let mut owners = Vec::new();
        let read = self.occurrences.events(since, progress, |event| {
            owners.push(Candidate { identity: event.identity, owner: event.owner, ts: event.ts });
            if owners.len() >= BATCH_EVENTS {
                intake.retries.are_retries(&std::mem::take(&mut owners));
            }
        });
        self.or_start_anew(read.await)?;
        intake.retries.are_retries(&owners);
        let stored = async || self.incidents.stored_incidents(since).await;
        let stored = self.persist.until_stored(self.incidents.name(), "read incidents", stored).await?;
        let is_open_crowd =
            |incident: &&StoredIncident| incident.key.kind == IncidentKind::Cardinality && !incident.is_closed;
        stored.iter().filter(is_open_crowd).for_each(|incident| crowds.add(incident.key.clone()));
        let rows = stored.iter().filter(|incident| incident.key.kind == IncidentKind::Burst);
        let rows = rows.filter_map(|incident| {
            let index = intake.rules.iter().position(|rule| *rule.name == *incident.key.rule)?;
            let verdict = Verdict::new(incident.reach, incident.status == Status::Superseded);
            Some(Event {
                fingerprint: incident.key.fingerprint,
                ts: incident.key.window.start,
                tenant: self.tenant(intake, &incident.key.tenant)?,
                n: 0,
                rule: RuleIndex(index as u16),
                kind: EventKind::Stored { verdict, detection: incident.detection },
            })
        });
        send(rows.collect());
        Ok(())
    }

    async fn load_rule(
        &self,
        index: RuleIndex,
        since: EventTime,
        intake: &IntakeShared,
        progress: &Progress,
        send: &mut (impl FnMut(Vec<Event>) + Send),
    ) -> Result<(), Ended> {
        let rule = &intake.rules[usize::from(index.0)];
        let mut events = Vec::with_capacity(BATCH_EVENTS);
        let read = self.occurrences.bucket_counts(rule, since, progress, |bucket| {
            let Some(tenant) = self.tenant(intake, &bucket.tenant) else { return };
            events.push(Event {
                fingerprint: bucket.fingerprint,
                ts: bucket.bucket_start,
                tenant,
                n: u32::try_from(bucket.count).unwrap_or(u32::MAX),
                rule: index,
                kind: EventKind::Loaded,
            });
            if events.len() >= BATCH_EVENTS {
                send(std::mem::replace(&mut events, Vec::with_capacity(BATCH_EVENTS)));
            }
        });
        self.or_start_anew(read.await)?;
        send(events);
        Ok(())
    }

    fn tenant(&self, intake: &IntakeShared, name: &str) -> Option<TenantId> {
        let number = intake.tenants.number(name);
        if number.is_none() {
            self.persist.stop.fail("more tenants are stored than limits.max_tenants allows: raise it", 2);
        }
        number
    }

    fn or_start_anew<T>(&self, result: Result<T, floodmark_sinks::StoreError>) -> Result<T, Ended> {
        result.map_err(|error| {
            if error.is_transient() {
                self.persist.health.trouble(error.store, format!("{error}; starting anew"));
                self.persist.stop.end(Ending::StartAnew(error.to_string()));
            } else {
                self.persist.stop.fail(error.to_string(), 3);
            }
            Ended
        })
    }
}

/// The first window that a start loads: the one before the windows that end after the closed time (a bridge looks
/// back).
fn since(rule: &Rule, progress: &Progress) -> EventTime {
    let first = progress.closed.map(|closed| Window::containing(closed, rule.window_ms).previous().start);
    first.map_or(EARLIEST, |first| first.max(EARLIEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_1_a_start_loads_what_ends_after_the_closed_time_and_the_window_before() {
        let rule = Rule { window_ms: 100, ..Rule::default() };
        let at = |closed| since(&rule, &Progress { closed, ..Progress::default() });
        assert_eq!(at(None), EARLIEST);
        assert_eq!(at(Some(EventTime(1_000))), EventTime(900), "[1000, 1100) ends after it");
        assert_eq!(at(Some(EventTime(1_050))), EventTime(900));
    }
}
