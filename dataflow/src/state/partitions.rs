//! The partitions of one source: their watermarks (T-3, T-4), and how far they have been read.

use crate::message::{PartitionUpdate, Reading, SourceWatermark};
use floodmark_model::EventTime;
use floodmark_model::progress::{PartitionKey, PartitionProgress};
use std::collections::{BTreeMap, BTreeSet};

/// The partitions of one source.
///
/// # Invariants
///
/// - A partition's watermark never goes back, and survives a restart (T-6).
/// - A partition that is read aside counts for nothing but its progress.
/// - A partition that is active and has neither a stored watermark nor a record holds the merged watermark.
pub struct Partitions {
    lateness_ms: i64,
    known: BTreeMap<PartitionKey, Partition>,
    changed: BTreeSet<PartitionKey>,
}

struct Partition {
    update: PartitionUpdate,
    watermark: Option<EventTime>,
}

impl Partition {
    fn is_idle(&self, now_ms: i64) -> bool {
        matches!(self.update.reading, Reading::IdleUntil(until_ms) if now_ms < until_ms)
    }

    fn is_aside(&self) -> bool {
        self.update.reading == Reading::Aside
    }

    /// What is committed for it.
    fn durable_watermark(&self, merged: Option<EventTime>, now_ms: i64) -> EventTime {
        if self.is_aside() {
            return EventTime::MAX;
        }
        let watermark = if self.is_idle(now_ms) { self.watermark.max(merged) } else { self.watermark };
        watermark.unwrap_or(EventTime::MIN)
    }
}

impl Partitions {
    /// No partitions yet. `lateness_ms` is how far a watermark stays behind the greatest event time.
    #[must_use]
    pub fn new(lateness_ms: i64) -> Self {
        Self { lateness_ms, known: BTreeMap::new(), changed: BTreeSet::new() }
    }

    /// Takes a partition on, with the watermark that is stored for it.
    pub fn assign(&mut self, update: PartitionUpdate, stored: Option<EventTime>) {
        self.known.insert(update.key, Partition { update, watermark: stored });
        self.update(update);
    }

    /// Takes in what a batch says of a partition.
    pub fn update(&mut self, update: PartitionUpdate) {
        let partition = self.known.entry(update.key).or_insert(Partition { update, watermark: None });
        partition.update = update;
        let reached = update.greatest.map(|greatest| greatest.minus(self.lateness_ms));
        partition.watermark = partition.watermark.max(reached);
        self.changed.insert(update.key);
    }

    /// What the source says with its next control record.
    #[must_use]
    pub fn watermark(&self, now_ms: i64) -> SourceWatermark {
        let active = self.known.values().filter(|partition| !partition.is_idle(now_ms) && !partition.is_aside());
        let mut least = None;
        for partition in active {
            match partition.watermark {
                None => return SourceWatermark::Holding,
                Some(watermark) => least = Some(least.map_or(watermark, |least: EventTime| least.min(watermark))),
            }
        }
        match least {
            Some(least) => SourceWatermark::At(least),
            None => self.finished().map_or(SourceWatermark::Idle, SourceWatermark::Finished),
        }
    }

    /// The greatest watermark, once every partition is read to its end for good.
    fn finished(&self) -> Option<EventTime> {
        let live = || self.known.values().filter(|partition| !partition.is_aside());
        let all = live().all(|partition| partition.update.reading == Reading::FINISHED);
        all.then(|| live().filter_map(|partition| partition.watermark).max()).flatten()
    }

