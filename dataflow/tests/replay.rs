//! History under other rules, against the oracle; and that a change costs what it changes.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use floodmark_dataflow::message::TenantId;
use floodmark_dataflow::replay::{Found, Replay};
use floodmark_dataflow::state::candidate::{Candidate, Finding, Page};
use floodmark_dataflow::state::history::CandidateIndex;
use floodmark_dataflow::state::history::{BugKey, Fact};
use floodmark_model::{EventTime, Fingerprint, Identity, Level, Rule};
use floodmark_oracle::{Observation, Oracle};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
/// Divides the buckets of all candidates.
const BUCKET: i64 = 2 * SECOND;
const WHOLE: Page =
    Page { from: EventTime(i64::MIN), until: EventTime(i64::MAX), told_from: EventTime(i64::MIN), today_ms: MINUTE };

fn bug(number: u64) -> BugKey {
    BugKey { tenant: TenantId(number as u32 % 2), fingerprint: Fingerprint::from_bits(u128::from(number)) }
}

/// Candidates whose windows all end with a minute.
fn candidate() -> impl Strategy<Value = Candidate> {
    let window = prop::sample::select(vec![(MINUTE / 2, 5), (MINUTE, 10), (MINUTE, 1), (MINUTE, 6), (MINUTE / 3, 2)]);
    (window, 1u32..7, any::<bool>()).prop_map(|((window_ms, buckets), threshold, straddle)| Candidate {
        index: CandidateIndex(0),
        window_ms,
        threshold,
        straddle,
        buckets,
    })
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec(candidate(), 1..5).prop_map(|mut candidates| {
        for (index, candidate) in (0..).zip(&mut candidates) {
            candidate.index = CandidateIndex(index);
        }
        candidates
    })
}

/// Bugs and times around 1970, in seconds.
fn occurrences() -> impl Strategy<Value = Vec<(u64, i64)>> {
    prop::collection::vec((0..3u64, -150..200i64), 0..120)
}

fn say(replay: &mut Replay, occurrences: &[(u64, i64)], times: isize) {
    for &(number, second) in occurrences {
        let bucket = (second * SECOND).div_euclid(BUCKET) * BUCKET;
        replay.say(bug(number), Fact::Occurrence(EventTime(bucket)), times);
    }
}

/// What holds after all changes, each once.
#[derive(Default)]
struct Collected(BTreeMap<Found, isize>);

impl Collected {
    fn settle(&mut self, replay: &mut Replay) {
        replay.settle(|found, times| *self.0.entry(found).or_default() += times);
        self.0.retain(|_, times| *times != 0);
        assert!(self.0.values().all(|times| *times == 1), "{:?}", self.0);
    }

    fn incidents(&self) -> BTreeSet<(u16, BugKey, i64, u64, i64)> {
        let incident = |found: &Found| match found.finding {
            Finding::Incident { start, count, episode, .. } => {
                Some((found.candidate.0, found.bug, start.0, count, episode.0))
            }
            _ => None,
        };
        self.0.keys().filter_map(incident).collect()
    }
}

