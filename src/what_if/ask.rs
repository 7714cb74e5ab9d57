//! Reads history page by page, replays it, and puts the answer together.

use super::answer::{Answer, CandidateAnswer, HistoryRange, Noisy};
use super::notes::notes;
use super::plan::{PlannedPage, pages};
use super::question::{DAY_MS, Question};
use super::tally::{BugTally, Tally, tallies, tenants};
use crate::pipeline::tenants::Tenants;
use floodmark_dataflow::replay::{Found, Replay};
use floodmark_dataflow::state::candidate::{Candidate, Finding};
use floodmark_dataflow::state::history::{BugKey, Fact};
use floodmark_model::incident::Status;
use floodmark_model::{EventTime, Fingerprint, IncidentKey, IncidentKind, Rule, Window};
use floodmark_sinks::{BucketCount, HistoryDay, IncidentStore, OccurrenceStore, Selection, StoreError};
use std::sync::Arc;

/// Bugs that are named for each candidate.
const NOISIEST: usize = 3;

/// Answers the question, with so many workers and at most so many stored rows a page. `read` is called for each page
/// with the rows that are behind it, and all.
///
/// Reads only. Blocks its thread while a page is judged: nothing else should run on it.
///
/// # Errors
///
/// A store that does not answer.
pub async fn ask(
    occurrences: &impl OccurrenceStore,
    incidents: &impl IncidentStore,
    question: &Question,
    workers: usize,
    rows_per_page: u64,
    mut read: impl FnMut(u64, u64),
) -> Result<Answer, StoreError> {
    let days = occurrences.history_days(question.read_from(), question.until).await?;
    let pages = pages(question, &days, rows_per_page);
    let rows: u64 = pages.iter().map(|page| page.rows).sum();
    let mut asking = Asking::new(question, workers);
    let mut behind = 0;
    for page in &pages {
        read(behind, rows);
        asking.page(occurrences, incidents, page).await?;
        behind += page.rows;
    }
    read(rows, rows);
    asking.answer(occurrences, history(question, &days)).await
}

/// What goes from page to page.
struct Asking<'a> {
    question: &'a Question,
    workers: usize,
    tenants: Arc<Tenants>,
    tallies: Vec<Tally>,
    /// Counts of the windows that end where the next page begins.
    last_windows: Vec<(BugKey, EventTime, isize)>,
    /// Incidents in them.
    standing: Vec<Found>,
    occurrences: u64,
    incidents_today: u64,
}

impl<'a> Asking<'a> {
    fn new(question: &'a Question, workers: usize) -> Self {
        Self {
            question,
            workers,
            tenants: tenants(),
            tallies: tallies(question),
            last_windows: Vec::new(),
            standing: Vec::new(),
            occurrences: 0,
            incidents_today: 0,
        }
    }

    async fn page(
        &mut self,
        occurrences: &impl OccurrenceStore,
        incidents: &impl IncidentStore,
        planned: &PlannedPage,
    ) -> Result<(), StoreError> {
        let page = planned.page;
        let mut replay = Replay::start_on(self.workers, page, self.question.terms(&self.tenants));
        self.question.candidates.iter().for_each(|candidate| replay.add(*candidate));
        self.carry_over(&mut replay);
        for (bug, start) in self.today(incidents, page.from.max(self.question.since), page.until).await? {
            replay.say(bug, Fact::Today(start), 1);
        }
        let span = self.selection(page.from, page.until);
        let keep_from = page.until.minus(self.question.longest_window_ms());
        let (tenants, last_windows, counted) = (&self.tenants, &mut self.last_windows, &mut self.occurrences);
        let is_last = page.until == self.question.until;
        let each = |bucket: BucketCount| {
            let bug = key(tenants, &bucket.tenant, bucket.fingerprint);
            let (start, count) = (bucket.bucket_start, isize::try_from(bucket.count).unwrap_or(isize::MAX));
            replay.say(bug, Fact::Occurrence(start), count);
            if !is_last && start >= keep_from {
                last_windows.push((bug, start, count));
            }
            if start >= page.told_from {
                *counted += bucket.count;
            }
        };
        occurrences.history_counts(&self.question.rule, self.question.bucket_ms(), &span, each).await?;
        replay.settle(|found, _| match found.finding {
            Finding::Standing { .. } => self.standing.push(found),
            _ => self.tallies[usize::from(found.candidate.0)].add(&found, &self.tenants),
        });
        Ok(())
    }

    /// Tells a page what the one before it left.
    fn carry_over(&mut self, replay: &mut Replay) {
        for (bug, start, count) in self.last_windows.drain(..) {
            replay.say(bug, Fact::Occurrence(start), count);
        }
        for found in self.standing.drain(..) {
            if let Finding::Standing { episode } = found.finding {
                replay.say(found.bug, Fact::Standing { candidate: found.candidate, episode }, 1);
            }
        }
    }

