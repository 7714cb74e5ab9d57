//! What a reader of the answer must know beside the figures.

use super::answer::HistoryRange;
use super::question::Question;
use crate::config::units::Span;
use crate::shown_time::shown_time;
use floodmark_model::{EventTime, Rule};
use std::collections::BTreeSet;

/// Tenants that are named.
const TENANTS_NAMED: usize = 5;

/// The sentences.
pub(super) fn notes(question: &Question, history: Option<HistoryRange>) -> Vec<String> {
    let changes = question.rule.earlier.iter().zip(question.rule.versions().skip(1));
    let changes = changes.filter(|(_, next)| next.from > question.since);
    let changes = changes.map(|(before, next)| changed(before, next));
    tenants(&question.rule).into_iter().chain(changes).chain(windows(question, history)).collect()
}

fn tenants(rule: &Rule) -> Option<String> {
    let own = &rule.tenant_thresholds;
    let named: Vec<String> = own.iter().take(TENANTS_NAMED).map(|(name, n)| format!("{name:?} ({n})")).collect();
    let more = own.len().saturating_sub(named.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!named.is_empty()).then(|| {
        format!(
            "tenants with a threshold of their own keep it under every candidate, which is for all others: {}{more}",
            named.join(", ")
        )
    })
}

fn changed(before: &Rule, next: &Rule) -> String {
    let terms =
        |rule: &Rule| format!("threshold {}, straddle {}", rule.threshold, if rule.straddle { "on" } else { "off" });
    format!(
        "the rule was changed: in the row of today, windows before {} are judged by what held then ({}), those after it by \
         {}",
        shown_time(next.from),
        terms(before),
        terms(next)
    )
}

/// Windows that do not fit into what there is.
fn windows<'a>(question: &'a Question, history: Option<HistoryRange>) -> impl Iterator<Item = String> + 'a {
    let lengths: BTreeSet<i64> = question.candidates.iter().map(|candidate| candidate.window_ms).collect();
    lengths.into_iter().filter_map(move |window_ms| {
        let length = Span(window_ms);
        let last = EventTime((question.until.0 - 1).div_euclid(window_ms) * window_ms);
        if last < question.since {
            return Some(format!(
                "no window of {length:?} begins in the range, so none is judged: the last one begins at {}; give --since that \
                 time or an earlier one",
                shown_time(last)
            ));
        }
        let history = history?;
        let stored_ms = history.last_ts.0 - history.first_ts.0;
        (stored_ms < window_ms && window_ms > question.rule.window_ms).then(|| {
            format!(
                "windows of {length:?} are longer than what is stored of the range, which is from {} to {}",
                shown_time(history.first_ts),
                shown_time(history.last_ts)
            )
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::question::Choices;
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn notes_of(rule: Rule, window_ms: i64) -> Vec<String> {
        let choices = Choices { windows_ms: vec![window_ms], ..Choices::default() };
        let (since, until) = (EventTime(370 * DAY_MS), EventTime(377 * DAY_MS));
        let question = Question::new(rule, &choices, since, until, None).unwrap();
        let history = HistoryRange { first_ts: since, last_ts: EventTime(371 * DAY_MS), days: 1.0 };
        notes(&question, Some(history))
    }

    #[test]
    fn what_does_not_fit_or_differs_is_said() {
        assert_eq!(notes_of(Rule::default(), 60_000), [""; 0]);
        let long = notes_of(Rule { straddle: false, ..Rule::default() }, 366 * DAY_MS);
        assert!(long[0].contains("366d") && long[0].contains("1971-01-02T00:00:00Z"), "{long:?}");
        let long = notes_of(Rule { straddle: false, ..Rule::default() }, 2 * DAY_MS);
        assert!(long[0].contains("longer than what is stored"), "{long:?}");
        let own = Rule { tenant_thresholds: [("globex".into(), 3)].into(), ..Rule::default() };
        assert!(notes_of(own, 60_000)[0].contains("\"globex\" (3)"));
        let before = Rule { threshold: 5, ..Rule::default() };
        let changed = Rule { from: EventTime(372 * DAY_MS), earlier: vec![before], ..Rule::default() };
        assert!(notes_of(changed, 60_000)[0].contains("1971-01-08T00:00:00Z"));
    }
}