/// The same by the oracle, which sees the occurrences themselves.
fn expected(candidates: &[Candidate], occurrences: &[(u64, i64)]) -> BTreeSet<(u16, BugKey, i64, u64, i64)> {
    let observation = |(n, &(number, second)): (usize, &(u64, i64))| Observation {
        ts: EventTime(second * SECOND + n as i64 % SECOND),
        identity: Identity(n as u128),
        tenant: bug(number).tenant.0.to_string(),
        fingerprint: bug(number).fingerprint,
        service: String::new(),
        level: Level::Error,
    };
    let mut incidents = BTreeSet::new();
    for candidate in candidates {
        let rule = Rule {
            window_ms: candidate.window_ms,
            threshold: candidate.threshold,
            straddle: candidate.straddle,
            buckets: candidate.buckets,
            ..Rule::default()
        };
        let outcome = Oracle::new([rule]).judge(occurrences.iter().enumerate().map(observation));
        incidents.extend(outcome.incidents.into_iter().map(|incident| {
            let tenant = TenantId(incident.tenant.parse().unwrap());
            let key = BugKey { tenant, fingerprint: incident.fingerprint };
            (candidate.index.0, key, incident.window_start.0, incident.count, incident.episode.0)
        }));
    }
    incidents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn w4_a_replay_finds_what_the_oracle_demands(
        candidates in candidates(), occurrences in occurrences(), workers in 1..4usize
    ) {
        let mut replay = Replay::start(workers, WHOLE);
        candidates.iter().for_each(|candidate| replay.add(*candidate));
        say(&mut replay, &occurrences, 1);
        let mut found = Collected::default();
        found.settle(&mut replay);
        prop_assert_eq!(found.incidents(), expected(&candidates, &occurrences));
    }

    #[test]
    fn changes_end_where_a_replay_of_what_is_left_ends(
        kept in candidates(), dropped in candidate(), first in occurrences(), second in occurrences()
    ) {
        let dropped = Candidate { index: CandidateIndex(9), ..dropped };
        let mut replay = Replay::start(2, WHOLE);
        let mut found = Collected::default();
        replay.add(dropped);
        say(&mut replay, &first, 1);
        found.settle(&mut replay);
        prop_assert_eq!(found.incidents(), expected(&[dropped], &first));
        kept.iter().for_each(|candidate| replay.add(*candidate));
        replay.remove(dropped);
        say(&mut replay, &second, 1);
        say(&mut replay, &first, -1);
        found.settle(&mut replay);
        prop_assert_eq!(found.incidents(), expected(&kept, &second));
    }

    #[test]
    fn pages_find_together_what_one_page_finds(
        candidates in candidates(), occurrences in occurrences(), today in prop::collection::btree_set(-2..3i64, 0..4),
        cut in -2..4i64
    ) {
        let cut = EventTime(cut * MINUTE);
        let replay_of = |page: Page, standing: &[Found]| {
            let mut replay = Replay::start(2, page);
            candidates.iter().for_each(|candidate| replay.add(*candidate));
            let counted = |(_, second): &(u64, i64)| {
                (page.from.minus(MINUTE).0..page.until.0).contains(&(second * SECOND))
            };
            let occurrences: Vec<_> = occurrences.iter().copied().filter(counted).collect();
            say(&mut replay, &occurrences, 1);
            for start in today.iter().map(|minute| EventTime(minute * MINUTE)) {
                if (page.from..page.until).contains(&start) {
                    replay.say(bug(0), Fact::Today(start), 1);
                }
            }
            for found in standing {
                if let Finding::Standing { episode } = found.finding {
                    replay.say(found.bug, Fact::Standing { candidate: found.candidate, episode }, 1);
                }
            }
            let mut found = Collected::default();
            found.settle(&mut replay);
            found.0.into_keys().collect::<Vec<_>>()
        };
        let before = replay_of(Page { until: cut, ..WHOLE }, &[]);
        let (standing, mut found): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|found| matches!(found.finding, Finding::Standing { .. }));
        found.extend(replay_of(Page { from: cut, ..WHOLE }, &standing));
        found.sort();
        prop_assert_eq!(found, replay_of(WHOLE, &[]));
    }
}

#[test]
fn another_candidate_costs_its_own_judgements_and_changes_only_its_own_findings() {
    const BUGS: u64 = 500;
    let candidate = |index, threshold| Candidate {
        index: CandidateIndex(index),
        window_ms: MINUTE,
        threshold,
        straddle: true,
        buckets: 10,
    };
    let mut replay = Replay::start(2, WHOLE);
    for number in 0..BUGS {
        replay.say(bug(number), Fact::Occurrence(EventTime(0)), 1 + number as isize % 10);
    }
    replay.add(candidate(0, 5));
    replay.add(candidate(1, 9));
    let mut found = Collected::default();
    found.settle(&mut replay);
    assert_eq!((replay.judged(), found.0.len()), (2 * BUGS, 300 + 100));

    // Another threshold.
    replay.add(candidate(2, 8));
    let mut changed = Vec::new();
    replay.settle(|found, times| changed.push((found.candidate.0, times)));
    assert_eq!(replay.judged(), 3 * BUGS, "no other candidate is judged again");
    assert_eq!(changed, [(2, 1); 150]);

    // A threshold in the place of another.
    replay.remove(candidate(0, 5));
    replay.add(candidate(0, 10));
    let mut changed = BTreeMap::<_, usize>::new();
    replay.settle(|found, times| *changed.entry((found.candidate.0, times)).or_default() += 1);
    assert_eq!(replay.judged(), 5 * BUGS, "what was and what is");
    assert_eq!(changed, BTreeMap::from([((0, -1), 300 - 50)]), "what both demand stays");

    // Another occurrence: one bug, before and after, under three candidates.
    replay.say(bug(6), Fact::Occurrence(EventTime(0)), 1);
    let mut changed = Vec::new();
    replay.settle(|found, times| changed.push((found.candidate.0, times)));
    assert_eq!(replay.judged(), 5 * BUGS + 6);
    assert_eq!(changed, [(2, 1)], "the eighth makes it due under a threshold of eight");
}

#[test]
fn a_replay_of_nothing_finds_nothing_and_one_that_is_given_up_ends() {
    let mut replay = Replay::start(3, WHOLE);
    replay.settle(|found, _| panic!("{found:?}"));
    replay.say(bug(1), Fact::Occurrence(EventTime(0)), 100);
    drop(replay);
}
