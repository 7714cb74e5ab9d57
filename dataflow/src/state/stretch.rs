//! Judging a stretch of windows of one key from counts alone: for late occurrences, whose windows memory no longer has
//! (W-8, design, decision 4).
//!
//! A late occurrence in v changes the counts of v, and so the reach of v and of v+1; from there on to the right a window
//! depends on the one before it only as long as its reach is a run (Q40). To the left the same holds: the first window
//! whose reach is no run does not depend on what lies before it.

use floodmark_model::{EventTime, Reach, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// The terms of a window: its version of the rule, for the key's tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// N.
    pub threshold: u32,
    /// Whether bursts over the window's start count.
    pub straddle: bool,
}

/// How a rule cuts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Length of a window in milliseconds.
    pub window_ms: i64,
    /// Buckets of a window.
    pub buckets: usize,
}

impl Grid {
    /// Length of a bucket in milliseconds.
    #[must_use]
    pub fn bucket_ms(self) -> i64 {
        self.window_ms / self.buckets as i64
    }
}

/// What is known of the window before another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// Whether it has an incident.
    pub is_incident: bool,
    /// The counts of its buckets.
    pub counts: Vec<u32>,
}

/// A window that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedWindow {
    /// First instant.
    pub start: EventTime,
    /// What W-4 says; never [`Verdict::Below`].
    pub verdict: Verdict,
    /// count(w).
    pub count: u32,
}

/// What came of judging a stretch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The windows that the late occurrences may have changed and whose row there may be.
    pub windows: Vec<JudgedWindow>,
    /// What the first window in memory must know of the one before it, where that may have changed.
    pub before_memory: Option<Before>,
}

/// The counts of one key over some spans of time.
pub struct Stretch<'a> {
    /// How the rule cuts time.
    pub grid: Grid,
    /// The windows of late occurrences.
    pub late: &'a BTreeSet<EventTime>,
    /// The spans that `counts` covers, of whole windows, in order and apart.
    pub spans: &'a [(EventTime, EventTime)],
    /// Buckets that are not empty.
    pub counts: BTreeMap<EventTime, u32>,
    /// The first window that memory has; no span goes beyond it.
    pub memory: EventTime,
}

impl Stretch<'_> {
    /// Judges the windows; `None` when the spans are too narrow to tell.
    #[must_use]
    pub fn judge(&self, terms: impl Fn(EventTime) -> Terms) -> Option<Judged> {
        let mut judged = Judged::default();
        for span in self.spans {
            self.judge_span(*span, &terms, &mut judged)?;
        }
        Some(judged)
    }

    fn judge_span(
        &self,
        (from, until): (EventTime, EventTime),
        terms: &impl Fn(EventTime) -> Terms,
        judged: &mut Judged,
    ) -> Option<()> {
        let mut before: Option<Vec<u32>> = None;
        // Whether the window before has an incident, once that is known, and whether it may have changed.
        let (mut is_incident, mut has_changed) = (None, false);
        let mut start = from;
        while start < until {
            let counts = self.window(start);
            let Terms { threshold, straddle } = terms(start);
            let reach = match &before {
                Some(before) => Reach::of(before.iter().copied(), counts.iter().copied(), threshold, straddle),
                None if floodmark_model::predicate::own(counts.iter().copied(), threshold) => Reach::Own,
                // Nothing is known of what lies to the left.
                None => Reach::Run,
            };
            let verdict = match (reach, is_incident) {
                (Reach::Run, None) => None,
                (reach, before) => Some(Verdict::new(reach, before.unwrap_or(false))),
            };
            let counts_changed = self.late.contains(&start) || self.late.contains(&start.minus(self.grid.window_ms));
            has_changed = counts_changed || (has_changed && reach == Reach::Run);
            if has_changed {
                let verdict = verdict?;
                if verdict != Verdict::Below {
                    let count = counts.iter().copied().fold(0, u32::saturating_add);
                    judged.windows.push(JudgedWindow { start, verdict, count });
                }
            }
            is_incident = verdict.map(Verdict::is_incident);
            before = Some(counts);
            start = start.plus(self.grid.window_ms);
        }
        if until < self.memory {
            return (!has_changed).then_some(());
        }
        if has_changed || self.late.contains(&self.memory) {
            judged.before_memory = Some(Before { is_incident: is_incident?, counts: before.unwrap_or_default() });
        }
        Some(())
    }

    fn window(&self, start: EventTime) -> Vec<u32> {
        let bucket_ms = self.grid.bucket_ms();
        let bucket = |index: usize| start.plus(bucket_ms * index as i64);
        (0..self.grid.buckets).map(|index| self.counts.get(&bucket(index)).copied().unwrap_or(0)).collect()
    }
}

/// The spans of time that judging these windows needs, `margin` windows to both sides, and none in memory.
#[must_use]
pub fn spans(late: &BTreeSet<EventTime>, grid: Grid, memory: EventTime, margin: i64) -> Vec<(EventTime, EventTime)> {
    let mut spans: Vec<(EventTime, EventTime)> = Vec::new();
    for window in late {
        let window = (*window).min(memory);
        let from = window.minus(grid.window_ms * margin);
        let until = window.plus(grid.window_ms * (margin + 1)).min(memory);
        match spans.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(until),
            _ => spans.push((from, until)),
        }
    }
    spans
}

#[cfg(test)]
mod tests;
