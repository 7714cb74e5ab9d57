//! The bound of rows in memory: a reading thread waits until the occurrence store has acknowledged enough (design,
//! decision 2: records sent minus records acknowledged, never the frontier).

use floodmark_dataflow::egress::Weighty;
use floodmark_sinks::rows::RowBlock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes of encoded rows that may be under way.
pub struct Budget {
    max: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    /// A budget of `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: Mutex::new(0), freed: Condvar::new() })
    }

    /// Waits until the block fits, and takes its bytes until it is dropped. A block larger than the whole budget fits
    /// when nothing else is under way.
    pub fn admit(self: &Arc<Self>, block: RowBlock) -> Admitted {
        let bytes = block.bytes();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && *used + bytes > self.max {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        Admitted { block, bytes, budget: Arc::clone(self) }
    }

    /// Whether so little is under way that who may wait may add to it: others then have room at once.
    #[must_use]
    pub fn has_room_to_spare(&self) -> bool {
        self.used() < self.max / 2
    }

    /// Bytes under way.
    #[must_use]
    pub fn used(&self) -> usize {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block of rows that is accounted for until it is dropped, which is when it is stored.
pub struct Admitted {
    /// The rows.
    pub block: RowBlock,
    bytes: usize,
    budget: Arc<Budget>,
}

impl Weighty for Admitted {
    fn weight(&self) -> usize {
        self.bytes
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::{Coordinates, DeadLetter, DeadReason, RecordTime, TopicId};

    /// A block of exactly this many bytes, from a hundred on; up to 150 the length of its one string takes a byte.
    fn block(bytes: usize) -> RowBlock {
        let of = |raw: usize| {
            let mut block = RowBlock::default();
            block.push_dead_letter(&DeadLetter {
                at: Coordinates { topic_id: TopicId([0; 16]), partition: 0, offset: 0 },
                record_time: RecordTime(0),
                reason: DeadReason::MalformedJson,
                detail: "".into(),
                raw: &vec![b'x'; raw],
            });
            block
        };
        let least = of(1).bytes();
        let block = of(1 + bytes.checked_sub(least).expect("at least a hundred bytes"));
        assert_eq!(block.bytes(), bytes);
        block
    }

    #[test]
    fn a_block_waits_until_enough_is_stored() {
        let budget = Budget::new(150);
        let first = budget.admit(block(100));
        let waiting = Arc::clone(&budget);
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let second = waiting.admit(block(110));
            sender.send(waiting.used()).unwrap();
            drop(second);
        });
        assert!(receiver.try_recv().is_err());
        drop(first);
        assert_eq!(receiver.recv().unwrap(), 110, "admitted when the first was stored, and not before");
        thread.join().unwrap();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_block_larger_than_the_budget_is_admitted_alone() {
        let budget = Budget::new(10);
        assert_eq!(budget.admit(block(120)).weight(), 120);
    }
}
