//! The oracle against the examples and rules of `docs/semantics.md`.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use floodmark_model::{EventTime, Fingerprint, Identity, Level, Rule};
use floodmark_oracle::{Crowd, Observation, Oracle, Outcome};
use proptest::prelude::*;

const MINUTE: i64 = 60_000;
const WINDOW: i64 = 5 * MINUTE;

/// Occurrences of one key at these times, each with an identity of its own.
fn at(times: impl IntoIterator<Item = i64>) -> Vec<Observation> {
    let observe = |(n, ts)| Observation {
        ts: EventTime(ts),
        identity: Identity(n as u128),
        tenant: "acme".into(),
        fingerprint: Fingerprint::from_bits(7),
        service: String::new(),
        level: Level::Error,
    };
    times.into_iter().enumerate().map(observe).collect()
}

fn repeat(ts: i64, n: usize) -> impl Iterator<Item = i64> {
    std::iter::repeat_n(ts, n)
}

fn oracle() -> Oracle {
    Oracle::new([Rule::default()])
}

/// (window start, count, episode) of the incidents under the default rule.
fn incidents(times: impl IntoIterator<Item = i64>) -> Vec<(i64, u64, i64)> {
    shown(&oracle().judge(at(times)))
}

fn shown(outcome: &Outcome) -> Vec<(i64, u64, i64)> {
    outcome.incidents.iter().map(|found| (found.window_start.0, found.count, found.episode.0)).collect()
}

#[test]
fn w2_the_tenth_occurrence_of_a_window_makes_the_incident() {
    assert_eq!(incidents(repeat(10, 9)), []);
    assert_eq!(incidents(repeat(10, 10)), [(0, 10, 0)]);
    assert_eq!(incidents(repeat(10, 25)), [(0, 25, 0)]);
}

#[test]
fn w13_a_time_at_a_windows_end_belongs_to_the_next() {
    assert_eq!(incidents(repeat(WINDOW, 10)), [(WINDOW, 10, WINDOW)]);
    assert_eq!(incidents(repeat(-1, 10)), [(-WINDOW, 10, -WINDOW)], "also before 1970");
}

#[test]
fn w3_the_example_every_split_over_a_boundary_makes_one_incident() {
    let (before, after) = (4 * MINUTE + 30_000, 5 * MINUTE + 30_000);
    for left in 1..=9 {
        let split = repeat(before, left).chain(repeat(after, 10 - left));
        assert_eq!(incidents(split), [(WINDOW, 10 - left as u64, WINDOW)], "{left} before the boundary");
    }
}

#[test]
fn w3_a_span_of_window_minus_bucket_is_always_caught_and_one_of_the_window_never() {
    let bucket = WINDOW / 10;
    for first in (1..WINDOW).step_by(4_999) {
        let ten_over = |span: i64| incidents(repeat(first, 9).chain([first + span]));
        if first + (WINDOW - bucket) >= WINDOW {
            assert_eq!(ten_over(WINDOW - bucket), [(WINDOW, 1, WINDOW)], "from {first}");
        }
        assert_eq!(ten_over(WINDOW), [], "from {first}");
    }
}

#[test]
fn w3_between_the_two_spans_the_buckets_decide() {
    assert_eq!(incidents(repeat(30_000, 9).chain([300_001])), [(WINDOW, 1, WINDOW)]);
    assert_eq!(incidents(repeat(59_999, 9).chain([330_000])), []);
    assert_eq!(incidents(repeat(29_999, 9).chain([300_000])), [], "no run begins at a window's start");
}

#[test]
fn w3_no_bridge_after_an_incident_or_beside_an_own_count_or_without_straddle() {
    assert_eq!(incidents(repeat(270_000, 10).chain(repeat(330_000, 4))), [(0, 10, 0)]);
    assert_eq!(incidents(repeat(270_000, 5).chain(repeat(330_000, 10))), [(WINDOW, 10, WINDOW)]);
    let split = || at(repeat(270_000, 9).chain([330_000]));
    let off = Rule { straddle: false, ..Rule::default() };
    assert_eq!(shown(&Oracle::new([off]).judge(split())), []);
}

#[test]
fn w3_one_bucket_a_window_has_no_bridges() {
    let rule = Rule { buckets: 1, ..Rule::default() };
    assert_eq!(shown(&Oracle::new([rule]).judge(at(repeat(299_999, 9).chain([300_000])))), []);
}

