//! Whether log, tallies, rows and incidents agree (`floodmark reconcile`, and periodically in `floodmark run`).
//!
//! Three comparisons: the tallies that were committed with the progress against the offsets they span (G-2); the rows of
//! the store of occurrences against the tallies; and the incidents that W-4 demands over the stored counts against those
//! that stand (W-7, W-9, W-11).
//!
//! *Beside a running engine.* Progress is read first, then incidents, then counts, each both in whole and cut at the
//! progress that was read. What progress covers has had all its effects before the incidents were read (G-3); what they
//! show has its rows in the counts that were read after them. A window is judged where both cuts say the same, and counted
//! as moving where they do not.
//!
//! *Bounds.* Incidents and counts are read for an hour of windows at a time. Differences beyond [`DIFFERENCES_MAX`] are
//! counted and not kept.
//!
//! *What is proved.* A record that was read live and has no client's id has a row of its own: one that is missing is a
//! difference. A record with one may be a copy of another (I-2), and a backfilled one stands for a record elsewhere: where
//! those have no row, the stores do not decide whether one is lost, and the report says so with their number.
//!
//! Nothing is written: what is found is for people.

mod backfilled;
mod chains;
mod incidents;
mod log;
mod report;
mod tallies;

use crate::reconcile::incidents::Demanded;
use crate::reconcile::tallies::Rows;
use crate::rules::{named, with_stored};
use floodmark_kafka::KafkaError;
use floodmark_model::{EventTime, Rule, Window};
use floodmark_sinks::inspect::{InspectIncidents, InspectOccurrences};
use floodmark_sinks::{IncidentStore, OccurrenceStore, StoreError};
use std::collections::BTreeMap;

pub use log::LogOf;
pub use report::{Checked, DIFFERENCES_MAX, Difference, Kind, Place, Report};

/// What is compared without `--since`: so much before the closed watermark.
const DEFAULT_SPAN_MS: i64 = 24 * 3_600_000;

/// The most that is compared. Rows are kept for less, unless they are told to stay longer.
const SPAN_MAX_MS: i64 = 400 * 24 * 3_600_000;

/// The windows that are read at once.
const CHUNK_MS: i64 = 3_600_000;

/// Why a comparison did not end.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log did not say what it holds.
    #[error(transparent)]
    Log(#[from] KafkaError),
    /// There is no such topic.
    #[error("topic {topic} does not exist on these brokers: check --topic and --brokers, or kafka.topic")]
    TopicMissing {
        /// Its name.
        topic: String,
    },
    /// The question to the log was broken off.
    #[error("the question to Kafka did not end: {0}")]
    BrokenOff(#[from] tokio::task::JoinError),
}

/// A comparison that can be made.
pub struct Reconcile<'a, O, I> {
    /// The rows.
    pub occurrences: &'a O,
    /// The incidents, and progress.
    pub incidents: &'a I,
    /// The rules, as they are configured now.
    pub rules: &'a [Rule],
    /// From when on incidents are compared; without it [`DEFAULT_SPAN_MS`] before the closed watermark.
    pub since: Option<EventTime>,
    /// What time it is.
    pub now: EventTime,
}

impl<O, I> Reconcile<'_, O, I>
where
    O: OccurrenceStore + InspectOccurrences,
    I: IncidentStore + InspectIncidents,
{
    /// Compares everything; with the log, where there is one to ask. `each` is told how many of how many steps are done.
    ///
    /// # Errors
    ///
    /// A store or the log fails.
    pub async fn run(&self, log: Option<LogOf>, mut each: impl FnMut(usize, usize)) -> Result<Report, ReconcileError> {
        let progress = self.incidents.progress().await?;
        // After progress: so the log is never older than that.
        let log = match log {
            Some(log) => Some(log.ask().await?),
            None => None,
        };
        let mut report = Report::default();
        let of_partitions = self.occurrences.stored_rows(&progress).await?;
        let rows = Rows {
            of_partitions: of_partitions.into_iter().map(|rows| (rows.key, rows)).collect(),
            dead_letters_of_inputs: self.occurrences.dead_letters_elsewhere(&progress).await?,
        };
        let kept_since = self.occurrences.keeps_for_ms().map(|keeps_ms| self.now.minus(keeps_ms));
        tallies::compare(&progress, &rows, log.as_ref(), kept_since, &mut report);

        let Some(closed) = progress.closed else {
            report.notes.push("no window has closed yet: no incident is judged".into());
            return Ok(report);
        };
        let asked = self.since.unwrap_or_else(|| closed.minus(DEFAULT_SPAN_MS));
        let since = asked.max(closed.minus(SPAN_MAX_MS));
        if since > asked {
            report.notes.push("only the last 400 days before the closed watermark are compared".into());
        }
        (report.checked.since, report.checked.until) = (Some(since), Some(closed));
        // Each window by its own version (Q51).
        let rules = with_stored(self.rules, &self.incidents.rules().await?);
        let chunks: Vec<_> = rules.iter().flat_map(|rule| chunks(rule, since, closed)).collect();
        let mut unconfigured = BTreeMap::new();
        for (index, (rule, first, end)) in chunks.iter().enumerate() {
            let is_configured = named(self.rules, &rule.name).is_some();
            let demanded = Demanded { rule, is_configured, first: *first, end: *end, progress: &progress };
            let judged_before = report.checked.incidents;
            demanded.compare(self.occurrences, self.incidents, &mut report).await?;
            if !is_configured {
                *unconfigured.entry(&*rule.name).or_insert(0) += report.checked.incidents - judged_before;
            }
            each(index + 1, chunks.len());
        }
        unconfigured.retain(|_, incidents| *incidents > 0);
        report.notes.extend(unconfigured.iter().map(|(rule, incidents)| {
            format!(
                "rule {rule} is stored but not configured here: its {incidents} incidents are compared with its stored \
                 version; whether some are missing is not (--config names the file that the engine runs with)"
            )
        }));
        incidents::count_open(self.incidents, closed, &rules, &mut report).await?;
        Ok(report)
    }
}

/// The windows of a rule from `since` to `closed`, an hour of them at a time: rule, first window, end.
fn chunks(rule: &Rule, since: EventTime, closed: EventTime) -> Vec<(&Rule, Window, EventTime)> {
    let length = (CHUNK_MS / rule.window_ms).max(1) * rule.window_ms;
    let end = Window::containing(closed, rule.window_ms).start;
    let mut chunks = Vec::new();
    let mut first = Window::containing(since, rule.window_ms);
    if first.start < since {
        first = first.next();
    }
    while first.start < end {
        let until = first.start.plus(length).min(end);
        chunks.push((rule, first, until));
        first = Window { start: until, ..first };
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_closed_windows_are_compared_an_hour_at_a_time() {
        let rule = Rule::default();
        let (minute, ends) = (60_000, |chunks: Vec<(&Rule, Window, EventTime)>| {
            chunks.iter().map(|(_, first, end)| (first.start.0 / 60_000, end.0 / 60_000)).collect::<Vec<_>>()
        });
        let found = chunks(&rule, EventTime(minute), EventTime(128 * minute));
        assert_eq!(ends(found), [(5, 65), (65, 125)]);
        assert_eq!(ends(chunks(&rule, EventTime(-7 * minute), EventTime(4 * minute))), [(-5, 0)]);
        assert_eq!(ends(chunks(&rule, EventTime(minute), EventTime(9 * minute))), []);
        let long = Rule { window_ms: 3 * 60 * minute, ..Rule::default() };
        assert_eq!(ends(chunks(&long, EventTime(0), EventTime(600 * minute))), [(0, 180), (180, 360), (360, 540)]);
    }
}
