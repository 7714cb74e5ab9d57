//! What W-4 says of the windows of one key, from its counts per bucket.
//!
//! Whether a window has an incident may depend on the window before (Q40), and that on the one before it. So a verdict is
//! looked for leftwards, up to the first window that is decided by its own counts: one that holds N, or that no run
//! reaches.

use floodmark_model::predicate::{Reach, Verdict};
use floodmark_model::{EventTime, Rule, Window};
use std::collections::BTreeMap;

/// The counts of one key under one rule.
#[derive(Clone, Debug)]
pub struct Chain<'a> {
    rule: &'a Rule,
    tenant: &'a str,
    /// Nothing is known of what lies before: the start of a window.
    known_from: EventTime,
    /// By start; empty buckets are left out.
    buckets: BTreeMap<EventTime, u64>,
}

/// B consecutive buckets over a window's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First instant of the first bucket.
    pub start: EventTime,
    /// What they hold.
    pub count: u64,
}

impl<'a> Chain<'a> {
    /// Of counts per bucket of a key of `tenant`, of which all are known from the start of a window on.
    #[must_use]
    pub fn new(
        rule: &'a Rule,
        tenant: &'a str,
        known_from: EventTime,
        buckets: impl IntoIterator<Item = (EventTime, u64)>,
    ) -> Self {
        Self { rule, tenant, known_from, buckets: buckets.into_iter().collect() }
    }

    /// N of a window: that of the tenant, in the version of the window (Q51).
    #[must_use]
    pub fn threshold(&self, window: Window) -> u32 {
        self.rule.threshold_at(window.start, self.tenant)
    }

    /// Whether bursts over the window's start count, in the version of the window.
    #[must_use]
    pub fn straddles(&self, window: Window) -> bool {
        self.rule.at(window.start).straddle
    }

    /// The window that a time lies in.
    #[must_use]
    pub fn window_at(&self, time: EventTime) -> Window {
        Window::containing(time, self.rule.window_ms)
    }

    /// The counts of a window's buckets, in order.
    #[must_use]
    pub fn buckets_of(&self, window: Window) -> Vec<u64> {
        let start = |bucket: u16| window.start.plus(i64::from(bucket) * self.rule.bucket_ms());
        let count = |bucket| self.buckets.get(&start(bucket)).copied().unwrap_or(0);
        (0..self.rule.buckets).map(count).collect()
    }

    /// count(w) (W-1).
    #[must_use]
    pub fn count(&self, window: Window) -> u64 {
        self.buckets.range(window.start..window.end()).map(|(_, count)| count).sum()
    }

    /// The windows with an occurrence, in order.
    #[must_use]
    pub fn windows(&self) -> Vec<Window> {
        let mut windows: Vec<Window> = self.buckets.keys().map(|start| self.window_at(*start)).collect();
        windows.dedup();
        windows
    }

    /// What the window's counts show; `None` where the window before is not known.
    #[must_use]
    pub fn reach(&self, window: Window) -> Option<Reach> {
        let needed = if self.straddles(window) { window.previous().start } else { window.start };
        if needed < self.known_from {
            return None;
        }
        let saturated = |window| -> Vec<u32> {
            self.buckets_of(window).into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect()
        };
        let (before, during) = (saturated(window.previous()), saturated(window));
        let (before, during) = (before.into_iter(), during.into_iter());
        Some(Reach::of(before, during, self.threshold(window), self.straddles(window)))
    }

    /// The run over the window's start that holds the most (W-3), the earliest of equals; `None` where rules have no
    /// runs, or none holds anything.
    #[must_use]
    pub fn best_run(&self, window: Window) -> Option<Run> {
        if !self.straddles(window) {
            return None;
        }
        let both = [self.buckets_of(window.previous()), self.buckets_of(window)].concat();
        let length = usize::from(self.rule.buckets);
        let run = |first: usize| {
            let start = window.previous().start.plus(first as i64 * self.rule.bucket_ms());
            Run { start, count: both[first..first + length].iter().sum() }
        };
        let runs = (1..length).rev().map(run).filter(|run| run.count > 0);
        runs.max_by_key(|run| run.count)
    }

