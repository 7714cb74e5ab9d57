use super::super::history::Fact;
use super::*;
use std::collections::BTreeMap;

const MINUTE: i64 = 60_000;
const WHOLE: Page = Page { from: EventTime(0), until: EventTime(i64::MAX), told_from: EventTime(0), today_ms: MINUTE };

fn minutes(threshold: u32, straddle: bool) -> Candidate {
    Candidate { index: CandidateIndex(3), window_ms: MINUTE, threshold, straddle, buckets: 6 }
}

/// Counts in buckets of ten seconds, and today's incidents.
fn history(counts: &[(i64, isize)], today: &[i64]) -> History {
    let counts = counts.iter().map(|(bucket, count)| (Fact::Occurrence(EventTime(bucket * 10_000)), *count));
    let today = today.iter().map(|minute| (Fact::Today(EventTime(minute * MINUTE)), 1));
    let facts: BTreeMap<Fact, isize> = counts.chain(today).collect();
    History::of(facts.iter().map(|(fact, times)| (fact, *times)))
}

fn incident(minute: i64, count: u64, episode: i64, is_new: bool) -> Finding {
    let (start, episode) = (EventTime(minute * MINUTE), EventTime(episode * MINUTE));
    Finding::Incident { start, count, episode, is_new }
}

fn vanished(minute: i64) -> Finding {
    Finding::Vanished { start: EventTime(minute * MINUTE) }
}

#[test]
fn w4_a_burst_over_a_boundary_is_an_incident_only_where_straddling_is_on() {
    let burst = history(&[(5, 9), (6, 1)], &[]);
    assert_eq!(minutes(10, true).judge(&burst, &WHOLE), [incident(1, 1, 1, true)]);
    assert_eq!(minutes(10, false).judge(&burst, &WHOLE), []);
    let far = history(&[(5, 9), (12, 1)], &[]);
    assert_eq!(minutes(10, true).judge(&far, &WHOLE), [], "the window between is empty");
}

#[test]
fn w11_adjacent_incidents_are_one_episode_and_a_gap_begins_another() {
    let counts = history(&[(0, 10), (6, 11), (12, 1), (18, 12)], &[]);
    let expected = [incident(0, 10, 0, true), incident(1, 11, 0, true), incident(3, 12, 3, true)];
    assert_eq!(minutes(10, true).judge(&counts, &WHOLE), expected);
}

#[test]
fn q40_a_bridge_is_blocked_by_the_incident_before_and_allowed_by_its_absence() {
    // A run of nine over each of three boundaries.
    let counts = [(5, 6), (6, 3), (11, 4), (12, 5), (17, 3), (18, 6)];
    let nine = minutes(9, true);
    assert_eq!(nine.judge(&history(&counts, &[]), &WHOLE), [incident(1, 7, 1, true), incident(3, 6, 3, true)]);
    assert_eq!(nine.judge(&history(&counts[1..], &[]), &WHOLE), [incident(2, 8, 2, true)]);
}

#[test]
fn q51_each_window_is_judged_on_its_own_terms() {
    let counts = history(&[(0, 6), (6, 6), (11, 3), (12, 3), (17, 3), (18, 3)], &[]);
    let terms = |start: EventTime| match start.0 / MINUTE {
        0 => Terms { threshold: 7, straddle: true },
        1 | 2 => Terms { threshold: 6, straddle: false },
        _ => Terms { threshold: 6, straddle: true },
    };
    let expected = [incident(1, 9, 1, true), incident(2, 6, 1, true)];
    assert_eq!(minutes(99, true).judge_on(&counts, &WHOLE, terms), expected, "the run over minute 3 is blocked");
}

#[test]
fn what_is_new_and_what_vanished_is_told_by_windows_that_touch() {
    let counts = history(&[(0, 10), (12, 10)], &[0, 5]);
    assert_eq!(
        minutes(10, true).judge(&counts, &WHOLE),
        [incident(0, 10, 0, false), incident(2, 10, 2, true), vanished(5)]
    );
    // Five minutes of a candidate stand for each of today's minutes in them.
    let wide = Candidate { window_ms: 5 * MINUTE, ..minutes(10, true) };
    assert_eq!(wide.judge(&counts, &WHOLE), [incident(0, 20, 0, false), vanished(5)]);
}

#[test]
fn pages_find_together_what_one_page_finds() {
    let counts = [(0, 10), (6, 4), (11, 5), (12, 4), (17, 5), (18, 5), (23, 6), (24, 4), (30, 12)];
    let candidate = Candidate { threshold: 9, ..minutes(9, true) };
    let whole = candidate.judge(&history(&counts, &[1, 4]), &WHOLE);
    assert!(whole.len() > 4, "{whole:?}");
    for cut in 1..6 {
        let before = Page { until: EventTime(cut * MINUTE), ..WHOLE };
        let after = Page { from: before.until, told_from: before.until, ..WHOLE };
        let today = |page: Page| [1, 4].map(|m| EventTime(m * MINUTE)).into_iter().filter(move |t| page.contains(*t));
        let of = |page: Page, from: i64, standing: Option<EventTime>| {
            let counts = counts.iter().filter(|(bucket, _)| *bucket >= from);
            let mut facts: BTreeMap<Fact, isize> =
                counts.map(|(bucket, count)| (Fact::Occurrence(EventTime(bucket * 10_000)), *count)).collect();
            facts.extend(today(page).map(|start| (Fact::Today(start), 1)));
            facts.extend(standing.map(|episode| (Fact::Standing { candidate: candidate.index, episode }, 1)));
            candidate.judge(&History::of(facts.iter().map(|(fact, times)| (fact, *times))), &page)
        };
        let mut found = of(before, 0, None);
        let standing = match found.last() {
            Some(Finding::Standing { episode }) => Some(*episode),
            _ => None,
        };
        found.retain(|finding| !matches!(finding, Finding::Standing { .. }));
        found.extend(of(after, (cut - 1) * 6, standing));
        found.sort();
        let mut expected = whole.clone();
        expected.sort();
        assert_eq!(found, expected, "cut at minute {cut}");
    }
}

impl Page {
    fn contains(&self, time: EventTime) -> bool {
        (self.from..self.until).contains(&time)
    }
}

#[test]
fn warm_up_windows_decide_and_are_not_told() {
    let counts = history(&[(0, 10), (5, 1), (6, 9)], &[]);
    let page = Page { told_from: EventTime(MINUTE), ..WHOLE };
    assert_eq!(minutes(10, true).judge(&counts, &page), [], "blocked by the incident of minute 0");
    assert_eq!(minutes(9, true).judge(&counts, &page), [incident(1, 9, 0, true)], "its episode began before");
}