#[test]
fn w4_bridges_block_one_another_along_a_chain_of_windows() {
    let burst = |boundary: i64, left, right| repeat(boundary - 10_000, left).chain(repeat(boundary + 10_000, right));
    let chain = || burst(WINDOW, 6, 4).chain(burst(2 * WINDOW, 5, 5)).chain(burst(3 * WINDOW, 4, 6));
    assert_eq!(incidents(chain()), [(WINDOW, 9, WINDOW), (3 * WINDOW, 6, 3 * WINDOW)]);

    // Q40: an incident in the window before the chain turns every answer round.
    let first_own = chain().chain(repeat(10_000, 4));
    assert_eq!(incidents(first_own), [(0, 10, 0), (2 * WINDOW, 9, 2 * WINDOW)]);

    // Q41: and an own count inside it again those to its right.
    let second_own = chain().chain(repeat(10_000, 4)).chain([450_000]);
    assert_eq!(incidents(second_own), [(0, 10, 0), (WINDOW, 10, 0), (3 * WINDOW, 6, 3 * WINDOW)]);
}

#[test]
fn w11_episodes_are_runs_of_adjacent_windows() {
    let windows = [0, 1, 2, 4, 5].map(|window| repeat(window * WINDOW + 10, 10));
    let episodes: Vec<i64> = incidents(windows.into_iter().flatten()).iter().map(|incident| incident.2).collect();
    assert_eq!(episodes, [0, 0, 0, 4 * WINDOW, 4 * WINDOW]);
}

#[test]
fn w1_an_identity_counts_once_and_what_no_rule_matches_leaves_none() {
    let mut seen = at(repeat(10, 10));
    seen[9].identity = seen[0].identity;
    assert_eq!(oracle().judge(seen.clone()).totals.values().copied().collect::<Vec<_>>(), [9]);

    // Q48: the unmatched one with the same identity does not stand for the matched one.
    seen[0].level = Level::Info;
    assert_eq!(oracle().judge(seen).totals.values().copied().collect::<Vec<_>>(), [9]);
}

#[test]
fn w1_tenants_fingerprints_and_rules_are_counted_apart() {
    let mut seen = at(repeat(10, 18));
    seen[..6].iter_mut().for_each(|one| one.tenant = "other".into());
    seen[6..12].iter_mut().for_each(|one| one.fingerprint = Fingerprint::from_bits(8));
    assert_eq!(shown(&oracle().judge(seen.clone())), []);

    let six = Rule { name: "six".into(), threshold: 6, window_ms: MINUTE, ..Rule::default() };
    let outcome = Oracle::new([Rule::default(), six]).judge(seen);
    assert_eq!(outcome.totals.len(), 6);
    assert!(outcome.incidents.len() == 3 && outcome.incidents.iter().all(|incident| incident.rule == "six"));
}

/// `Rule::default()`, changed to `newer` from the window at [`WINDOW`] on.
fn changed_to(newer: Rule) -> Rule {
    Rule::of_versions(vec![Rule::default(), Rule { from: EventTime(WINDOW), ..newer }]).unwrap()
}

