//! What waits until the occurrence store has acknowledged all that the judge had seen (design, decision 3).

use crate::message::{Closing, WindowKey};
use crate::state::late::LateWindow;
use floodmark_model::EventTime;
use std::collections::{BTreeSet, VecDeque};

/// Closings in groups, each behind the greatest epoch that the judge had seen when it arose.
///
/// # Invariants
///
/// - A group is released only when every epoch up to its own is acknowledged: what is then read from the occurrence
///   store holds every occurrence that the judge had seen.
/// - A group whose windows have keys without panes waits, with all behind it, until those are judged (Q46).
/// - Groups leave in order, and inside one the closed time comes last.
/// - One window of one key stands at most once in a group, however many occurrences touch it.
#[derive(Default)]
pub struct Closings {
    groups: VecDeque<Group>,
}

#[derive(Default)]
struct Group {
    epoch: u64,
    /// The least epoch that must stay open until the group has left.
    since: Option<u64>,
    refresh: BTreeSet<WindowKey>,
    sweeps: BTreeSet<LateWindow>,
    are_swept: bool,
    close: BTreeSet<WindowKey>,
    closed_to: Option<EventTime>,
}

impl Group {
    fn close_late(&mut self, key: WindowKey, since: u64) {
        self.close.insert(key);
        self.since = Some(self.since.map_or(since, |known| known.min(since)));
    }
}

impl Closings {
    /// W-10: an incident's samples are wanted.
    pub fn refresh(&mut self, epoch: u64, key: WindowKey) {
        self.group(epoch).refresh.insert(key);
    }

    /// W-9: the row of this window gets its total.
    pub fn close(&mut self, epoch: u64, key: WindowKey) {
        self.group(epoch).close.insert(key);
    }

    /// W-9: likewise, because of a late occurrence of epoch `since`: it stays open until then.
    pub fn close_late(&mut self, epoch: u64, key: WindowKey, since: u64) {
        self.group(epoch).close_late(key, since);
    }

    /// W-9: likewise, for a row that was judged from the store's answer, whose rows are acknowledged: it leaves with the
    /// group that waits for such answers, if there is one.
    pub fn close_answered(&mut self, epoch: u64, key: WindowKey, since: u64) {
        match self.groups.front_mut() {
            Some(group) if group.are_swept => group.close_late(key, since),
            _ => self.close_late(epoch, key, since),
        }
    }

    /// Q46: keys of this window had no pane.
    pub fn sweep(&mut self, epoch: u64, window: LateWindow) {
        self.group(epoch).sweeps.insert(window);
    }

    /// All that closes up to `time` has been noted.
    pub fn closed_to(&mut self, epoch: u64, time: EventTime) {
        let group = self.group(epoch);
        group.closed_to = group.closed_to.max(Some(time));
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The least epoch that must stay open.
    #[must_use]
    pub fn oldest_epoch(&self) -> Option<u64> {
        self.groups.iter().filter_map(|group| group.since).min()
    }

    /// Takes the windows that the first group waits for, once its epoch is acknowledged.
    pub fn take_sweeps(&mut self, is_acknowledged: impl Fn(u64) -> bool) -> Vec<LateWindow> {
        match self.groups.front_mut() {
            Some(group) if !group.are_swept && is_acknowledged(group.epoch) => {
                group.are_swept = true;
                group.sweeps.iter().copied().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Sends what waits for an epoch that is acknowledged, and for windows that are swept; the closed time apart, with
    /// `closed_to`.
    pub fn release(
        &mut self,
        is_acknowledged: impl Fn(u64) -> bool,
        is_swept: impl Fn(LateWindow) -> bool,
        mut send: impl FnMut(Closing),
    ) -> Option<EventTime> {
        let mut closed_to = None;
        let may_leave = |group: &Group| {
            let is_swept = group.sweeps.is_empty() || (group.are_swept && group.sweeps.iter().all(|w| is_swept(*w)));
            is_acknowledged(group.epoch) && is_swept
        };
        while self.groups.front().is_some_and(may_leave) {
            let group = self.groups.pop_front().expect("there is a front");
            group.refresh.into_iter().map(Closing::Refresh).for_each(&mut send);
            group.close.into_iter().map(Closing::Close).for_each(&mut send);
            closed_to = closed_to.max(group.closed_to);
        }
        closed_to
    }

    fn group(&mut self, epoch: u64) -> &mut Group {
        debug_assert!(self.groups.back().is_none_or(|last| last.epoch <= epoch), "epochs only grow");
        if self.groups.back().is_none_or(|last| last.epoch < epoch || last.are_swept) {
            self.groups.push_back(Group { epoch, ..Group::default() });
        }
        self.groups.back_mut().expect("pushed above")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{PaneKey, TenantId};
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
        closings.closed_to(3, EventTime(9));
        closings.refresh(3, key(1));
        closings.refresh(3, key(1));
        closings.close_late(5, key(2), 4);
        assert_eq!(closings.oldest_epoch(), Some(4));
        let mut sent = Vec::new();
        assert_eq!(closings.release(|epoch| epoch < 3, |_| true, |closing| sent.push(closing)), None);
        assert!(sent.is_empty());
        assert_eq!(closings.release(|epoch| epoch <= 3, |_| true, |closing| sent.push(closing)), Some(EventTime(9)));
        assert_eq!(sent, [Closing::Refresh(key(1))]);
        assert!(!closings.is_empty());
        assert_eq!(closings.release(|_| true, |_| true, |closing| sent.push(closing)), None);
        assert_eq!(sent[1..], [Closing::Close(key(2))]);
        assert!(closings.is_empty() && closings.oldest_epoch().is_none());
    }

    #[test]
    fn q46_a_group_waits_until_its_windows_are_swept() {
        let window = (RuleIndex(0), EventTime(0));
        let mut closings = Closings::default();
        closings.sweep(3, window);
        closings.close(3, key(1));
        assert!(closings.take_sweeps(|_| false).is_empty());
        assert_eq!(closings.release(|_| true, |_| true, |_| panic!("it is not even swept")), None);
        assert_eq!(closings.take_sweeps(|_| true), [window]);
        assert!(closings.take_sweeps(|_| true).is_empty(), "once");
        closings.release(|_| true, |_| false, |_| panic!("it is being swept"));
        closings.close_answered(4, key(1), 2);
        assert_eq!(closings.oldest_epoch(), Some(2), "progress does not pass what is not closed");
        let mut sent = Vec::new();
        closings.release(|_| true, |_| true, |closing| sent.push(closing));
        assert_eq!(sent, [Closing::Close(key(1))]);
    }
}
