//! What waits until the occurrence store has acknowledged all that the judge had seen (design, decision 3).

use crate::message::{Closing, WindowKey};
use std::collections::{BTreeSet, VecDeque};

/// Closings in groups, each behind the greatest epoch that the judge had seen when it arose.
///
/// # Invariants
///
/// - A group is released only when every epoch up to its own is acknowledged: what is then read from the occurrence
///   store holds every occurrence that the judge had seen.
/// - Groups leave in order, and inside one the closed time comes last.
/// - One window of one key stands at most once in a group, however many occurrences touch it.
#[derive(Default)]
pub struct Closings {
    groups: VecDeque<Group>,
}

#[derive(Default)]
struct Group {
    epoch: u64,
    refresh: BTreeSet<WindowKey>,
    late: BTreeSet<WindowKey>,
    rest: Vec<Closing>,
}

impl Closings {
    /// W-10: an incident's samples are wanted.
    pub fn refresh(&mut self, epoch: u64, key: WindowKey) {
        self.group(epoch).refresh.insert(key);
    }

    /// W-9: a late occurrence changes the total of this window.
    pub fn late(&mut self, epoch: u64, key: WindowKey) {
        self.group(epoch).late.insert(key);
    }

    /// A window has closed, or the closed time has moved.
    pub fn push(&mut self, epoch: u64, closing: Closing) {
        self.group(epoch).rest.push(closing);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Sends what waits for an epoch that is acknowledged.
    pub fn release(&mut self, is_acknowledged: impl Fn(u64) -> bool, mut send: impl FnMut(Closing)) {
        while self.groups.front().is_some_and(|group| is_acknowledged(group.epoch)) {
            let group = self.groups.pop_front().expect("there is a front");
            group.refresh.into_iter().map(Closing::Refresh).for_each(&mut send);
            group.late.into_iter().map(Closing::Late).for_each(&mut send);
            group.rest.into_iter().for_each(&mut send);
        }
    }

    fn group(&mut self, epoch: u64) -> &mut Group {
        debug_assert!(self.groups.back().is_none_or(|last| last.epoch <= epoch), "epochs only grow");
        if self.groups.back().is_none_or(|last| last.epoch < epoch) {
            self.groups.push_back(Group { epoch, ..Group::default() });
        }
        self.groups.back_mut().expect("pushed above")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TenantId;
    use crate::state::panes::PaneKey;
    use floodmark_model::rule::RuleIndex;
    use floodmark_model::{EventTime, Fingerprint};

    fn key(n: u128) -> WindowKey {
        WindowKey {
            rule: RuleIndex(0),
            window_start: EventTime(0),
            pane: PaneKey { fingerprint: Fingerprint::from_bits(n), tenant: TenantId(0) },
        }
    }

    #[test]
    fn a_group_waits_for_its_epoch_and_groups_leave_in_order() {
        let mut closings = Closings::default();
        closings.push(3, Closing::ClosedTo { worker: 0, time: EventTime(9) });
        closings.refresh(3, key(1));
        closings.refresh(3, key(1));
        closings.late(5, key(2));
        let mut sent = Vec::new();
        closings.release(|epoch| epoch < 3, |closing| sent.push(closing));
        assert!(sent.is_empty());
        closings.release(|epoch| epoch <= 3, |closing| sent.push(closing));
        assert_eq!(sent, [Closing::Refresh(key(1)), Closing::ClosedTo { worker: 0, time: EventTime(9) }]);
        assert!(!closings.is_empty());
        closings.release(|_| true, |closing| sent.push(closing));
        assert_eq!(sent[2..], [Closing::Late(key(2))]);
        assert!(closings.is_empty());
    }
}
