//! How far the log is durable: progress as a type (G-2, G-3).

use crate::{EventTime, TopicId};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What became of the records of a partition, cumulative since its first. Their sum is the number of records read,
/// at every commit (G-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Stored as occurrences.
    pub stored: u64,
    /// Client retries (I-2).
    pub retried: u64,
    /// Matched by no rule.
    pub unmatched: u64,
    /// Dead letters.
    pub dead: u64,
    /// Those of `stored` that no other record can be a copy of: read live, without a client's id, so that their identity
    /// is their place in the log. Each has a row of its own. Fewer than there are in a partition that was begun before
    /// this was tallied.
    pub unique: u64,
}

impl Tallies {
    /// Records read.
    #[must_use]
    pub fn read(self) -> u64 {
        self.stored + self.retried + self.unmatched + self.dead
    }
}

impl AddAssign for Tallies {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.retried += other.retried;
        self.unmatched += other.unmatched;
        self.dead += other.dead;
        self.unique += other.unique;
    }
}

/// A partition of one incarnation of a topic, or a file (partition 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    /// Topic id or file id.
    pub topic_id: TopicId,
    /// Partition.
    pub partition: i32,
}

/// How far one partition is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionProgress {
    /// Every record below this offset is durable, with all that it caused.
    pub next_offset: i64,
    /// The partition's watermark (T-3), or the merged one where it was idle (T-6); [`EventTime::MAX`] for a partition
    /// of the backfill topic, which never holds and never moves the merged one (design, decision 13).
    pub watermark: EventTime,
    /// What became of the records below `next_offset`.
    pub tallies: Tallies,
}

impl PartitionProgress {
    /// Whether it is a partition of the backfill topic.
    #[must_use]
    pub fn is_backfill(&self) -> bool {
        self.watermark == EventTime::MAX
    }
}

/// What a commit writes, and what a start reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// By partition; [`PartitionProgress::watermark`] never goes back.
    pub partitions: BTreeMap<PartitionKey, PartitionProgress>,
    /// The time up to which all that closing writes is stored (design, decision 6).
    pub closed: Option<EventTime>,
    /// Hash of all settings that identity or sort key depend on (design, decision 5).
    pub settings_hash: u128,
}

impl Progress {
    /// Whether the record at this place is durable: what a start reads from the occurrence store is cut here.
    #[must_use]
    pub fn covers(&self, key: PartitionKey, offset: i64) -> bool {
        self.partitions.get(&key).is_some_and(|partition| offset < partition.next_offset)
    }

    /// T-6: where the merged watermark begins: the least over the partitions, but never below the closed one.
    #[must_use]
    pub fn watermark(&self) -> Option<EventTime> {
        let live = self.partitions.values().filter(|partition| !partition.is_backfill());
        // A partition without a record knows of no time.
        let least = live.map(|partition| partition.watermark).min().filter(|least| *least > EventTime::MIN);
        least.max(self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition: i32) -> PartitionKey {
        PartitionKey { topic_id: TopicId([1; 16]), partition }
    }

    fn at(next_offset: i64, watermark: i64) -> PartitionProgress {
        PartitionProgress { next_offset, watermark: EventTime(watermark), tallies: Tallies::default() }
    }

    #[test]
    fn t6_the_watermark_begins_at_the_least_but_never_below_the_closed_one() {
        let mut progress = Progress::default();
        assert_eq!(progress.watermark(), None);
        progress.partitions.insert(key(0), at(5, 700));
        progress.partitions.insert(key(1), at(9, 300));
        assert_eq!(progress.watermark(), Some(EventTime(300)));
        progress.closed = Some(EventTime(400));
        assert_eq!(progress.watermark(), Some(EventTime(400)));
        progress.partitions.insert(key(2), at(0, EventTime::MIN.0));
        assert_eq!(progress.watermark(), Some(EventTime(400)));
        progress.closed = None;
        assert_eq!(progress.watermark(), None, "nothing is known of partition 2");
    }

    #[test]
    fn decision_13_partitions_of_the_backfill_topic_say_nothing_of_the_watermark() {
        let mut progress = Progress::default();
        progress.partitions.insert(key(0), at(5, EventTime::MAX.0));
        assert_eq!(progress.watermark(), None);
        progress.partitions.insert(key(1), at(9, 300));
        assert_eq!(progress.watermark(), Some(EventTime(300)));
    }

    #[test]
    fn progress_covers_what_lies_below_the_next_offset() {
        let mut progress = Progress::default();
        progress.partitions.insert(key(0), at(5, 0));
        assert!(progress.covers(key(0), 4));
        assert!(!progress.covers(key(0), 5));
        assert!(!progress.covers(key(1), 0));
    }
}
