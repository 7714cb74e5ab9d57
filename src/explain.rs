//! Why there is, or is not, an incident of a key at a time (`floodmark explain`).
//!
//! The answer is of what the stores hold now. What depends on a moment that is past, such as whether a record came late,
//! is an estimate, and says so.

use crate::chain::{Chain, Run};
use crate::rules::as_stored;
use floodmark_model::incident::IncidentRow;
use floodmark_model::predicate::Verdict;
use floodmark_model::progress::Progress;
use floodmark_model::time::{EffectiveTime, RawTime, Zone};
use floodmark_model::{EventTime, Fingerprint, IncidentKey, IncidentKind, RecordTime, Rule, Window};
use floodmark_sinks::inspect::{
    ANSWERS_MAX, History, InspectIncidents, InspectOccurrences, KeyStretch, RowGroup, Transition,
};
use floodmark_sinks::{IncidentStore, KeySpan, OccurrenceStore, Selection, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;

/// Windows in front of the first that is shown, read at first: what decides its verdict.
const WINDOWS_BEFORE: i64 = 4;

/// How far back it is looked for.
const LOOK_BACK_WINDOWS: i64 = 4_096;

/// How far around a window rows are looked for whose own time lies in it.
const CLAMPED_WITHIN_MS: i64 = 24 * 3_600_000;

/// What is asked.
pub struct Question<'a> {
    /// Tenant.
    pub tenant: &'a str,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// When.
    pub time: EventTime,
    /// The rules to answer for.
    pub rules: &'a [Rule],
    /// How late a record may come (T-3).
    pub lateness_ms: i64,
    /// The zone of times without one.
    pub zone: &'a Zone,
    /// Whether record times say when a record came: those of files are the moment of their first reading.
    pub records_have_times: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Tenant.
    pub tenant: String,
    /// 32 hex digits.
    pub fingerprint: String,
    /// When.
    pub time: EventTime,
    /// What holds under each rule.
    pub rules: Vec<UnderRule>,
    /// How far the input is.
    pub watermark: Watermark,
}

/// How far the input is, as committed.
#[derive(Debug, Serialize)]
pub struct Watermark {
    /// All windows that end at or before it are closed, with all that closing writes.
    pub closed: Option<EventTime>,
    /// The least watermark of a partition: what the next start begins with.
    pub merged: Option<EventTime>,
    /// Of each partition.
    pub partitions: Vec<PartitionWatermark>,
}

/// How far one partition is, and what became of its records since the first.
#[derive(Debug, Serialize)]
pub struct PartitionWatermark {
    /// Id of the topic or file.
    pub topic_id: String,
    /// Partition.
    pub partition: i32,
    /// Its watermark; absent before its first record.
    pub watermark: Option<EventTime>,
    /// Every record below it is durable.
    pub next_offset: i64,
    /// Records stored.
    pub stored: u64,
    /// Client retries: in no count.
    pub retried: u64,
    /// Matched by no rule: in no count.
    pub unmatched: u64,
    /// Dead letters: in no count.
    pub dead: u64,
}

/// What holds under one rule.
#[derive(Debug, Serialize)]
pub struct UnderRule {
    /// The rule's name.
    pub rule: String,
    /// N.
    pub threshold: u32,
    /// In one sentence: whether there is an incident, and why.
    pub answer: String,
    /// Where stores and predicate disagree: what to do.
    pub advice: Option<String>,
    /// Whether the rule looks at this tenant.
    pub counts_tenant: bool,
    /// The window before, that of the time, and the one after it.
    pub windows: Vec<WindowFacts>,
}

/// What there is to say of one window.
#[derive(Debug, Serialize)]
pub struct WindowFacts {
    /// First instant.
    pub start: EventTime,
    /// First instant after it.
    pub end: EventTime,
    /// count(w): distinct occurrences that the rule counts.
    pub count: u64,
    /// The same in each bucket, in order.
    pub buckets: Vec<u64>,
    /// Whether the window holds N by itself (W-2).
    pub own: bool,
    /// The run over its start that holds the most (W-3).
    pub best_run: Option<ShownRun>,
    /// `own`, `bridge`, `blocked` or `below` (W-4); absent where no window further back decides.
    pub verdict: Option<&'static str>,
    /// The same in words.
    pub why: String,
    /// Whether the closed watermark has passed its end.
    pub closed: bool,
    /// The row, if there is one.
    pub incident: Option<Incident>,
    /// Distinct occurrences of the key that the rule does not count, by reason.
    pub not_counted: BTreeMap<String, u64>,
    /// Occurrences that probably came after the window had closed: their record time is at or after its end and the
    /// lateness. An estimate; absent for files, whose records have no time of their own.
    pub late_estimate: Option<u64>,
    /// Occurrences that count here because their `ts` was missing (T-1).
    pub ts_missing: u64,
    /// Occurrences that count here because their `ts` lay in the future (T-2).
    pub ts_clamped: u64,
    /// Occurrences that count elsewhere, though their own `ts` lies here: it lay in the future of their record (T-2). Of
    /// the day around the window.
    pub clamped_away: u64,
    /// Dead letters of any tenant with a record time in the window, by reason: what they were cannot be known.
    pub dead_letters: BTreeMap<String, u64>,
}

