//! How many bugs of one tenant there are in a window, over all judges: more than are allowed is an incident of its own
//! (W-12, Q46).
//!
//! # Invariants
//!
//! - A window of a tenant is told of once, when it first has more panes than `max`, or keys without panes.
//! - What a window counts is forgotten once the watermark has passed its end.

use crate::message::{Crowd, CrowdKey};
use floodmark_model::EventTime;
use std::collections::BTreeMap;

/// The counts of the windows that one worker owns.
pub struct Crowds {
    max: u64,
    /// By the end of the window.
    counts: BTreeMap<(EventTime, CrowdKey), Count>,
}

#[derive(Default)]
struct Count {
    panes: u64,
    is_told: bool,
}

impl Crowds {
    /// None yet. More than `max` bugs of a tenant in a window are an incident.
    #[must_use]
    pub fn new(max: u64) -> Self {
        Self { max, counts: BTreeMap::new() }
    }

    /// Takes in what a judge says; gives how many there are when that is one too many for the first time.
    pub fn add(&mut self, crowd: &Crowd) -> Option<u64> {
        let count = self.counts.entry((crowd.window_end, crowd.key)).or_default();
        count.panes += u64::from(crowd.panes);
        let is_loud = crowd.has_refused || count.panes > self.max;
        (is_loud && !std::mem::replace(&mut count.is_told, true)).then_some(count.panes)
    }

    /// Forgets the windows that end at or before this time.
    pub fn forget(&mut self, watermark: EventTime) {
        while let Some(first) = self.counts.first_entry()
            && first.key().0 <= watermark
        {
            first.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TenantId;
    use floodmark_model::rule::RuleIndex;

    fn crowd(tenant: u32, panes: u32, has_refused: bool) -> Crowd {
        let key = CrowdKey { rule: RuleIndex(0), window_start: EventTime(0), tenant: TenantId(tenant) };
        Crowd { key, window_end: EventTime(300), panes, has_refused }
    }

    #[test]
    fn q46_more_than_are_allowed_are_told_of_once_for_each_tenant() {
        let mut crowds = Crowds::new(3);
        assert_eq!(crowds.add(&crowd(1, 2, false)), None);
        assert_eq!(crowds.add(&crowd(2, 3, false)), None, "a neighbour has a count of its own");
        assert_eq!(crowds.add(&crowd(1, 1, false)), None, "as many as are allowed");
        assert_eq!(crowds.add(&crowd(1, 1, false)), Some(4));
        assert_eq!(crowds.add(&crowd(1, 50, true)), None);
    }

    #[test]
    fn q46_a_key_without_a_pane_is_loud_whatever_the_count() {
        let mut crowds = Crowds::new(1_000);
        assert_eq!(crowds.add(&crowd(1, 0, true)), Some(0));
    }

    #[test]
    fn what_has_closed_is_forgotten() {
        let mut crowds = Crowds::new(3);
        crowds.add(&crowd(1, 3, false));
        crowds.forget(EventTime(299));
        assert_eq!(crowds.counts.len(), 1);
        crowds.forget(EventTime(300));
        assert!(crowds.counts.is_empty());
    }
}
