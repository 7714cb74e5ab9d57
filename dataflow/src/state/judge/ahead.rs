//! Looking ahead: what the next events will look at is fetched while this one is counted.

use super::Judge;
use crate::message::Event;

/// Events that are looked ahead at.
pub const AHEAD: usize = u32::BITS as usize;

impl Judge {
    /// Has at hand what is looked at for the next [`AHEAD`] events: their panes, or where there is none yet those of the
    /// window before. Step by step for all of them, so that the loads of memory overlap.
    pub fn look_ahead<'a>(&self, events: impl Iterator<Item = &'a Event>) {
        let mut wanted = [(0, 0); AHEAD];
        let mut count = 0;
        for (event, wanted) in events.zip(&mut wanted) {
            *wanted = (usize::from(event.rule.0), event.key().hash(self.seed));
            if let (Some(panes), _) = self.rules[wanted.0].recent() {
                panes.prefetch_entry(wanted.1);
            }
            count += 1;
        }
        let mut missing = 0u32;
        for (n, &(rule, hash)) in wanted[..count].iter().enumerate() {
            let (panes, before) = self.rules[rule].recent();
            if !panes.is_some_and(|panes| panes.prefetch_pane(hash))
                && let Some(before) = before
            {
                missing |= 1 << n;
                before.prefetch_entry(hash);
            }
        }
        for (n, &(rule, hash)) in wanted[..count].iter().enumerate() {
            if missing & 1 << n != 0
                && let (_, Some(before)) = self.rules[rule].recent()
            {
                before.prefetch_pane(hash);
            }
        }
    }
}
