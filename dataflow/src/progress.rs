//! How far each source had read when it left an epoch, and which of those cuts are durable (G-3).

use crate::epoch::Epoch;
use floodmark_model::EventTime;
use floodmark_model::progress::{PartitionKey, PartitionProgress};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a source had read when it left `epoch`: everything before it was sent in that epoch or an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The epoch that was left.
    pub epoch: Epoch,
    /// The partitions that may have changed since the cut before.
    pub partitions: Vec<(PartitionKey, PartitionProgress)>,
}

/// What the operators of one worker share: cuts that wait for the probe, and the merged watermark.
#[derive(Debug, Default)]
pub struct WorkerProgress {
    cuts: RefCell<VecDeque<Cut>>,
    merged: Cell<Option<EventTime>>,
    /// The greatest epoch that the judge had seen with it.
    seen: Cell<Epoch>,
}

impl WorkerProgress {
    /// The merged watermark as this worker's judge knows it.
    #[must_use]
    pub fn merged_watermark(&self) -> Option<EventTime> {
        self.merged.get()
    }

    pub(crate) fn set_merged_watermark(&self, merged: Option<EventTime>, seen: Epoch) {
        self.merged.set(merged);
        self.seen.set(seen);
    }

    /// The merged watermark, and an epoch: every judge that has seen it in whole has this watermark at least.
    pub(crate) fn passed(&self) -> Option<(Epoch, EventTime)> {
        self.merged.get().map(|merged| (self.seen.get(), merged))
    }

    pub(crate) fn push(&self, cut: Cut) {
        if !cut.partitions.is_empty() {
            self.cuts.borrow_mut().push_back(cut);
        }
    }

    /// Takes the cuts whose epoch is durable: everything sent in it, and all that it caused, is acknowledged.
    pub fn take_durable(&self, is_durable: impl Fn(Epoch) -> bool) -> Vec<Cut> {
        let mut cuts = self.cuts.borrow_mut();
        let durable = cuts.iter().take_while(|cut| is_durable(cut.epoch)).count();
        cuts.drain(..durable).collect()
    }
}

/// Events of a process on their way to its judges, at most, and one batch.
pub const EVENTS_IN_FLIGHT_MAX: u64 = 1 << 20;

/// Events of this process on their way to its judges: the bound of the input (design, decision 2).
#[derive(Debug, Default)]
pub struct Flow {
    sent: AtomicU64,
    judged: AtomicU64,
}

impl Flow {
    pub(crate) fn sent(&self, events: usize) {
        self.sent.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn judged(&self, events: usize) {
        self.judged.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn has_room(&self) -> bool {
        let judged = self.judged.load(Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed).saturating_sub(judged) < EVENTS_IN_FLIGHT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::TopicId;
    use floodmark_model::progress::Tallies;

    fn cut(epoch: Epoch) -> Cut {
        let key = PartitionKey { topic_id: TopicId([0; 16]), partition: 0 };
        let progress =
            PartitionProgress { next_offset: epoch as i64 * 10, watermark: EventTime(0), tallies: Tallies::default() };
        Cut { epoch, partitions: vec![(key, progress)] }
    }

    #[test]
    fn g3_a_cut_waits_until_its_epoch_is_durable() {
        let progress = WorkerProgress::default();
        progress.push(cut(3));
        progress.push(cut(5));
        assert!(progress.take_durable(|epoch| epoch < 3).is_empty());
        assert_eq!(progress.take_durable(|epoch| epoch < 5), [cut(3)]);
        assert_eq!(progress.take_durable(|epoch| epoch < 6), [cut(5)]);
    }

    #[test]
    fn the_flow_has_room_until_the_judges_are_too_far_behind() {
        let flow = Flow::default();
        flow.sent(EVENTS_IN_FLIGHT_MAX as usize);
        assert!(!flow.has_room());
        flow.judged(1);
        assert!(flow.has_room());
    }
}
