//! One key under one rule: the predicate of W-2 to W-4 and the episodes of W-11, by brute force.
//!
//! What is counted was decided before, for each occurrence by the version of its own window. So a bridge adds what the
//! version of the window before counted there and what the window's own counted here; N is that of the window's own.
//!
//! Windows and buckets are numbers: window `w` is `[w * size, (w + 1) * size)`, and bucket `b` likewise. `i128` holds
//! whatever comes of any event time.

use floodmark_model::{EventTime, Rule};
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
pub(crate) fn judge(rule: &Rule, tenant: &str, times: &[i64]) -> Vec<Judged> {
    let size = i128::from(rule.window_ms);
    let windows: BTreeSet<i128> = times.iter().map(|&ts| i128::from(ts).div_euclid(size)).collect();

    // The windows with an incident so far, each with the first window of its episode.
    let mut episodes = BTreeMap::<i128, i128>::new();
    let mut judged = Vec::new();
    for w in windows {
        let start = start_of(w * size);
        let version = rule.at(EventTime(start));
        let threshold = u64::from(version.threshold_for(tenant));
        let count = count_between(times, w * size, (w + 1) * size);
        let before = episodes.get(&(w - 1)).copied();
        let is_bridge = || before.is_none() && version.straddle && bridge(rule, threshold, times, w);
        if count >= threshold || is_bridge() {
            episodes.insert(w, before.unwrap_or(w));
        }
        let episode = episodes.get(&w).map(|&first| start_of(first * size));
        judged.push(Judged { start, count, episode });
    }
    judged
}

/// Saturates as `Window::containing` does, for times that no store could hold.
fn start_of(start: i128) -> i64 {
    i64::try_from(start).unwrap_or(i64::MIN)
}

/// W-3, but for what it says about `incident(w-1)` and `own(w)`: some run of B buckets that begins inside the window
/// before `w`, though not at its start, holds N occurrences, one of them in `w`.
fn bridge(rule: &Rule, threshold: u64, times: &[i64], w: i128) -> bool {
    let buckets = i128::from(rule.buckets);
    let bucket = i128::from(rule.window_ms) / buckets;
    let start = w * buckets * bucket;
    (1..buckets).any(|skipped| {
        let run_start = start - buckets * bucket + skipped * bucket;
        let run_end = run_start + buckets * bucket;
        count_between(times, run_start, run_end) >= threshold && count_between(times, start, run_end) >= 1
    })
}

fn count_between(times: &[i64], from: i128, until: i128) -> u64 {
    times.iter().filter(|&&ts| (from..until).contains(&i128::from(ts))).count() as u64
}
