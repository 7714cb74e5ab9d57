//! Adds up what a replay finds.

use super::answer::{Difference, Listed};
use super::question::Question;
use crate::pipeline::tenants::Tenants;
use floodmark_dataflow::replay::Found;
use floodmark_dataflow::state::candidate::Finding;
use floodmark_dataflow::state::history::BugKey;
use floodmark_model::EventTime;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// New or vanished incidents that are listed for a candidate: the earliest.
pub const LISTED_MAX: usize = 1_000;

/// What one candidate has found so far.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) incidents: u64,
    pub(super) episodes: u64,
    pub(super) new: Earliest,
    pub(super) vanished: Earliest,
    bugs: HashMap<BugKey, BugTally>,
}

/// The incidents of one bug.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BugTally {
    pub(super) incidents: u64,
    pub(super) occurrences: u64,
    /// Count and start, in milliseconds, of the window that holds most.
    pub(super) busiest: (u64, Reverse<i64>),
}

/// A tally for each candidate.
pub(super) fn tallies(question: &Question) -> Vec<Tally> {
    question.candidates.iter().map(|_| Tally::default()).collect()
}

impl Tally {
    /// Adds what was found of this candidate.
    pub(super) fn add(&mut self, found: &Found, tenants: &Tenants) {
        let listed = |start| Listed {
            window_start: start,
            tenant: tenants.name(found.bug.tenant).to_string(),
            fingerprint: found.bug.fingerprint.to_string(),
        };
        match found.finding {
            Finding::Incident { start, count, episode, is_new } => {
                self.incidents += 1;
                self.episodes += u64::from(episode == start);
                let bug = self.bugs.entry(found.bug).or_default();
                bug.incidents += 1;
                bug.occurrences += count;
                bug.busiest = bug.busiest.max((count, Reverse(start.0)));
                if is_new {
                    self.new.add(start, listed);
                }
            }
            Finding::Vanished { start } => self.vanished.add(start, listed),
            Finding::Standing { .. } => {}
        }
    }

    /// The bugs with most incidents, then most occurrences in them.
    pub(super) fn noisiest(&self, at_most: usize, tenants: &Tenants) -> Vec<(BugKey, BugTally)> {
        let mut top: Vec<(BugKey, BugTally)> = Vec::with_capacity(at_most + 1);
        let rank = |(bug, tally): &(BugKey, BugTally)| {
            (Reverse((tally.incidents, tally.occurrences)), tenants.name(bug.tenant), bug.fingerprint)
        };
        for (bug, tally) in &self.bugs {
            let entry = (*bug, *tally);
            // Names are looked up only for what comes near.
            let least = top.last().map_or(0, |(_, least)| least.incidents);
            if top.len() < at_most || tally.incidents >= least {
                let place = top.partition_point(|known| rank(known) < rank(&entry));
                top.insert(place, entry);
                top.truncate(at_most);
            }
        }
        top
    }
}

/// The earliest of many, and how many there were.
#[derive(Default)]
pub(super) struct Earliest {
    count: u64,
    listed: BTreeSet<Listed>,
}

impl Earliest {
    fn add(&mut self, start: EventTime, listed: impl FnOnce(EventTime) -> Listed) {
        self.count += 1;
        let full = self.listed.len() >= LISTED_MAX;
        if full && self.listed.last().is_some_and(|last| last.window_start < start) {
            return;
        }
        self.listed.insert(listed(start));
        if full {
            self.listed.pop_last();
        }
    }

    pub(super) fn into_difference(self) -> Difference {
        let left_out = self.count - self.listed.len() as u64;
        Difference { count: self.count, incidents: self.listed.into_iter().collect(), left_out }
    }
}

/// Numbers tenants without a bound: history holds those that there were.
pub(super) fn tenants() -> Arc<Tenants> {
    Arc::new(Tenants::new(usize::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use floodmark_dataflow::state::history::CandidateIndex;
    use floodmark_model::Fingerprint;

    fn found(tenants: &Tenants, bug: u128, finding: Finding) -> Found {
        let bug = BugKey { tenant: tenants.number("acme").unwrap(), fingerprint: Fingerprint::from_bits(bug) };
        Found { candidate: CandidateIndex(0), bug, finding }
    }

    fn incident(start: i64, count: u64, episode: i64) -> Finding {
        Finding::Incident { start: EventTime(start), count, episode: EventTime(episode), is_new: true }
    }

    #[test]
    fn the_noisiest_have_most_incidents_and_then_most_occurrences() {
        let (tenants, mut tally) = (tenants(), Tally::default());
        for (bug, incidents, count) in [(1, 2, 50), (2, 3, 10), (3, 2, 60), (4, 1, 999), (5, 2, 50)] {
            for n in 0..incidents {
                tally.add(&found(&tenants, bug, incident(n, count + n as u64, 0)), &tenants);
            }
        }
        let noisiest: Vec<_> = tally.noisiest(4, &tenants).iter().map(|(bug, _)| bug.fingerprint.bits()).collect();
        assert_eq!(noisiest, [2, 3, 1, 5]);
        let (_, first) = tally.noisiest(1, &tenants)[0];
        assert_eq!((first.occurrences, first.busiest), (33, (12, Reverse(2))));
        assert_eq!((tally.incidents, tally.episodes), (10, 5));
    }

    #[test]
    fn the_earliest_are_listed_and_the_rest_is_counted() {
        let (tenants, mut tally) = (tenants(), Tally::default());
        let count = LISTED_MAX as i64 + 5;
        for start in (0..count).rev() {
            tally.add(&found(&tenants, 1, Finding::Vanished { start: EventTime(start) }), &tenants);
        }
        let vanished = tally.vanished.into_difference();
        assert_eq!((vanished.count, vanished.left_out), (count as u64, 5));
        assert_eq!(vanished.incidents.last().unwrap().window_start, EventTime(LISTED_MAX as i64 - 1));
    }
}
