//! Verdicts in words, for somebody who was just paged.

use super::answer::{UnderRule, WindowFacts};
use crate::chain::Chain;
use crate::config::units::Span;
use floodmark_model::Window;
use floodmark_model::incident::{Detection, Status};
use floodmark_model::predicate::Verdict;

/// The stable name of a verdict.
pub(super) fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Own => "own",
        Verdict::Bridge => "bridge",
        Verdict::Blocked => "blocked",
        Verdict::Below => "below",
    }
}

/// A number of occurrences.
pub(super) fn occurrences(count: u64) -> String {
    match count {
        0 => "no occurrence".to_owned(),
        1 => "1 occurrence".to_owned(),
        _ => format!("{count} occurrences"),
    }
}

/// What is said of one window.
pub(super) struct Words<'a> {
    pub(super) chain: &'a Chain<'a>,
    pub(super) window: Window,
    /// What the window's row names, if there is one.
    pub(super) superseded_by: Option<&'a str>,
}

impl Words<'_> {
    /// Why the window has an incident or none (W-4).
    pub(super) fn why(&self) -> String {
        let (chain, window) = (self.chain, self.window);
        let count = chain.count(window);
        let (found, needed) = (occurrences(count), self.needed());
        match chain.verdict(window) {
            Some(Verdict::Own) => format!("{found} in the window; {needed}"),
            Some(Verdict::Bridge) => format!("{found} in the window, but {}; {needed}", self.best_run()),
            Some(Verdict::Blocked) if count == 0 => {
                "no occurrence in the window; what lies just before it belongs to the incident of the window before"
                    .into()
            }
            Some(Verdict::Blocked) => {
                let row =
                    self.superseded_by.map_or_else(String::new, |id| format!(" (it has superseded this one: {id})"));
                format!(
                    "{found} in the window and {}: they belong to the incident of the window before{row}",
                    self.best_run()
                )
            }
            Some(Verdict::Below) if chain.straddles(window) && count > 0 => {
                format!("{found} in the window, {}; {needed}", self.best_run())
            }
            Some(Verdict::Below) => format!("{found} in the window; {needed}"),
            None => "this depends on more windows before it than were looked at".into(),
        }
    }

    fn needed(&self) -> String {
        match self.chain.threshold(self.window) {
            1 => "1 makes an incident".into(),
            threshold => format!("{threshold} make an incident"),
        }
    }

    /// The run over the window's start that holds the most.
    fn best_run(&self) -> String {
        let run = self.chain.best_run(self.window).map_or(0, |run| run.count);
        format!("{run} within {:?} across its start", Span(self.window.size_ms))
    }
}

impl UnderRule {
    /// Whether an incident stands in the window that was asked about.
    pub(super) fn stands(&self) -> bool {
        self.windows.get(1).is_some_and(|window| standing(window).is_some())
    }
}

impl WindowFacts {
    /// Whether nothing of the key is stored in the window, whatever rule counts it.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.not_counted.is_empty() && self.incident.is_none()
    }
}

fn standing(facts: &WindowFacts) -> Option<&super::Incident> {
    facts.incident.as_ref().filter(|row| matches!(row.row.status, Status::Open | Status::Closed))
}

/// The answer in one sentence, and what to do where stores and predicate disagree.
pub(super) fn conclude(
    verdict: Option<Verdict>,
    facts: &WindowFacts,
    counts_tenant: bool,
) -> (String, Option<&'static str>) {
    const MISSING: &str = "the store has no such incident though it is due: run `floodmark reconcile`, unless records are \
                           still on their way";
    const EXTRA: &str = "the store has an incident that is not due: run `floodmark reconcile`, unless records are still on \
                         their way";
    let stands = standing(facts);
    let is_due = verdict.map(Verdict::is_incident);
    let advice = match (is_due, stands) {
        (Some(true), None) => Some(MISSING),
        (Some(false), Some(_)) => Some(EXTRA),
        _ => None,
    };
    let state = match (&facts.incident, stands) {
        (_, Some(row)) => format!("there is an incident ({}, {})", row.row.status.name(), found_by(row.row.detection)),
        (Some(row), None) => format!("there is no incident any more (its row is {})", row.row.status.name()),
        (None, None) => "there is no incident".to_owned(),
    };
    let why = if counts_tenant { &*facts.why } else { "the rule does not look at this tenant" };
    (format!("{state}: {why}"), advice)
}

