//! Progress: what is durable is written down, and never more (G-3, design decisions 6 and 7).

use crate::metrics::Metrics;
use crate::pipeline::persist::{Ended, Persist};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use floodmark_dataflow::epoch::{EPOCH_MS, Epoch};
use floodmark_dataflow::progress::Cut;
use floodmark_model::EventTime;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_sinks::{Generation, IncidentStore};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// What the committer is told.
#[derive(Debug)]
pub enum ToCommit {
    /// Cuts of a worker that have become durable.
    Cuts(Vec<Cut>),
    /// All closing of a worker up to this time is stored.
    Closed {
        /// Index of the worker.
        worker: u32,
        /// The time.
        time: EventTime,
    },
}

/// Until when the log is known to be the same one (decision 7): a cut is committed only when everything in it was read
/// before this time.
#[derive(Debug)]
pub struct SameLog(AtomicI64);

impl SameLog {
    /// A log that cannot be replaced, such as a file.
    #[must_use]
    pub fn always() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(i64::MAX)))
    }

    /// A log of which nothing is known yet.
    #[must_use]
    pub fn unknown() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(i64::MIN)))
    }

    /// The log was still the same one when it was asked at `asked_ms`.
    pub fn confirm(&self, asked_ms: i64) {
        self.0.fetch_max(asked_ms, Ordering::Relaxed);
    }

    fn covers(&self, cut: &Cut) -> bool {
        let left_ms = i64::try_from(cut.epoch + 1).unwrap_or(i64::MAX).saturating_mul(EPOCH_MS);
        left_ms <= self.0.load(Ordering::Relaxed)
    }
}

/// Collects cuts and closed times until they are written.
#[derive(Debug)]
pub struct Pending {
    waiting: VecDeque<Cut>,
    ready: Progress,
    closed_by_worker: Vec<Option<EventTime>>,
    /// The latest epoch of which a cut was taken.
    epoch: Epoch,
    /// What is stored.
    stored: Progress,
}

impl Pending {
    /// For this many workers, from what is stored.
    #[must_use]
    pub fn new(workers: usize, stored: &Progress) -> Self {
        Self {
            waiting: VecDeque::new(),
            ready: Progress { settings_hash: stored.settings_hash, ..Progress::default() },
            closed_by_worker: vec![None; workers],
            epoch: 0,
            stored: stored.clone(),
        }
    }

    /// Takes in what has become durable.
    pub fn add(&mut self, to_commit: ToCommit) {
        match to_commit {
            ToCommit::Cuts(cuts) => self.waiting.extend(cuts),
            ToCommit::Closed { worker, time } => {
                let closed = &mut self.closed_by_worker[worker as usize];
                *closed = (*closed).max(Some(time));
                // The least over the workers, once each has closed something.
                if let Some(least) = self.closed_by_worker.iter().copied().min().flatten() {
                    self.ready.closed = self.ready.closed.max(Some(least));
                }
            }
        }
    }

    /// What can be written now; `None` when there is nothing.
    pub fn take(&mut self, same_log: &SameLog) -> Option<Progress> {
        // Workers' cuts are interleaved: each partition's own are in order.
        let (ready, waiting): (VecDeque<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|cut| same_log.covers(cut));
        self.waiting = waiting;
        for cut in ready {
            self.epoch = self.epoch.max(cut.epoch);
            cut.partitions.into_iter().for_each(|(key, progress)| self.merge(key, progress));
        }
        if self.ready.partitions.is_empty() && self.ready.closed.is_none() {
            return None;
        }
        let next = Progress { settings_hash: self.ready.settings_hash, ..Progress::default() };
        Some(std::mem::replace(&mut self.ready, next))
    }

    fn merge(&mut self, key: PartitionKey, progress: PartitionProgress) {
        self.ready
            .partitions
            .entry(key)
            .and_modify(|known| {
                if progress.next_offset >= known.next_offset {
                    *known = PartitionProgress { watermark: progress.watermark.max(known.watermark), ..progress };
                }
            })
            .or_insert(progress);
    }

    /// Whether storing this would change anything: idle partitions say the same in every epoch.
    fn is_news(&self, progress: &Progress) -> bool {
        progress.closed > self.stored.closed
            || progress.partitions.iter().any(|(key, progress)| self.stored.partitions.get(key) != Some(progress))
    }

    /// Notes what has been stored, and counts in metrics what that has added.
    fn committed(&mut self, progress: &Progress, metrics: &Metrics, now_ms: i64) {
        self.stored.closed = self.stored.closed.max(progress.closed);
        for (key, progress) in &progress.partitions {
            let before = self.stored.partitions.insert(*key, *progress).map_or(Tallies::default(), |p| p.tallies);
            let now = progress.tallies;
            metrics.tallied(Tallies {
                stored: now.stored.saturating_sub(before.stored),
                retried: now.retried.saturating_sub(before.retried),
                unmatched: now.unmatched.saturating_sub(before.unmatched),
                dead: now.dead.saturating_sub(before.dead),
                unique: now.unique.saturating_sub(before.unique),
            });
            metrics.partition_committed(key.partition, progress, now_ms);
        }
    }
}

