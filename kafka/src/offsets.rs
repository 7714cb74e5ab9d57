//! The consumer group's offsets: only for tools that show lag. Progress lives in Postgres; nothing here is read back.

use crate::context::Context;
use crate::{KafkaError, KafkaSettings};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

/// Writes the offsets of one group, which has no members.
pub struct GroupOffsets {
    client: BaseConsumer<Context>,
    group: String,
}

impl GroupOffsets {
    /// Offsets of `group`. Connects in the background.
    ///
    /// # Errors
    /// The settings do not make a client.
    pub fn new(settings: &KafkaSettings, group: &str) -> Result<Self, KafkaError> {
        let client = settings
            .reader(group)
            .create_with_context(Context::default())
            .map_err(|error| KafkaError::failed("make a consumer", &error))?;
        Ok(Self { client, group: group.to_owned() })
    }

    /// Sends the next offsets of `(partition, next offset)` on their way, after progress was committed. Does not wait,
    /// and is never repeated: the next commit says more. A failure costs nothing but a lag that looks too large.
    ///
    /// # Errors
    /// The client takes nothing, such as while it knows no coordinator.
    pub fn commit(&self, topic: &str, offsets: impl IntoIterator<Item = (i32, i64)>) -> Result<(), KafkaError> {
        // Answers to earlier commits wait in the client until they are polled for.
        self.client.poll(Duration::ZERO);
        let list = self.list(topic, offsets)?;
        self.client.commit(&list, CommitMode::Async).map_err(|error| self.failed("commit", &error))
    }

    /// The offsets that the group has of `partitions`; `None` where it has none.
    ///
    /// # Errors
    /// No answer within `timeout`: transient.
    pub fn committed(
        &self,
        topic: &str,
        partitions: impl IntoIterator<Item = i32>,
        timeout: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, KafkaError> {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(topic, partition);
        }
        let answer = self.client.committed_offsets(list, timeout).map_err(|error| self.failed("read", &error))?;
        let offset = |offset| if let Offset::Offset(next) = offset { Some(next) } else { None };
        Ok(answer.elements().iter().map(|element| (element.partition(), offset(element.offset()))).collect())
    }

    fn list(
        &self,
        topic: &str,
        offsets: impl IntoIterator<Item = (i32, i64)>,
    ) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        for (partition, next_offset) in offsets {
            list.add_partition_offset(topic, partition, Offset::Offset(next_offset))
                .map_err(|error| self.failed("commit", &error))?;
        }
        Ok(list)
    }

    fn failed(&self, verb: &str, error: &rdkafka::error::KafkaError) -> KafkaError {
        KafkaError::failed(format!("{verb} the offsets of group `{}`", self.group), error)
    }
}