    /// What W-4 says; `None` where that depends on windows that are not known.
    #[must_use]
    pub fn verdict(&self, window: Window) -> Option<Verdict> {
        let reach = self.reach(window)?;
        if reach != Reach::Run {
            return Some(Verdict::new(reach, false));
        }
        let (mut decided, mut runs_before) = (window.previous(), 0u64);
        while self.reach(decided)? == Reach::Run {
            decided = decided.previous();
            runs_before += 1;
        }
        // From there on every second window of the chain has an incident.
        let first = self.reach(decided)? == Reach::Own;
        Some(Verdict::new(reach, first ^ (runs_before % 2 == 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: i64 = 300_000;

    fn rule() -> Rule {
        Rule::default()
    }

    fn window(number: i64) -> Window {
        Window { start: EventTime(number * WINDOW), size_ms: WINDOW }
    }

    /// Counts at minutes, which are whole numbers of buckets.
    fn chain<'a>(rule: &'a Rule, known_from: i64, minutes: &[(i64, u64)]) -> Chain<'a> {
        let buckets = minutes.iter().map(|(minute, count)| (EventTime(minute * 60_000), *count));
        Chain::new(rule, "acme", EventTime(known_from * WINDOW), buckets)
    }

    #[test]
    fn w3_a_burst_over_the_boundary_is_a_bridge_and_its_best_run_is_named() {
        let rule = rule();
        let chain = chain(&rule, -9, &[(4, 9), (5, 1)]);
        assert_eq!(chain.verdict(window(0)), Some(Verdict::Below));
        assert_eq!(chain.verdict(window(1)), Some(Verdict::Bridge));
        let run = chain.best_run(window(1)).unwrap();
        assert_eq!((run.count, run.start), (10, EventTime(30_000)), "the earliest of those that hold all ten");
        assert_eq!(chain.count(window(1)), 1);
        assert_eq!(chain.best_run(window(9)), None);
    }

    #[test]
    fn q40_every_second_window_of_a_chain_has_an_incident() {
        use Verdict::{Below, Blocked, Bridge, Own};
        let rule = rule();
        // Nine in each window, one more of them at its start than in the one before: ten in a run over each boundary.
        let minutes: Vec<(i64, u64)> =
            (1..7).flat_map(|n| [(5 * n, n as u64 - 1), (5 * n + 4, 10 - n as u64)]).collect();
        let verdicts = |minutes: &[(i64, u64)]| {
            let chain = chain(&rule, -9, minutes);
            (0..7).map(|n| chain.verdict(window(n)).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&minutes), [Below, Below, Bridge, Blocked, Bridge, Blocked, Bridge]);
        let one_more = [&minutes[..], &[(7, 1)]].concat();
        assert_eq!(verdicts(&one_more), [Below, Own, Blocked, Bridge, Blocked, Bridge, Blocked]);
    }

    #[test]
    fn a_verdict_that_depends_on_what_is_not_known_is_none() {
        let rule = rule();
        let minutes = [(-1, 5), (0, 5)];
        assert_eq!(chain(&rule, 0, &minutes).reach(window(0)), None);
        assert_eq!(chain(&rule, -1, &minutes).reach(window(0)), Some(Reach::Run));
        assert_eq!(chain(&rule, -1, &minutes).verdict(window(0)), None, "the window before may be due");
        assert_eq!(chain(&rule, -2, &minutes).verdict(window(0)), Some(Verdict::Bridge));
        let flat = Rule { straddle: false, ..Rule::default() };
        assert_eq!(chain(&flat, 0, &minutes).verdict(window(0)), Some(Verdict::Below));
        assert_eq!(chain(&flat, 0, &minutes).best_run(window(0)), None);
    }

    #[test]
    fn windows_are_those_with_an_occurrence() {
        let rule = rule();
        assert_eq!(chain(&rule, -9, &[(-1, 1), (0, 1), (4, 1), (20, 1)]).windows(), [-1, 0, 4].map(window));
    }
}
