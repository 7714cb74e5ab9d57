//! Kafka: the log that floodmark reads, and the only crate that links librdkafka.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`settings`] | every client setting, each with its reason |
//! | [`topics`] | topic ids, leaders and end offsets, as the brokers tell them |
//! | [`start`] | where reading begins, and whether the log still holds that place |
//! | [`consumer`] | one worker's partitions, assigned by hand (design, decision 7) |
//! | [`idle`] | T-4 as a plain struct: which partitions are idle |
//! | [`monitor`] | asks every second whether the topic is still the same one |
//! | [`producer`] | records out, acknowledged by all replicas |
//! | [`offsets`] | the consumer group's offsets, for lag tools only |
//! | [`admin`] | creates and deletes topics: for `backfill`, tests, demos and benchmarks |
//!
//! Nothing here decodes a record, decides about time beyond T-4, or commits progress. Clocks are passed in as
//! milliseconds; no module reads one.

pub mod admin;
pub mod consumer;
mod context;
pub mod error;
pub mod idle;
pub mod monitor;
pub mod offsets;
pub mod producer;
pub mod settings;
pub mod start;
pub mod topics;

pub use admin::Admin;
pub use consumer::{Event, PartitionReader, Polled, Record};
pub use error::{Failure, KafkaError};
pub use idle::Idleness;
pub use monitor::{Observation, TopicMonitor};
pub use offsets::GroupOffsets;
pub use producer::{Outgoing, Producer};
pub use settings::KafkaSettings;
pub use start::{LostRange, Start};
pub use topics::{Topic, TopicDescription, Topics};

/// The partitions of `worker`: partition `p` belongs to worker `p % peers` (design, decision 7). With more workers
/// than partitions the last ones own none.
///
/// `peers` is the number of workers over all processes, `worker` lies below it.
pub fn owned(partitions: i32, worker: usize, peers: usize) -> impl Iterator<Item = i32> {
    debug_assert!(worker < peers);
    (0..partitions).skip(worker).step_by(peers.max(1))
}

#[cfg(test)]
mod tests {
    use super::owned;
    use proptest::prelude::*;

    #[test]
    fn partitions_go_round_the_workers() {
        assert_eq!(owned(5, 0, 2).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(owned(5, 1, 2).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(owned(2, 3, 4).count(), 0);
        assert_eq!(owned(0, 0, 1).count(), 0);
    }

    proptest! {
        #[test]
        fn every_partition_has_exactly_one_owner(partitions in 0i32..200, peers in 1usize..20) {
            let mut all: Vec<i32> = (0..peers).flat_map(|worker| owned(partitions, worker, peers)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..partitions).collect::<Vec<_>>());
        }
    }
}
