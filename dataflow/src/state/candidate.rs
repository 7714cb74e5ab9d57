//! A candidate rule against one bug's history: which incidents it would have had (W-4, W-11), and how they differ from
//! those of today.
//!
//! The whole chain of windows is judged at once, from the left, with the predicate that the live judge uses.

use super::history::{BucketCount, CandidateIndex, History};
use super::stretch::Terms;
use floodmark_model::{EventTime, Reach, Verdict, Window};
use serde::{Deserialize, Serialize};

/// What a rule could be. What it matches was decided when the history was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// Which one it is.
    pub index: CandidateIndex,
    /// Length of its windows in milliseconds.
    pub window_ms: i64,
    /// N: an incident is due from this count on (W-2). At least 1.
    pub threshold: u32,
    /// Whether bursts over a window boundary count (W-3).
    pub straddle: bool,
    /// B: buckets of a window; divides `window_ms`. Of no account without `straddle`.
    pub buckets: u16,
}

/// A part of history that is judged at once.
///
/// Pages follow each other. Each knows the counts of the window before its first one, and the incident in that
/// ([`Fact::Standing`](super::history::Fact::Standing)), so that what they find together is what one page over all
/// would. Where a page ends and another begins, a window of every candidate and of today's rule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The first window that starts here or later is the first that is judged.
    pub from: EventTime,
    /// Windows that start here or later are not.
    pub until: EventTime,
    /// What is found in windows before this time is not told: they only decide about what follows them.
    pub told_from: EventTime,
    /// Length of the windows of today's incidents in milliseconds.
    pub today_ms: i64,
}

/// What a candidate would change for one bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Finding {
    /// It has an incident.
    Incident {
        /// Start of its window.
        start: EventTime,
        /// count(w).
        count: u64,
        /// Start of the window of its episode's first incident (W-11).
        episode: EventTime,
        /// No incident of today touches its window.
        is_new: bool,
    },
    /// An incident of today touches no window in which it has one.
    Vanished {
        /// Start of today's window.
        start: EventTime,
    },
    /// It has an incident in the page's last window: the next page needs to know.
    Standing {
        /// Start of the window of its episode's first incident.
        episode: EventTime,
    },
}

/// An incident that a candidate has.
struct Due {
    window: Window,
    count: u64,
    episode: EventTime,
}

/// The window before, as far as it decides about the next.
struct Before<'a> {
    window: Window,
    counts: &'a [BucketCount],
    /// The episode of its incident, if it has one.
    episode: Option<EventTime>,
}

impl Candidate {
    /// Everything that it would change for this bug in this page, on its own terms in every window.
    #[must_use]
    pub fn judge(&self, history: &History, page: &Page) -> Vec<Finding> {
        self.judge_on(history, page, |_| self.terms())
    }

    /// Its own terms.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms { threshold: self.threshold, straddle: self.straddle }
    }

    /// [`Self::judge`] on the terms of each window, by its start. Where they straddle, so does the candidate: else it has
    /// no buckets.
    #[must_use]
    pub fn judge_on(&self, history: &History, page: &Page, terms: impl Fn(EventTime) -> Terms) -> Vec<Finding> {
        let due = self.due(history, page, terms);
        let mut findings = Vec::new();
        for incident in due.iter().filter(|incident| incident.window.start >= page.told_from) {
            let Due { window, count, episode } = *incident;
            let is_new = !touches(window, history.today(), page.today_ms);
            findings.push(Finding::Incident { start: window.start, count, episode, is_new });
        }
        let due_starts: Vec<EventTime> = due.iter().map(|incident| incident.window.start).collect();
        for &start in history.today().iter().filter(|start| **start >= page.told_from) {
            if !touches(Window { start, size_ms: page.today_ms }, &due_starts, self.window_ms) {
                findings.push(Finding::Vanished { start });
            }
        }
        if let Some(last) = due.last().filter(|incident| incident.window.end() == page.until) {
            findings.push(Finding::Standing { episode: last.episode });
        }
        findings
    }

    /// Its incidents, in order. An empty window has none, and neither has one after it by a run alone (W-3).
    fn due(&self, history: &History, page: &Page, terms: impl Fn(EventTime) -> Terms) -> Vec<Due> {
        let window_of = |bucket: &BucketCount| Window::containing(bucket.start, self.window_ms);
        let mut due = Vec::new();
        let mut before: Option<Before<'_>> = None;
        for counts in history.counts().chunk_by(|a, b| window_of(a) == window_of(b)) {
            let window = window_of(&counts[0]);
            if window.start >= page.until {
                break;
            }
            before = before.filter(|before| before.window.next() == window);
            let mut episode = None;
            if window.start >= page.from {
                let standing = (window.start == page.from).then(|| history.standing(self.index)).flatten();
                let earlier = standing.or(before.as_ref().and_then(|before| before.episode));
                let earlier_counts = before.as_ref().map_or(&[][..], |before| before.counts);
                let reach = self.reach(window, earlier_counts, counts, terms(window.start));
                if Verdict::new(reach, earlier.is_some()).is_incident() {
                    let first = earlier.unwrap_or(window.start);
                    due.push(Due { window, count: sum(counts), episode: first });
                    episode = Some(first);
                }
            }
            before = Some(Before { window, counts, episode });
        }
        due
    }

    fn reach(&self, window: Window, before: &[BucketCount], during: &[BucketCount], terms: Terms) -> Reach {
        // Nearly all windows of nearly all bugs end here.
        if sum(before) + sum(during) < u64::from(terms.threshold) {
            return Reach::Below;
        }
        let (before, during) = (self.buckets_of(window.previous(), before), self.buckets_of(window, during));
        Reach::of(before.iter().copied(), during.iter().copied(), terms.threshold, terms.straddle)
    }

    /// The counts of a window in this candidate's own buckets.
    fn buckets_of(&self, window: Window, counts: &[BucketCount]) -> Vec<u32> {
        let buckets = if self.straddle { self.buckets } else { 1 };
        let bucket_ms = self.window_ms / i64::from(buckets);
        let mut own = vec![0u32; usize::from(buckets)];
        for bucket in counts {
            let place = (bucket.start.0 - window.start.0) / bucket_ms;
            let count = &mut own[place as usize];
            *count = count.saturating_add(bucket.count);
        }
        own
    }
}

fn sum(counts: &[BucketCount]) -> u64 {
    counts.iter().map(|bucket| u64::from(bucket.count)).sum()
}

/// Whether the window shares an instant with one of those of length `size_ms` that start at `starts`, which are in
/// order and do not overlap.
fn touches(window: Window, starts: &[EventTime], size_ms: i64) -> bool {
    let first = starts.partition_point(|start| start.plus(size_ms) <= window.start);
    starts.get(first).is_some_and(|start| *start < window.end())
}

#[cfg(test)]
mod tests;
