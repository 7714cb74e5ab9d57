//! Where reading a partition begins, and whether the log still holds that place.

use crate::{KafkaError, Topics};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Where one partition begins to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Partition.
    pub partition: i32,
    /// The first offset to read.
    pub next_offset: i64,
    /// T-4: the partition holds no record, so it starts idle.
    pub is_empty: bool,
    /// The wanted place is gone, and `next_offset` is where reading can go on. Only a human may accept that.
    pub lost: Option<LostRange>,
}

/// Records that the log no longer holds, though they were not read yet, or that were read and are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// Topic.
    pub topic: Arc<str>,
    /// Partition.
    pub partition: i32,
    /// The offset that was to be read next.
    pub wanted: i64,
    /// The first offset that the log holds.
    pub low: i64,
    /// The offset that the next record will get.
    pub high: i64,
}

impl LostRange {
    /// The offsets that are lost: below the log's start (retention, deleted records), or beyond its end (a truncated
    /// log; those records were read, and others will take their offsets).
    #[must_use]
    pub fn offsets(&self) -> Range<i64> {
        if self.wanted < self.low { self.wanted..self.low } else { self.high..self.wanted }
    }

    /// Where reading goes on once the loss is accepted: the log's start, or its end when that fell back.
    #[must_use]
    pub fn resume_at(&self) -> i64 {
        self.wanted.clamp(self.low, self.high.max(self.low))
    }
}

impl fmt::Display for LostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.offsets();
        write!(
            f,
            "kafka: topic `{}`, partition {}: records {start} to {} are lost: the next one to read is {}, but the log \
             now holds {} to {}",
            self.topic,
            self.partition,
            end - 1,
            self.wanted,
            self.low,
            self.high - 1,
        )
    }
}

impl Start {
    /// Decides where to begin in a log that holds the offsets `low..high`; without `wanted` at its beginning.
    #[must_use]
    pub fn decide(topic: &Arc<str>, partition: i32, wanted: Option<i64>, low: i64, high: i64) -> Self {
        let wanted = wanted.unwrap_or(low);
        let lost = (wanted < low || wanted > high).then(|| LostRange {
            topic: Arc::clone(topic),
            partition,
            wanted,
            low,
            high,
        });
        let next_offset = lost.as_ref().map_or(wanted, LostRange::resume_at);
        Self { partition, next_offset, is_empty: low == high, lost }
    }
}

/// Asks the brokers what they hold of each `(partition, next offset)`, and decides where to begin. A partition
/// without progress begins at its beginning.
///
/// # Errors
/// A broker does not answer, or a partition has no leader: transient.
pub fn starts(
    topics: &Topics,
    topic: &Arc<str>,
    wanted: impl IntoIterator<Item = (i32, Option<i64>)>,
) -> Result<Vec<Start>, KafkaError> {
    wanted
        .into_iter()
        .map(|(partition, next_offset)| {
            let (low, high) = topics.watermarks(topic, partition)?;
            Ok(Start::decide(topic, partition, next_offset, low, high))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn decide(wanted: Option<i64>, low: i64, high: i64) -> Start {
        Start::decide(&Arc::from("t"), 3, wanted, low, high)
    }

    #[test]
    fn without_progress_reading_begins_at_the_beginning() {
        assert_eq!(decide(None, 7, 9), Start { partition: 3, next_offset: 7, is_empty: false, lost: None });
    }

    #[test]
    fn a_place_in_the_log_and_its_end_are_held() {
        for wanted in 7..=9 {
            let start = decide(Some(wanted), 7, 9);
            assert_eq!((start.next_offset, start.lost), (wanted, None));
        }
    }

    #[test]
    fn a_place_below_the_start_names_what_is_lost() {
        let start = decide(Some(4), 7, 9);
        let lost = start.lost.unwrap();
        assert_eq!((lost.offsets(), start.next_offset), (4..7, 7));
        assert!(lost.to_string().contains("`t`, partition 3: records 4 to 6 are lost"), "{lost}");
    }

    #[test]
    fn a_place_beyond_the_end_is_lost_too() {
        let start = decide(Some(12), 7, 9);
        assert_eq!((start.lost.unwrap().offsets(), start.next_offset), (9..12, 9));
    }

    #[test]
    fn t4_only_a_log_without_records_is_empty() {
        assert!(decide(None, 0, 0).is_empty);
        assert!(decide(Some(5), 5, 5).is_empty);
        assert!(!decide(Some(5), 4, 5).is_empty);
    }
}
