//! Why there is, or is not, an incident of a key at a time (`floodmark explain`).
//!
//! The answer is of what the stores hold now. What depends on a moment that is past, such as whether a record came late,
//! is an estimate, and says so.

mod answer;
mod hints;
mod words;

use crate::chain::{Chain, Run};
use crate::rules::named;
use floodmark_model::incident::IncidentRow;
use floodmark_model::progress::Progress;
use floodmark_model::time::{EffectiveTime, RawTime, Zone};
use floodmark_model::{EventTime, Fingerprint, IncidentKey, IncidentKind, RecordTime, Rule, TopicId, Window};
use floodmark_sinks::inspect::{ANSWERS_MAX, History, InspectIncidents, InspectOccurrences, KeyStretch, RowGroup};
use floodmark_sinks::{IncidentStore, KeySpan, OccurrenceStore, Selection, StoreError};
use std::collections::BTreeMap;
use words::{Words, conclude, late, name};

pub use answer::{Explanation, Incident, PartitionWatermark, ShownRun, UnderRule, Watermark, WindowFacts};

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
    /// The rules to answer for, with their versions as they are stored: each window is judged by its own (Q51).
    pub rules: &'a [Rule],
    /// The rules that are configured.
    pub configured: &'a [Rule],
    /// The files that have been read, by id; none where the input is a topic.
    pub inputs: &'a BTreeMap<TopicId, String>,
    /// How late a record may come (T-3).
    pub lateness_ms: i64,
    /// The zone of times without one.
    pub zone: &'a Zone,
    /// Whether record times say when a record came: those of files are the moment of their first reading.
    pub records_have_times: bool,
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
    for rule in question.rules {
        rules.push(Asked { question, rule, progress: &progress }.answer(occurrences, incidents).await?);
    }
    // Looks through all that is stored: only for what is in none of the windows.
    let seen = match rules.iter().flat_map(|rule| &rule.windows).all(WindowFacts::is_empty) {
        true => Some(occurrences.tenants_with(question.fingerprint).await?),
        false => None,
    };
    let hints = if rules.iter().any(UnderRule::stands) {
        Vec::new()
    } else {
        hints::hints(question, &progress, seen.as_deref())
    };
    Ok(Explanation {
        tenant: question.tenant.to_owned(),
        fingerprint: question.fingerprint.to_string(),
        time: question.time,
        rules,
        hints,
        watermark: Watermark::of(question, &progress),
    })
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
        let is_configured = named(self.question.configured, &self.rule.name).is_some();
        let (answer, advice) = conclude(chain.verdict(window), &windows[1], counts_tenant);
        Ok(UnderRule {
            rule: self.rule.name.clone(),
            is_configured,
            threshold: chain.threshold(window),
            answer,
            advice: advice.filter(|_| is_configured).map(str::to_owned),
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
        occurrences: &(impl OccurrenceStore + InspectOccurrences),
        chain: &Chain<'_>,
        window: Window,
        incident: Option<Incident>,
    ) -> Result<WindowFacts, StoreError> {
        let Question { tenant, fingerprint, .. } = *self.question;
        let stretch = KeyStretch { tenant, fingerprint, from: window.start, until: window.end() };
        let late_from = RecordTime(window.end().plus(self.question.lateness_ms).0);
        let groups = occurrences.row_groups(stretch, late_from).await?;
        let sum = |of: fn(&RowGroup) -> bool| groups.iter().filter(|group| of(group)).map(|group| group.count).sum();
        let (all, recorded_after): (u64, u64) = (sum(|_| true), sum(|group| group.recorded_after));
        let verdict = chain.verdict(window);
        let count = chain.count(window);
        let closed = self.progress.closed.is_some_and(|closed| window.is_closed_at(closed));
        let detection = incident.as_ref().map(|incident| incident.row.detection);
        let is_knowable = self.question.records_have_times && closed;
        let late = late(detection, all, recorded_after, chain.threshold(window)).filter(|_| is_knowable);
        let words =
            Words { chain, window, superseded_by: incident.as_ref().and_then(|row| row.row.superseded_by.as_deref()) };
        Ok(WindowFacts {
            start: window.start,
            end: window.end(),
            count,
            buckets: chain.buckets_of(window),
            own: count >= u64::from(chain.threshold(window)),
            best_run: chain.best_run(window).map(|run| self.shown_run(run)),
            verdict: verdict.map(name),
            why: words.why(),
            closed,
            sample: self.sample(occurrences, window, count, incident.as_ref()).await?,
            incident,
            not_counted: self.not_counted(window, &groups),
            late_estimate: late,
            ts_missing: sum(|group| group.ts_missing),
            ts_clamped: sum(|group| group.ts_clamped),
            clamped_away: self.clamped_away(occurrences, window).await?,
            dead_letters: occurrences.dead_letters(RecordTime(window.start.0), RecordTime(window.end().0)).await?,
        })
    }

    /// The most frequent message of a window: that of its incident, or what the store of occurrences says.
    async fn sample(
        &self,
        occurrences: &impl OccurrenceStore,
        window: Window,
        count: u64,
        incident: Option<&Incident>,
    ) -> Result<Option<String>, StoreError> {
        let stored = incident.and_then(|incident| incident.row.samples.first());
        if stored.is_some() || count == 0 {
            return Ok(stored.map(|sample| sample.message.clone()));
        }
        let facts = occurrences.window_facts(self.rule, &[self.key(window)]).await?;
        let samples = facts.into_iter().next().map(|facts| facts.samples).unwrap_or_default();
        Ok(samples.into_iter().next().map(|sample| sample.message))
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
