//! When an input that ends has ended: all of it is read and durable, and what its watermark closes is stored.

use crate::pipeline::Epoch;
use crate::pipeline::stop::{Ending, Stop};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::{EventTime, Window};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last batch leaves in one epoch, and the watermark that it brings in the next.
const EPOCHS_AFTER: Epoch = 2;

/// Ends a pipeline once its input has ended.
pub struct EndOfInput {
    stop: Stop,
    /// Length of each rule's windows.
    windows_ms: Vec<i64>,
    state: Mutex<State>,
}

struct State {
    /// Partitions that are still being read.
    reading: usize,
    /// Where those end that are read to their end.
    ends: BTreeMap<PartitionKey, i64>,
    /// What is committed.
    committed: Progress,
    /// The epoch in which all was durable.
    durable_at: Option<Epoch>,
}

impl EndOfInput {
    /// For this many partitions, and rules whose windows have these lengths.
    #[must_use]
    pub fn new(partitions: usize, windows_ms: Vec<i64>, stop: Stop) -> Self {
        let state =
            State { reading: partitions, ends: BTreeMap::new(), committed: Progress::default(), durable_at: None };
        Self { stop, windows_ms, state: Mutex::new(state) }
    }

    /// What was committed before.
    pub fn starts_from(&self, progress: &Progress) {
        self.state().committed = progress.clone();
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
        state.committed.closed = state.committed.closed.max(progress.closed);
        state.committed.partitions.extend(&progress.partitions);
        let next_offset = |key| state.committed.partitions.get(key).map_or(i64::MIN, |partition| partition.next_offset);
        if state.reading > 0 || state.ends.iter().any(|(key, end)| next_offset(key) < *end) {
            return;
        }
        let durable_at = *state.durable_at.get_or_insert(epoch);
        if epoch >= durable_at + EPOCHS_AFTER && self.is_closed(&state) {
            self.stop.end(Ending::Finished);
        }
    }

    /// Whether the closing of every window that ends at or before the watermark is stored. The partitions are finished,
    /// so each one's watermark is the merged one (T-6).
    fn is_closed(&self, state: &State) -> bool {
        let watermark = state.ends.keys().filter_map(|key| state.committed.partitions.get(key)).map(|at| at.watermark);
        let Some(watermark) = watermark.min().filter(|least| *least > EventTime::MIN) else { return true };
        let Some(closed) = state.committed.closed else { return false };
        let in_one_window =
            |size_ms: &i64| Window::containing(closed, *size_ms) == Window::containing(watermark, *size_ms);
        closed >= watermark || self.windows_ms.iter().all(in_one_window)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::TopicId;
    use floodmark_model::progress::{PartitionProgress, Tallies};

    fn key(partition: i32) -> PartitionKey {
        PartitionKey { topic_id: TopicId([0; 16]), partition }
    }

    fn progress(partition: i32, next_offset: i64, watermark: i64, closed: Option<i64>) -> Progress {
        let at = PartitionProgress { next_offset, watermark: EventTime(watermark), tallies: Tallies::default() };
        let closed = closed.map(EventTime);
        Progress { partitions: [(key(partition), at)].into(), closed, ..Progress::default() }
    }

    #[test]
    fn the_end_is_when_all_is_durable() {
        let stop = Stop::default();
        let end = EndOfInput::new(2, vec![100], stop.clone());
        let commit = |partition: i32, next_offset: i64, epoch: Epoch| {
            end.committed(&progress(partition, next_offset, 50, Some(50)), epoch);
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

    #[test]
    fn the_end_waits_for_what_the_watermark_closes() {
        let stop = Stop::default();
        let end = EndOfInput::new(1, vec![100, 1_000], stop.clone());
        end.starts_from(&progress(0, 3, 90, Some(90)));
        end.reached(key(0), 10);
        let commit = |watermark: i64, closed: Option<i64>, epoch: Epoch| {
            end.committed(&progress(0, 10, watermark, closed), epoch);
            stop.is_stopped()
        };
        assert!(!commit(250, None, 5));
        assert!(!commit(250, None, 50), "[0, 100) and [100, 200) have not been closed");
        assert!(!commit(250, Some(190), 51));
        assert!(commit(250, Some(210), 52), "no window ends between 210 and 250");
    }
}