/// How an incident first became due.
fn found_by(detection: Detection) -> &'static str {
    match detection {
        Detection::Window => "found by the count of the window",
        Detection::Bridge => "found by a burst across the window's start",
        Detection::Late => "found by a record that came late",
    }
}

/// How many of `all` occurrences of a closed window probably came after it had closed, where `recorded_after` have a record
/// time that says so. `None` where that means nothing: when old records are read at once, as after an outage or in a
/// replay, all of a window are recorded long after it, and were counted in time nevertheless.
pub(super) fn late(detection: Option<Detection>, all: u64, recorded_after: u64, threshold: u32) -> Option<u64> {
    match detection {
        Some(Detection::Late) => Some(recorded_after),
        _ if recorded_after == all => (all == 0).then_some(0),
        // As many as it took were in time.
        Some(Detection::Window) => Some(recorded_after.min(all.saturating_sub(threshold.into()))),
        Some(Detection::Bridge) | None => Some(recorded_after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::{EventTime, Rule};

    const WINDOW: i64 = 300_000;

    fn explained(minutes: &[(i64, u64)], rule: &Rule, superseded_by: Option<&str>) -> String {
        let buckets = minutes.iter().map(|(minute, count)| (EventTime(minute * 60_000), *count));
        let chain = Chain::new(rule, "acme", EventTime(-9 * WINDOW), buckets);
        Words { chain: &chain, window: Window { start: EventTime(WINDOW), size_ms: WINDOW }, superseded_by }.why()
    }

    #[test]
    fn w4_is_said_in_words() {
        let rule = Rule::default();
        let said = |minutes: &[(i64, u64)], by| explained(minutes, &rule, by);
        assert_eq!(
            said(&[(4, 6), (5, 3), (9, 1)], None),
            "4 occurrences in the window, 9 within 5m across its start; 10 make an incident"
        );
        assert_eq!(
            said(&[(4, 9), (5, 1)], None),
            "1 occurrence in the window, but 10 within 5m across its start; 10 make an incident"
        );
        assert_eq!(said(&[(5, 12)], None), "12 occurrences in the window; 10 make an incident");
        let blocked = "2 occurrences in the window and 12 within 5m across its start: they belong to the incident of the \
                       window before";
        assert_eq!(said(&[(4, 10), (5, 2)], None), blocked);
        assert_eq!(said(&[(4, 10), (5, 2)], Some("0abc")), format!("{blocked} (it has superseded this one: 0abc)"));
        let nothing = said(&[(4, 10)], None);
        assert!(nothing.starts_with("no occurrence in the window") && !nothing.contains("superseded"), "{nothing}");
        assert_eq!(said(&[], None), "no occurrence in the window; 10 make an incident");
        let flat = Rule { straddle: false, threshold: 1, ..Rule::default() };
        assert_eq!(explained(&[(5, 1)], &flat, None), "1 occurrence in the window; 1 makes an incident");
    }

    #[test]
    fn only_what_may_have_come_late_is_called_late() {
        assert_eq!(late(None, 4, 1, 10), Some(1));
        assert_eq!(late(Some(Detection::Late), 12, 12, 10), Some(12));
        assert_eq!(late(Some(Detection::Window), 11, 11, 10), None, "old records, read at once");
        assert_eq!(late(None, 4, 4, 10), None);
        assert_eq!(late(Some(Detection::Window), 12, 11, 10), Some(2), "ten were in time");
        assert_eq!(late(None, 0, 0, 10), Some(0));
    }
}