/// A run over a window's start.
#[derive(Debug, Serialize)]
pub struct ShownRun {
    /// First instant.
    pub start: EventTime,
    /// First instant after it.
    pub end: EventTime,
    /// What it holds.
    pub count: u64,
}

/// The row of an incident, with its history.
#[derive(Debug, Serialize)]
pub struct Incident {
    /// The row, as `floodmark incidents` shows it.
    #[serde(flatten)]
    pub row: IncidentRow,
    /// Why it is withdrawn or superseded.
    pub reason: Option<String>,
    /// What happened to it, and when.
    pub transitions: Vec<Transition>,
}

/// Answers a question.
///
/// # Errors
///
/// A store fails.
pub async fn explain(
    occurrences: &(impl OccurrenceStore + InspectOccurrences),
    incidents: &(impl IncidentStore + InspectIncidents),
    question: &Question<'_>,
) -> Result<Explanation, StoreError> {
    let progress = incidents.progress().await?;
    let mut rules = Vec::with_capacity(question.rules.len());
    // Each window by its own version (Q51).
    for rule in &as_stored(question.rules, &incidents.rules().await?) {
        rules.push(Asked { question, rule, progress: &progress }.answer(occurrences, incidents).await?);
    }
    Ok(Explanation {
        tenant: question.tenant.to_owned(),
        fingerprint: question.fingerprint.to_string(),
        time: question.time,
        rules,
        watermark: watermark(&progress),
    })
}

fn watermark(progress: &Progress) -> Watermark {
    let known = |time: EventTime| (time > EventTime::MIN).then_some(time);
    let partitions = progress.partitions.iter().map(|(key, at)| PartitionWatermark {
        topic_id: key.topic_id.to_string(),
        partition: key.partition,
        watermark: known(at.watermark),
        next_offset: at.next_offset,
        stored: at.tallies.stored,
        retried: at.tallies.retried,
        unmatched: at.tallies.unmatched,
        dead: at.tallies.dead,
    });
    Watermark {
        closed: progress.closed,
        merged: progress.watermark().and_then(known),
        partitions: partitions.collect(),
    }
}

/// A question under one rule.
struct Asked<'a> {
    question: &'a Question<'a>,
    rule: &'a Rule,
    progress: &'a Progress,
}

impl<'a> Asked<'a> {
    async fn answer(
        &self,
        occurrences: &(impl OccurrenceStore + InspectOccurrences),
        incidents: &(impl IncidentStore + InspectIncidents),
    ) -> Result<UnderRule, StoreError> {
        let window = Window::containing(self.question.time, self.rule.window_ms);
        let shown = [window.previous(), window, window.next()];
        let chain = self.chain(occurrences, shown).await?;
        let rows = self.rows(incidents, shown).await?;
        let mut windows = Vec::with_capacity(shown.len());
        for window in shown {
            let row = rows.iter().find(|row| row.window_start == window.start).cloned();
            let incident = match row {
                Some(row) => {
                    let History { reason, transitions } = incidents.history(self.key(window).id()).await?;
                    Some(Incident { row, reason, transitions })
                }
                None => None,
            };
            windows.push(self.window(occurrences, &chain, window, incident).await?);
        }
        let matches = &self.rule.at(window.start).matches;
        let counts_tenant =
            matches.tenants.is_empty() || matches.tenants.iter().any(|name| name == self.question.tenant);
        let (answer, advice) = conclude(chain.verdict(window), &windows[1], counts_tenant);
        Ok(UnderRule {
            rule: self.rule.name.clone(),
            threshold: chain.threshold(window),
            answer,
            advice: advice.map(str::to_owned),
            counts_tenant,
            windows,
        })
    }

    fn key(&self, window: Window) -> IncidentKey {
        IncidentKey {
            kind: IncidentKind::Burst,
            rule: self.rule.name.as_str().into(),
            tenant: self.question.tenant.into(),
            fingerprint: self.question.fingerprint,
            window,
        }
    }

