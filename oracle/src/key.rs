//! One key under one rule: the predicate of W-2 to W-4 and the episodes of W-11, by brute force.
//!
//! Windows and buckets are numbers: window `w` is `[w * size, (w + 1) * size)`, and bucket `b` likewise. `i128` holds
//! whatever comes of any event time.

use floodmark_model::Rule;
use std::collections::{BTreeMap, BTreeSet};

/// A window that holds at least one occurrence.
pub(crate) struct Judged {
    /// First instant.
    pub(crate) start: i64,
    /// count(w).
    pub(crate) count: u64,
    /// If it has an incident: the start of the window of its episode's first.
    pub(crate) episode: Option<i64>,
}

/// Judges every window that holds one of `times`, in order. An empty window has no incident: a bridge needs an
/// occurrence of its own (W-3).
pub(crate) fn judge(rule: &Rule, times: &[i64]) -> Vec<Judged> {
    let size = i128::from(rule.window_ms);
    let windows: BTreeSet<i128> = times.iter().map(|&ts| i128::from(ts).div_euclid(size)).collect();

    // The windows with an incident so far, each with the first window of its episode.
    let mut episodes = BTreeMap::<i128, i128>::new();
    let mut judged = Vec::new();
    for w in windows {
        let count = count_between(times, w * size, (w + 1) * size);
        let own = count >= u64::from(rule.threshold);
        let before = episodes.get(&(w - 1)).copied();
        if own || (before.is_none() && rule.straddle && bridge(rule, times, w)) {
            episodes.insert(w, before.unwrap_or(w));
        }
        // Saturates as `Window::containing` does, for times that no store could hold.
        let start_of = |window: i128| i64::try_from(window * size).unwrap_or(i64::MIN);
        judged.push(Judged { start: start_of(w), count, episode: episodes.get(&w).map(|&first| start_of(first)) });
    }
    judged
}

/// W-3, but for what it says about `incident(w-1)` and `own(w)`: some run of B buckets that begins inside the window
/// before `w`, though not at its start, holds N occurrences, one of them in `w`.
fn bridge(rule: &Rule, times: &[i64], w: i128) -> bool {
    let buckets = i128::from(rule.buckets);
    let bucket = i128::from(rule.window_ms) / buckets;
    let start = w * buckets * bucket;
    (1..buckets).any(|skipped| {
        let run_start = start - buckets * bucket + skipped * bucket;
        let run_end = run_start + buckets * bucket;
        count_between(times, run_start, run_end) >= u64::from(rule.threshold)
            && count_between(times, start, run_end) >= 1
    })
}

fn count_between(times: &[i64], from: i128, until: i128) -> u64 {
    times.iter().filter(|&&ts| (from..until).contains(&i128::from(ts))).count() as u64
}