    /// The incidents that stand.
    async fn today(
        &mut self,
        incidents: &impl IncidentStore,
        since: EventTime,
        until: EventTime,
    ) -> Result<Vec<(BugKey, EventTime)>, StoreError> {
        if since >= until {
            return Ok(Vec::new());
        }
        let mut today = Vec::new();
        for row in incidents.incidents(&self.selection(since, until)).await? {
            let stands = matches!(row.status, Status::Open | Status::Closed);
            let is_burst = row.kind == IncidentKind::Burst.name() && row.rule == self.question.rule.name;
            if let Some(fingerprint) = Fingerprint::from_hex(&row.fingerprint).filter(|_| stands && is_burst) {
                today.push((key(&self.tenants, &row.tenant, fingerprint), row.window_start));
            }
        }
        self.incidents_today += today.len() as u64;
        Ok(today)
    }

    fn selection(&self, since: EventTime, until: EventTime) -> Selection {
        Selection { tenant: self.question.tenant.clone(), since: Some(since), until: Some(until) }
    }

    async fn answer(
        mut self,
        occurrences: &impl OccurrenceStore,
        history: Option<HistoryRange>,
    ) -> Result<Answer, StoreError> {
        let mut candidates = Vec::with_capacity(self.tallies.len());
        for (candidate, tally) in self.question.candidates.iter().zip(std::mem::take(&mut self.tallies)) {
            let runs_today = self.question.runs_today(candidate);
            let noisiest = tally.noisiest(NOISIEST, &self.tenants);
            candidates.push(CandidateAnswer {
                window_ms: candidate.window_ms,
                threshold: candidate.threshold,
                straddle: if runs_today { self.question.rule.straddle } else { candidate.straddle },
                straddle_buckets: candidate.buckets,
                runs_today,
                incidents: tally.incidents,
                episodes: tally.episodes,
                pages_per_day: history.map_or(0.0, |history| tally.episodes as f64 / history.days),
                new: tally.new.into_difference(),
                vanished: tally.vanished.into_difference(),
                noisiest: self.with_messages(occurrences, candidate, &noisiest).await?,
            });
        }
        Ok(Answer {
            rule: self.question.rule.name.clone(),
            tenant: self.question.tenant.clone(),
            since: self.question.since,
            until: self.question.until,
            history,
            occurrences: self.occurrences,
            incidents_today: self.incidents_today,
            candidates,
            notes: notes(self.question, history),
        })
    }

    /// A message of each bug, from its busiest window.
    async fn with_messages(
        &self,
        occurrences: &impl OccurrenceStore,
        candidate: &Candidate,
        bugs: &[(BugKey, BugTally)],
    ) -> Result<Vec<Noisy>, StoreError> {
        let rule = Rule { window_ms: candidate.window_ms, ..self.question.rule.clone() };
        let key = |(bug, tally): &(BugKey, BugTally)| IncidentKey {
            kind: IncidentKind::Burst,
            rule: rule.name.as_str().into(),
            tenant: self.tenants.name(bug.tenant),
            fingerprint: bug.fingerprint,
            window: Window { start: EventTime(tally.busiest.1.0), size_ms: candidate.window_ms },
        };
        if bugs.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<IncidentKey> = bugs.iter().map(key).collect();
        let facts = occurrences.window_facts(&rule, &keys).await?;
        let noisy = |((bug, tally), facts): (&(BugKey, BugTally), floodmark_model::incident::WindowFacts)| Noisy {
            tenant: self.tenants.name(bug.tenant).to_string(),
            fingerprint: bug.fingerprint.to_string(),
            incidents: tally.incidents,
            occurrences: tally.occurrences,
            message: facts.samples.into_iter().next().map_or_else(String::new, |sample| sample.message),
        };
        Ok(bugs.iter().zip(facts).map(noisy).collect())
    }
}

fn key(tenants: &Tenants, tenant: &str, fingerprint: Fingerprint) -> BugKey {
    let tenant = tenants.number(tenant).expect("no store holds four billion tenants");
    BugKey { tenant, fingerprint }
}

/// What is stored of the range, from its first occurrence to its last.
fn history(question: &Question, days: &[HistoryDay]) -> Option<HistoryRange> {
    let days: Vec<_> = days.iter().filter(|day| day.last_ts >= question.since).collect();
    let first_ts = days.first()?.first_ts.max(question.since);
    let last_ts = days.last()?.last_ts;
    let days = ((last_ts.0 - first_ts.0) as f64 / DAY_MS as f64).max(1.0);
    Some(HistoryRange { first_ts, last_ts, days })
}