    /// Counts from so far back that the verdicts are known.
    async fn chain(
        &self,
        occurrences: &impl OccurrenceStore,
        [first, _, last]: [Window; 3],
    ) -> Result<Chain<'a>, StoreError> {
        let mut windows_before = WINDOWS_BEFORE;
        loop {
            let from = first.start.minus(windows_before * self.rule.window_ms);
            let (tenant, fingerprint) = (self.question.tenant.into(), self.question.fingerprint);
            let span = KeySpan { tenant, fingerprint, from, until: last.end() };
            let counts = occurrences.key_counts(self.rule, &[span]).await?;
            let chain = Chain::new(
                self.rule,
                self.question.tenant,
                from,
                counts.iter().map(|bucket| (bucket.bucket_start, bucket.count)),
            );
            if chain.verdict(first).is_some() || windows_before > LOOK_BACK_WINDOWS {
                return Ok(chain);
            }
            windows_before *= 8;
        }
    }

    async fn rows(
        &self,
        incidents: &impl IncidentStore,
        [first, _, last]: [Window; 3],
    ) -> Result<Vec<IncidentRow>, StoreError> {
        let selection = Selection {
            tenant: Some(self.question.tenant.to_owned()),
            since: Some(first.start),
            until: Some(last.end()),
        };
        let fingerprint = self.question.fingerprint.to_string();
        let mut rows = incidents.incidents(&selection).await?;
        rows.retain(|row| row.rule == self.rule.name && row.fingerprint == fingerprint);
        Ok(rows)
    }

    async fn window(
        &self,
        occurrences: &impl InspectOccurrences,
        chain: &Chain<'_>,
        window: Window,
        incident: Option<Incident>,
    ) -> Result<WindowFacts, StoreError> {
        let Question { tenant, fingerprint, .. } = *self.question;
        let stretch = KeyStretch { tenant, fingerprint, from: window.start, until: window.end() };
        let late_from = RecordTime(window.end().plus(self.question.lateness_ms).0);
        let groups = occurrences.row_groups(stretch, late_from).await?;
        let sum = |of: fn(&RowGroup) -> bool| groups.iter().filter(|group| of(group)).map(|group| group.count).sum();
        let late: u64 = sum(|group| group.recorded_after);
        let verdict = chain.verdict(window);
        let count = chain.count(window);
        Ok(WindowFacts {
            start: window.start,
            end: window.end(),
            count,
            buckets: chain.buckets_of(window),
            own: count >= u64::from(chain.threshold(window)),
            best_run: chain.best_run(window).map(|run| self.shown_run(run)),
            verdict: verdict.map(name),
            why: why(chain, window, || self.key(window.previous()).id().to_string()),
            closed: self.progress.closed.is_some_and(|closed| window.is_closed_at(closed)),
            incident,
            not_counted: self.not_counted(window, &groups),
            late_estimate: self.question.records_have_times.then_some(late),
            ts_missing: sum(|group| group.ts_missing),
            ts_clamped: sum(|group| group.ts_clamped),
            clamped_away: self.clamped_away(occurrences, window).await?,
            dead_letters: occurrences.dead_letters(RecordTime(window.start.0), RecordTime(window.end().0)).await?,
        })
    }

    fn shown_run(&self, run: Run) -> ShownRun {
        ShownRun { start: run.start, end: run.start.plus(self.rule.window_ms), count: run.count }
    }

    /// What the rule passes over, and why.
    fn not_counted(&self, window: Window, groups: &[RowGroup]) -> BTreeMap<String, u64> {
        let matches = &self.rule.at(window.start).matches;
        let mut reasons = BTreeMap::new();
        for group in groups {
            if matches.holds(self.question.tenant, &group.service, group.level) {
                continue;
            }
            let reason = if group.level < matches.level {
                format!("level {} is below {}", group.level.name(), matches.level.name())
            } else if !matches.services.is_empty() && !matches.services.contains(&group.service) {
                format!("service {:?} is not among the rule's", group.service)
            } else {
                format!("tenant {:?} is not among the rule's", self.question.tenant)
            };
            *reasons.entry(reason).or_default() += group.count;
        }
        reasons
    }

    /// Rows that count elsewhere, though their own time lies in the window.
    async fn clamped_away(&self, occurrences: &impl InspectOccurrences, window: Window) -> Result<u64, StoreError> {
        let Question { tenant, fingerprint, zone, .. } = *self.question;
        // A clamped row counts before its own time.
        let stretch =
            KeyStretch { tenant, fingerprint, from: window.start.minus(CLAMPED_WITHIN_MS), until: window.end() };
        let rows = occurrences.clamped(stretch).await?;
        debug_assert!(rows.len() <= ANSWERS_MAX);
        let is_of_window = |row: &floodmark_sinks::inspect::ClampedRow| {
            let read =
                EffectiveTime::new(&RawTime::Text(row.ts_original.as_str().into()), row.record_time, i64::MAX, zone);
            !read.missing
                && window == Window::containing(read.time, window.size_ms)
                && window != Window::containing(row.ts, window.size_ms)
        };
        Ok(rows.iter().filter(|row| is_of_window(row)).count() as u64)
    }
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Own => "own",
        Verdict::Bridge => "bridge",
        Verdict::Blocked => "blocked",
        Verdict::Below => "below",
    }
}