/// How often progress is written at the most.
const COMMIT_EVERY: Duration = Duration::from_millis(EPOCH_MS as u64);

/// Writes progress for one pipeline.
pub struct Committer<I> {
    /// Where it is written.
    pub incidents: Arc<I>,
    /// This process's generation.
    pub generation: Generation,
    /// What may be written.
    pub same_log: Arc<SameLog>,
    /// How the store is called.
    pub persist: Persist,
}

impl<I: IncidentStore> Committer<I> {
    /// Writes until the channel or the pipeline ends. Tells `committed` what is durable, with the latest epoch of which
    /// all is.
    pub async fn run(
        &self,
        mut pending: Pending,
        channel: Receiver<ToCommit>,
        now_ms: impl Fn() -> i64,
        mut committed: impl FnMut(&Progress, Epoch),
    ) {
        loop {
            match channel.recv_timeout(COMMIT_EVERY) {
                Ok(first) => {
                    pending.add(first);
                    channel.try_iter().for_each(|next| pending.add(next));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let Some(progress) = pending.take(&self.same_log) else { continue };
            if pending.is_news(&progress) && self.write(&progress).await.is_err() {
                return;
            }
            pending.committed(&progress, &self.persist.metrics, now_ms());
            committed(&progress, pending.epoch);
        }
    }

    async fn write(&self, progress: &Progress) -> Result<(), Ended> {
        let write = async || self.incidents.commit(self.generation, progress).await;
        self.persist.until_stored(self.incidents.name(), "commit progress", write).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::TopicId;

    fn cut(epoch: u64, partition: i32, next_offset: i64) -> Cut {
        let key = PartitionKey { topic_id: TopicId([0; 16]), partition };
        let progress =
            PartitionProgress { next_offset, watermark: EventTime(next_offset), tallies: Tallies::default() };
        Cut { epoch, partitions: vec![(key, progress)] }
    }

    fn offsets(progress: &Progress) -> Vec<i64> {
        progress.partitions.values().map(|partition| partition.next_offset).collect()
    }

    #[test]
    fn cuts_of_a_partition_become_its_latest() {
        let mut pending = Pending::new(2, &Progress::default());
        pending.add(ToCommit::Cuts(vec![cut(1, 0, 10), cut(2, 0, 20)]));
        pending.add(ToCommit::Cuts(vec![cut(1, 1, 5)]));
        let progress = pending.take(&SameLog::always()).expect("something");
        assert_eq!(offsets(&progress), [20, 5]);
        assert_eq!(pending.take(&SameLog::always()), None);
    }

    #[test]
    fn what_is_stored_is_not_written_again() {
        let mut pending = Pending::new(1, &Progress::default());
        let mut next = |next_offset| {
            pending.add(ToCommit::Cuts(vec![cut(1, 0, next_offset)]));
            let progress = pending.take(&SameLog::always()).expect("a cut");
            let is_news = pending.is_news(&progress);
            pending.committed(&progress, &Metrics::default(), 0);
            is_news
        };
        assert_eq!([next(10), next(10), next(11)], [true, false, true]);
    }

    #[test]
    fn decision_7_a_cut_waits_until_the_log_is_known_to_have_been_the_same() {
        let same_log = SameLog::unknown();
        let mut pending = Pending::new(1, &Progress::default());
        pending.add(ToCommit::Cuts(vec![cut(9, 0, 10), cut(10, 0, 20)]));
        assert_eq!(pending.take(&same_log), None);
        same_log.confirm(1_000);
        assert_eq!(offsets(&pending.take(&same_log).expect("epoch 9 ended at 1000 ms")), [10]);
        same_log.confirm(1_100);
        assert_eq!(offsets(&pending.take(&same_log).expect("epoch 10")), [20]);
    }

    #[test]
    fn the_closed_time_is_the_least_over_the_workers() {
        let mut pending = Pending::new(2, &Progress::default());
        pending.add(ToCommit::Closed { worker: 0, time: EventTime(500) });
        assert_eq!(pending.take(&SameLog::always()), None, "worker 1 has closed nothing");
        pending.add(ToCommit::Closed { worker: 1, time: EventTime(300) });
        assert_eq!(pending.take(&SameLog::always()).expect("closed").closed, Some(EventTime(300)));
        pending.add(ToCommit::Closed { worker: 1, time: EventTime(900) });
        assert_eq!(pending.take(&SameLog::always()).expect("closed").closed, Some(EventTime(500)));
    }
}