#[test]
fn a_tenants_own_threshold_is_its_n_and_nobody_elses() {
    let mut seen = at(repeat(10, 12));
    seen[6..].iter_mut().for_each(|one| one.tenant = "other".into());
    let rule = Rule { tenant_thresholds: [("other".into(), 6)].into(), ..Rule::default() };
    let outcome = Oracle::new([rule]).judge(seen);
    assert_eq!(outcome.incidents.iter().map(|found| &*found.tenant).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn q51_each_window_is_judged_by_the_version_of_its_own_start() {
    let lowered = || Oracle::new([changed_to(Rule { threshold: 5, ..Rule::default() })]);
    let six_each = || at(repeat(10, 6).chain(repeat(WINDOW, 6)).chain(repeat(2 * WINDOW, 4)));
    assert_eq!(shown(&lowered().judge(six_each())), [(WINDOW, 6, WINDOW)]);
    let raised = Oracle::new([changed_to(Rule { threshold: 50, ..Rule::default() })]);
    assert_eq!(shown(&raised.judge(at(repeat(10, 10).chain(repeat(WINDOW, 10))))), [(0, 10, 0)]);
}

#[test]
fn q51_a_bridge_over_a_change_has_the_threshold_and_straddle_of_its_own_window() {
    let split = || at(repeat(WINDOW - 10, 3).chain(repeat(WINDOW + 10, 3)));
    let lowered = changed_to(Rule { threshold: 6, ..Rule::default() });
    assert_eq!(shown(&Oracle::new([lowered]).judge(split())), [(WINDOW, 3, WINDOW)]);
    let off = changed_to(Rule { threshold: 6, straddle: false, ..Rule::default() });
    assert_eq!(shown(&Oracle::new([off]).judge(split())), []);
}

#[test]
fn q51_a_bridge_over_a_change_adds_what_each_windows_own_version_counted_in_it() {
    let mut fatal_only = Rule { threshold: 5, ..Rule::default() };
    fatal_only.matches.level = Level::Fatal;
    let oracle = Oracle::new([changed_to(fatal_only)]);
    let mut seen = at(repeat(WINDOW - 10, 3).chain(repeat(WINDOW + 10, 4)));
    assert_eq!(
        oracle.judge(seen.clone()).totals.values().copied().collect::<Vec<_>>(),
        [3],
        "errors count before only"
    );
    seen[3..5].iter_mut().for_each(|one| one.level = Level::Fatal);
    assert_eq!(shown(&oracle.judge(seen)), [(WINDOW, 2, WINDOW)]);
}

#[test]
fn q46_a_crowd_is_more_fingerprints_than_the_limit() {
    let mut seen = at(repeat(10, 4));
    for (n, one) in seen.iter_mut().enumerate() {
        one.fingerprint = Fingerprint::from_bits(n as u128);
    }
    assert!(oracle().judge(seen.clone()).crowds.is_empty());
    assert!(oracle().max_fingerprints(4).judge(seen.clone()).crowds.is_empty());
    let crowd = Crowd { rule: "default".into(), tenant: "acme".into(), window_start: EventTime(0) };
    assert_eq!(oracle().max_fingerprints(3).judge(seen).crowds.into_iter().collect::<Vec<_>>(), [crowd]);
}

#[test]
fn no_event_time_is_too_far_away() {
    let outcome = oracle().judge(at([i64::MIN, i64::MAX, 0]));
    assert_eq!(outcome.totals.len(), 3);
}

/// Occurrences of few keys and identities in few windows, so that they meet.
fn observations() -> impl Strategy<Value = Vec<Observation>> {
    let one = (-WINDOW..3 * WINDOW, 0..60u128, 0..2u8, 0..2u128).prop_map(|(ts, identity, tenant, bug)| Observation {
        ts: EventTime(ts),
        identity: Identity(identity),
        tenant: tenant.to_string(),
        fingerprint: Fingerprint::from_bits(bug),
        service: String::new(),
        level: Level::Error,
    });
    prop::collection::vec(one, 0..120)
}

fn small() -> Oracle {
    Oracle::new([small_rule()])
}

fn small_rule() -> Rule {
    Rule { threshold: 4, ..Rule::default() }
}

proptest! {
    #[test]
    fn w7_order_and_repeats_change_nothing(
        (seen, shuffled) in observations().prop_flat_map(|seen| (Just(seen.clone()), Just(seen).prop_shuffle())),
    ) {
        let expected = small().judge(seen.clone());
        prop_assert_eq!(&small().judge(shuffled.clone()), &expected);
        prop_assert_eq!(&small().judge(seen.into_iter().chain(shuffled)), &expected);
    }

    #[test]
    fn a_bridge_needs_an_occurrence_and_fewer_than_n_and_no_incident_before(seen in observations()) {
        let (all, own) = (small().judge(seen.clone()), Oracle::new([Rule { straddle: false, ..small_rule() }]).judge(seen));
        prop_assert_eq!(&all.totals, &own.totals);
        for bridge in all.incidents.iter().filter(|incident| incident.count < 4) {
            prop_assert!(bridge.count >= 1);
            prop_assert_eq!(bridge.episode, bridge.window_start, "none in the window before");
        }
        for incident in &own.incidents {
            let kept = all.incidents.iter().any(|other| {
                (&other.tenant, other.fingerprint, other.window_start)
                    == (&incident.tenant, incident.fingerprint, incident.window_start)
            });
            prop_assert!(kept, "own(w) holds whatever bridges there are");
        }
    }

    #[test]
    fn q49_every_burst_within_window_minus_bucket_has_an_incident_where_it_is(
        first in 0..WINDOW,
        offsets in prop::collection::vec(0..=WINDOW - WINDOW / 10, 10..14),
        others in prop::collection::vec(-WINDOW..3 * WINDOW, 0..12),
    ) {
        let found = incidents(offsets.iter().map(|offset| first + offset).chain(others));
        prop_assert!(found.iter().any(|(start, ..)| *start == 0 || *start == WINDOW), "{:?}", found);
    }
}
