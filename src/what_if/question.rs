//! What is asked: which candidates, about which part of history.

use crate::config::units::Span;
use crate::pipeline::tenants::Tenants;
use floodmark_dataflow::replay::TermsOf;
use floodmark_dataflow::state::candidate::Candidate;
use floodmark_dataflow::state::history::CandidateIndex;
use floodmark_dataflow::state::judge::JudgedRule;
use floodmark_dataflow::state::stretch::Terms;
use floodmark_model::{EventTime, Rule};
use std::sync::Arc;

/// Most candidates of one question.
pub const CANDIDATES_MAX: usize = 64;

/// A window may be as long as one of the configuration.
const WINDOW_MS: std::ops::RangeInclusive<i64> = 1_000..=366 * DAY_MS;

/// The same for its buckets.
const BUCKETS_MAX: u16 = 1_000;

pub(super) const DAY_MS: i64 = 86_400_000;

/// Windows read before the range, of the longest candidate's length. Whether the range's first window has an incident
/// depends on the window before it, and so on to the left, but only as far as each of them has a run over its start and
/// not N of its own: a chain longer than this is judged as if it began here.
const WINDOWS_BEFORE: i64 = 4;

/// What a candidate may be made of: every combination is one. An empty list stands for what the base rule has.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Thresholds.
    pub thresholds: Vec<u32>,
    /// Window lengths in milliseconds.
    pub windows_ms: Vec<i64>,
    /// Whether bursts over a window boundary count.
    pub straddles: Vec<bool>,
    /// Buckets of a window.
    pub buckets: Option<u16>,
}

/// A question about a part of history.
#[derive(Clone, Debug)]
pub struct Question {
    /// The base rule with its versions: what it matches is counted, and its incidents are those of today.
    pub rule: Rule,
    /// The candidates. The first is the base rule as it stood and stands: each window on the terms of its own version.
    pub candidates: Vec<Candidate>,
    /// Windows that start at or after this time.
    pub since: EventTime,
    /// Windows that start before this time.
    pub until: EventTime,
    /// Only this tenant.
    pub tenant: Option<String>,
}

impl Question {
    /// A question about `since <= window start < until`, widened to whole windows of all candidates where those share
    /// an end at least once a day, else to whole windows of the base rule.
    ///
    /// # Errors
    ///
    /// A choice that cannot be, or too many candidates: one line that says what would be right.
    pub fn new(
        rule: Rule,
        choices: &Choices,
        since: EventTime,
        until: EventTime,
        tenant: Option<String>,
    ) -> Result<Self, String> {
        let candidates = candidates(&rule, choices, rule.versions().any(|version| version.from > since))?;
        let mut question = Self { rule, candidates, since, until, tenant };
        let step = question.common_window_ms().filter(|ms| *ms <= DAY_MS).unwrap_or(question.rule.window_ms);
        let within = |time: EventTime| time.0.clamp(EventTime::EARLIEST.0, EventTime::LATEST.0);
        question.since = EventTime(within(since).div_euclid(step) * step);
        question.until = EventTime((within(until) + step - 1).div_euclid(step) * step);
        if question.since >= question.until {
            return Err("the range is empty: --since must be before --until".into());
        }
        Ok(question)
    }

    /// Length of the buckets in which history is counted: all candidates' buckets are made of them.
    #[must_use]
    pub fn bucket_ms(&self) -> i64 {
        self.candidates.iter().map(own_bucket_ms).fold(0, greatest_common_divisor)
    }

    /// The least time after which windows of all candidates and of the base rule end together; `None` when it is longer
    /// than all of time.
    pub(super) fn common_window_ms(&self) -> Option<i64> {
        let windows = self.candidates.iter().map(|candidate| candidate.window_ms);
        windows.chain([self.rule.window_ms]).try_fold(1, least_common_multiple)
    }

    /// From where history is read: a few windows before the range.
    pub(super) fn read_from(&self) -> EventTime {
        let bucket = self.bucket_ms();
        let from = self.since.minus(WINDOWS_BEFORE.saturating_mul(self.longest_window_ms()));
        EventTime(from.0.div_euclid(bucket) * bucket)
    }

    pub(super) fn longest_window_ms(&self) -> i64 {
        self.candidates.iter().map(|candidate| candidate.window_ms).max().unwrap_or(self.rule.window_ms)
    }

    /// Whether a candidate is the base rule.
    pub(super) fn runs_today(&self, candidate: &Candidate) -> bool {
        candidate.index == TODAY
    }

    /// The terms of each candidate: of the base rule those of each window's version, of any other its own. A tenant with a
    /// threshold of its own keeps that.
    pub(super) fn terms(&self, tenants: &Tenants) -> TermsOf {
        let rules = std::slice::from_ref(&self.rule);
        let thresholds = tenants.thresholds(rules).and_then(|mut of_rules| of_rules.pop()).unwrap_or_default();
        let rule = JudgedRule::new(&self.rule, thresholds);
        Arc::new(move |candidate, tenant, start| {
            if candidate.index == TODAY {
                return rule.terms(start, tenant);
            }
            let own = rule.versions.last().and_then(|version| version.tenants.get(&tenant).copied());
            let terms = candidate.terms();
            Terms { threshold: own.unwrap_or(terms.threshold), ..terms }
        })
    }
}

/// The base rule's.
const TODAY: CandidateIndex = CandidateIndex(0);

fn own_bucket_ms(candidate: &Candidate) -> i64 {
    if candidate.straddle { candidate.window_ms / i64::from(candidate.buckets) } else { candidate.window_ms }
}

pub(super) fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

pub(super) fn least_common_multiple(a: i64, b: i64) -> Option<i64> {
    (a / greatest_common_divisor(a, b)).checked_mul(b)
}