    /// How far the partitions that changed since the last call have been read. An idle partition's watermark is the
    /// merged one as it stands now (T-6): what comes later is judged with that or a later one.
    pub fn take_progress(&mut self, merged: Option<EventTime>, now_ms: i64) -> Vec<(PartitionKey, PartitionProgress)> {
        let idle = self.known.values().filter(|partition| partition.is_idle(now_ms));
        self.changed.extend(idle.map(|partition| partition.update.key));
        std::mem::take(&mut self.changed)
            .into_iter()
            .map(|key| {
                let partition = &self.known[&key];
                let progress = PartitionProgress {
                    next_offset: partition.update.next_offset,
                    watermark: partition.durable_watermark(merged, now_ms),
                    tallies: partition.update.tallies,
                };
                (key, progress)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::TopicId;
    use floodmark_model::progress::Tallies;

    const IDLE: Reading = Reading::IdleUntil(1);

    fn update(partition: i32, greatest: Option<i64>, reading: Reading) -> PartitionUpdate {
        PartitionUpdate {
            key: PartitionKey { topic_id: TopicId([0; 16]), partition },
            next_offset: greatest.unwrap_or(0),
            greatest: greatest.map(EventTime),
            reading,
            tallies: Tallies::default(),
        }
    }

    #[test]
    fn t3_a_watermark_is_the_greatest_event_time_minus_lateness() {
        let mut partitions = Partitions::new(60);
        partitions.assign(update(0, Some(1_000), Reading::Active), None);
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(940)));
        partitions.update(update(0, Some(900), Reading::Active));
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(940)), "never back");
    }

    #[test]
    fn t4_idle_partitions_do_not_hold_and_unread_ones_do() {
        let mut partitions = Partitions::new(0);
        assert_eq!(partitions.watermark(0), SourceWatermark::Idle, "no partition at all");
        partitions.assign(update(0, Some(1_000), Reading::Active), None);
        partitions.assign(update(1, None, IDLE), None);
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(1_000)));
        partitions.assign(update(2, None, Reading::Active), None);
        assert_eq!(partitions.watermark(0), SourceWatermark::Holding);
        partitions.update(update(2, Some(70), Reading::Active));
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(70)));
        partitions.update(update(2, Some(70), IDLE));
        partitions.update(update(0, Some(1_000), IDLE));
        assert_eq!(partitions.watermark(0), SourceWatermark::Idle);
    }

    #[test]
    fn q53_finished_partitions_say_how_far_they_came() {
        let mut partitions = Partitions::new(0);
        partitions.assign(update(0, Some(1_000), Reading::FINISHED), None);
        partitions.assign(update(1, Some(2_000), Reading::Active), None);
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(2_000)));
        partitions.update(update(1, Some(1_500), Reading::FINISHED));
        assert_eq!(partitions.watermark(0), SourceWatermark::Finished(EventTime(2_000)));
        partitions.update(update(1, Some(2_000), IDLE));
        assert_eq!(partitions.watermark(0), SourceWatermark::Idle);
    }

    #[test]
    fn decision_13_a_partition_aside_neither_holds_nor_moves_the_watermark() {
        let mut partitions = Partitions::new(0);
        partitions.assign(update(7, None, Reading::Aside), Some(EventTime::MAX));
        assert_eq!(partitions.watermark(0), SourceWatermark::Idle, "also when there is no other");
        partitions.update(update(7, Some(9_000), Reading::Aside));
        assert_eq!(partitions.watermark(0), SourceWatermark::Idle);
        partitions.assign(update(0, Some(1_000), Reading::Active), None);
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(1_000)));
        partitions.update(update(0, Some(1_000), Reading::FINISHED));
        assert_eq!(partitions.watermark(0), SourceWatermark::Finished(EventTime(1_000)));
        let cut = partitions.take_progress(Some(EventTime(5_000)), 0);
        let watermarks: Vec<_> = cut.iter().map(|(key, progress)| (key.partition, progress.watermark)).collect();
        assert_eq!(watermarks, [(0, EventTime(5_000)), (7, EventTime::MAX)]);
        assert_eq!(partitions.take_progress(None, 0).len(), 1, "it is committed when it has changed");
    }

    #[test]
    fn t4_a_claim_to_be_idle_runs_out() {
        let mut partitions = Partitions::new(0);
        partitions.assign(update(0, Some(70), Reading::IdleUntil(1_000)), None);
        assert_eq!(partitions.watermark(999), SourceWatermark::Idle);
        assert_eq!(partitions.watermark(1_000), SourceWatermark::At(EventTime(70)));
    }

    #[test]
    fn t6_a_stored_watermark_counts_until_a_record_moves_it() {
        let mut partitions = Partitions::new(0);
        partitions.assign(update(0, None, Reading::Active), Some(EventTime(500)));
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(500)));
        partitions.update(update(0, Some(400), Reading::Active));
        assert_eq!(partitions.watermark(0), SourceWatermark::At(EventTime(500)));
    }

    #[test]
    fn t6_a_cut_gives_an_idle_partition_the_merged_watermark() {
        let mut partitions = Partitions::new(0);
        partitions.assign(update(0, Some(100), Reading::Active), None);
        partitions.assign(update(1, Some(50), IDLE), None);
        let cut = partitions.take_progress(Some(EventTime(90)), 0);
        let watermarks: Vec<_> = cut.iter().map(|(_, progress)| progress.watermark.0).collect();
        assert_eq!(watermarks, [100, 90]);
        let next: Vec<_> =
            partitions.take_progress(Some(EventTime(95)), 0).iter().map(|(key, _)| key.partition).collect();
        assert_eq!(next, [1], "only what may have changed");
    }
}