/// Why W-4 says what it says of a window. `previous` is the id of the incident of the window before.
fn why(chain: &Chain<'_>, window: Window, previous: impl FnOnce() -> String) -> String {
    let (count, threshold) = (chain.count(window), chain.threshold(window));
    let run = chain.best_run(window).map_or(0, |run| run.count);
    match chain.verdict(window) {
        Some(Verdict::Own) => format!("the window has {count} of {threshold}"),
        Some(Verdict::Bridge) => {
            format!("the window has {count} of {threshold}, but the best run over its start holds {run} of {threshold}")
        }
        Some(Verdict::Blocked) => format!(
            "the best run over its start holds {run} of {threshold}, but the window before has an incident: superseded \
             by {}",
            previous()
        ),
        Some(Verdict::Below) if chain.straddles(window) => {
            format!("the window has {count} of {threshold}; the best run over its start holds {run} of {threshold}")
        }
        Some(Verdict::Below) => format!("the window has {count} of {threshold}"),
        None => "this depends on more windows before it than were looked at".to_owned(),
    }
}

/// The answer in one sentence, and what to do where stores and predicate disagree.
fn conclude(verdict: Option<Verdict>, facts: &WindowFacts, counts_tenant: bool) -> (String, Option<&'static str>) {
    use floodmark_model::incident::Status;
    const MISSING: &str = "the store has no such incident though it is due: run `floodmark reconcile`, unless records are \
                           still on their way";
    const EXTRA: &str = "the store has an incident that is not due: run `floodmark reconcile`, unless records are still on \
                         their way";
    let stands = facts.incident.as_ref().filter(|row| matches!(row.row.status, Status::Open | Status::Closed));
    let is_due = verdict.map(Verdict::is_incident);
    let advice = match (is_due, stands) {
        (Some(true), None) => Some(MISSING),
        (Some(false), Some(_)) => Some(EXTRA),
        _ => None,
    };
    let state = match (&facts.incident, stands) {
        (_, Some(row)) => {
            format!("there is an incident ({}, detection {})", row.row.status.name(), row.row.detection.name())
        }
        (Some(row), None) => format!("there is no incident that stands, its row is {}", row.row.status.name()),
        (None, None) => "there is no incident".to_owned(),
    };
    let why = if counts_tenant { &*facts.why } else { "the rule does not look at this tenant" };
    (format!("{state}: {why}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: i64 = 300_000;

    fn explained(minutes: &[(i64, u64)], threshold: u32, number: i64) -> String {
        let rule = Rule { threshold, ..Rule::default() };
        let buckets = minutes.iter().map(|(minute, count)| (EventTime(minute * 60_000), *count));
        let chain = Chain::new(&rule, "acme", EventTime(-9 * WINDOW), buckets);
        why(&chain, Window { start: EventTime(number * WINDOW), size_ms: WINDOW }, || "0abc".into())
    }

    #[test]
    fn w4_is_said_in_words() {
        assert_eq!(
            explained(&[(4, 6), (5, 3), (9, 1)], 10, 1),
            "the window has 4 of 10; the best run over its start holds 9 of 10"
        );
        assert_eq!(
            explained(&[(4, 9), (5, 1)], 10, 1),
            "the window has 1 of 10, but the best run over its start holds 10 of 10"
        );
        assert_eq!(explained(&[(5, 12)], 10, 1), "the window has 12 of 10");
        assert_eq!(
            explained(&[(4, 10), (5, 2)], 10, 1),
            "the best run over its start holds 12 of 10, but the window before has an incident: superseded by 0abc"
        );
        let rule = Rule { straddle: false, ..Rule::default() };
        let chain = Chain::new(&rule, "acme", EventTime(0), [(EventTime(0), 9)]);
        let window = Window { start: EventTime(0), size_ms: WINDOW };
        assert_eq!(why(&chain, window, String::new), "the window has 9 of 10");
    }
}