fn current(rule: &Rule) -> Candidate {
    Candidate {
        index: TODAY,
        window_ms: rule.window_ms,
        threshold: rule.threshold,
        // Buckets are needed where any version has them.
        straddle: rule.versions().any(|version| version.straddle),
        buckets: rule.buckets,
    }
}

/// Whether two candidates find the same.
fn same(a: &Candidate, b: &Candidate) -> bool {
    let buckets = |candidate: &Candidate| if candidate.straddle { candidate.buckets } else { 1 };
    let shape =
        |candidate: &Candidate| (candidate.window_ms, candidate.threshold, candidate.straddle, buckets(candidate));
    shape(a) == shape(b)
}

/// The base rule, and every combination that is not the same as one before it. What has `changed` in the range is not the
/// same as what it is now.
fn candidates(rule: &Rule, choices: &Choices, changed: bool) -> Result<Vec<Candidate>, String> {
    fn or_own<T: Copy>(chosen: &[T], own: T) -> Vec<T> {
        if chosen.is_empty() { vec![own] } else { chosen.to_vec() }
    }
    let mut candidates = vec![current(rule)];
    let buckets = choices.buckets.unwrap_or(rule.buckets);
    for window_ms in or_own(&choices.windows_ms, rule.window_ms) {
        for threshold in or_own(&choices.thresholds, rule.threshold) {
            for straddle in or_own(&choices.straddles, rule.straddle) {
                let candidate = Candidate { index: CandidateIndex(0), window_ms, threshold, straddle, buckets };
                check(&candidate)?;
                if !candidates.iter().skip(usize::from(changed)).any(|known| same(known, &candidate)) {
                    candidates.push(candidate);
                }
                if candidates.len() > CANDIDATES_MAX {
                    return Err(format!(
                        "more than {CANDIDATES_MAX} candidates, the rule of today included: ask for fewer thresholds, \
                         windows or straddles at once"
                    ));
                }
            }
        }
    }
    candidates[1..].sort_by_key(|candidate| (candidate.window_ms, candidate.threshold, candidate.straddle));
    for (index, candidate) in (0..).zip(&mut candidates) {
        candidate.index = CandidateIndex(index);
    }
    Ok(candidates)
}

fn check(candidate: &Candidate) -> Result<(), String> {
    let Candidate { window_ms, threshold, straddle, buckets, .. } = *candidate;
    if !WINDOW_MS.contains(&window_ms) {
        return Err(format!("--window {:?}: between 1s and 366d", Span(window_ms)));
    }
    if threshold == 0 {
        return Err("--threshold 0: at least 1".into());
    }
    if straddle && (buckets == 0 || buckets > BUCKETS_MAX || window_ms % i64::from(buckets) != 0) {
        return Err(format!(
            "--buckets {buckets}: must divide the window of {:?}, and be between 1 and {BUCKETS_MAX}",
            Span(window_ms)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MINUTE: i64 = 60_000;

    fn question(choices: &Choices) -> Result<Question, String> {
        Question::new(Rule::default(), choices, EventTime(7 * MINUTE), EventTime(21 * MINUTE), None)
    }

    #[test]
    fn every_combination_is_a_candidate_and_the_rule_of_today_is_the_first() {
        let choices = Choices {
            thresholds: vec![5, 10, 10],
            windows_ms: vec![MINUTE, 5 * MINUTE],
            straddles: vec![true, false],
            buckets: None,
        };
        let asked = question(&choices).unwrap();
        assert_eq!(asked.candidates.len(), 8);
        assert!(asked.candidates.iter().zip(0..).all(|(candidate, n)| candidate.index == CandidateIndex(n)));
        let today: Vec<_> = asked.candidates.iter().filter(|candidate| asked.runs_today(candidate)).collect();
        assert_eq!(today, [&asked.candidates[0]]);
        assert_eq!(asked.bucket_ms(), 6_000);
        assert_eq!(question(&Choices::default()).unwrap().candidates.len(), 1);
    }

    #[test]
    fn the_range_holds_whole_windows_of_all() {
        let asked = question(&Choices { windows_ms: vec![2 * MINUTE], ..Choices::default() }).unwrap();
        assert_eq!((asked.since, asked.until), (EventTime(0), EventTime(30 * MINUTE)));
        assert_eq!(asked.read_from(), EventTime(-20 * MINUTE));
        // Windows of 7 minutes and a day end together once a week.
        let weekly = Choices { windows_ms: vec![7 * MINUTE, DAY_MS], ..Choices::default() };
        let asked = question(&weekly).unwrap();
        assert_eq!(asked.common_window_ms(), Some(7 * DAY_MS));
        assert_eq!((asked.since, asked.until), (EventTime(5 * MINUTE), EventTime(25 * MINUTE)));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_would_be_right() {
        let many = Choices { thresholds: (1..=64).collect(), windows_ms: vec![MINUTE], ..Choices::default() };
        for (choices, part) in [
            (Choices { thresholds: vec![0], ..Choices::default() }, "at least 1"),
            (Choices { windows_ms: vec![999], ..Choices::default() }, "between 1s and 366d"),
            (Choices { buckets: Some(7), ..Choices::default() }, "must divide the window of 5m"),
            (Choices { buckets: Some(0), ..Choices::default() }, "between 1 and 1000"),
            (many, "more than 64 candidates"),
        ] {
            let refused = question(&choices).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
        let unsplit = Choices { buckets: Some(7), straddles: vec![false], ..Choices::default() };
        assert!(question(&unsplit).is_ok(), "without straddling there are no buckets");
        let refused =
            Question::new(Rule::default(), &Choices::default(), EventTime(5 * MINUTE), EventTime(0), None).unwrap_err();
        assert!(refused.contains("--since must be before --until"));
    }
}
