//! When an input that ends has ended: all of it is read and durable, and what that closed is stored.

use crate::pipeline::Epoch;
use crate::pipeline::stop::{Ending, Stop};
use floodmark_model::progress::{PartitionKey, Progress};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last batch leaves in one epoch, the watermark that it brings in the next, and with that what it closes.
const EPOCHS_AFTER: Epoch = 2;

/// Ends a pipeline once its input has ended.
pub struct EndOfInput {
    stop: Stop,
    state: Mutex<State>,
}

struct State {
    /// Partitions that are still being read.
    reading: usize,
    /// Those that are read to their end and not durable up to it, with their end.
    ends: BTreeMap<PartitionKey, i64>,
    /// The epoch in which all was durable.
    durable_at: Option<Epoch>,
}

impl EndOfInput {
    /// For this many partitions.
    #[must_use]
    pub fn new(partitions: usize, stop: Stop) -> Self {
        Self { stop, state: Mutex::new(State { reading: partitions, ends: BTreeMap::new(), durable_at: None }) }
    }

    /// A partition was read to its end; its last batch is on its way.
    pub fn reached(&self, key: PartitionKey, next_offset: i64) {
        let mut state = self.state();
        state.reading -= 1;
        state.ends.insert(key, next_offset);
    }

    /// Progress was committed: all of `epoch` is durable.
    pub fn committed(&self, progress: &Progress, epoch: Epoch) {
        let mut state = self.state();
        state.ends.retain(|key, end| progress.partitions.get(key).is_none_or(|now| now.next_offset < *end));
        if state.reading > 0 || !state.ends.is_empty() {
            return;
        }
        let durable_at = *state.durable_at.get_or_insert(epoch);
        if epoch >= durable_at + EPOCHS_AFTER {
            self.stop.end(Ending::Finished);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::progress::{PartitionProgress, Tallies};
    use floodmark_model::{EventTime, TopicId};

    #[test]
    fn the_end_is_when_all_is_durable_and_what_it_closed_as_well() {
        let stop = Stop::default();
        let end = EndOfInput::new(2, stop.clone());
        let key = |partition| PartitionKey { topic_id: TopicId([0; 16]), partition };
        let commit = |partition: i32, next_offset: i64, epoch: Epoch| {
            let at = PartitionProgress { next_offset, watermark: EventTime(0), tallies: Tallies::default() };
            end.committed(&Progress { partitions: [(key(partition), at)].into(), ..Progress::default() }, epoch);
            stop.is_stopped()
        };
        end.reached(key(0), 10);
        assert!(!commit(0, 10, 5), "the other one is still being read");
        end.reached(key(1), 20);
        assert!(!commit(1, 19, 6));
        assert!(!commit(1, 20, 7));
        assert!(!commit(0, 10, 8));
        assert!(commit(0, 10, 9));
        assert!(matches!(stop.take_ending(), Some(Ending::Finished)));
    }
}
