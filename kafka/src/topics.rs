//! What the brokers say about topics: ids, leaders, and what each partition holds.

mod describe;

use crate::context::Context;
use crate::{KafkaError, KafkaSettings};
use floodmark_model::{RecordTime, TopicId};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::time::Duration;

/// One incarnation of a topic: created anew under the same name it has another id (I-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Name.
    pub name: Arc<str>,
    /// Id.
    pub id: TopicId,
}

/// A topic as the brokers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// Name and id.
    pub topic: Topic,
    /// Whether each partition, from 0, has a leader. Without one it can be neither read nor written.
    pub leaders: Vec<bool>,
}

impl TopicDescription {
    /// The number of partitions.
    #[must_use]
    pub fn partitions(&self) -> i32 {
        i32::try_from(self.leaders.len()).unwrap_or(i32::MAX)
    }
}

/// Asks about topics. Calls block, at most for the time-out.
pub struct Topics {
    client: BaseConsumer<Context>,
    timeout: Duration,
}

impl Topics {
    /// A client that waits up to `timeout` for each answer. Connects when first asked.
    ///
    /// # Errors
    /// The settings do not make a client.
    pub fn new(settings: &KafkaSettings, timeout: Duration) -> Result<Self, KafkaError> {
        let client = settings
            .client()
            .create_with_context(Context::default())
            .map_err(|error| KafkaError::failed("make a client", &error))?;
        Ok(Self { client, timeout })
    }

    /// The topic's id and the leaders of its partitions.
    ///
    /// # Errors
    /// [`KafkaError::TopicMissing`]; no answer in time (transient); brokers older than 2.8, which have no topic ids.
    pub fn describe(&self, topic: &str) -> Result<TopicDescription, KafkaError> {
        let action = || format!("describe topic `{topic}`");
        let (id, leaders) = describe::describe(&self.client, topic, self.timeout).map_err(|failed| {
            if failed.code == RDKafkaErrorCode::UnknownTopicOrPartition {
                return KafkaError::TopicMissing { topic: topic.to_owned() };
            }
            KafkaError::answered(action(), failed.code, self.with_reason(failed.detail))
        })?;
        if id == TopicId([0; 16]) {
            let detail = "the broker knows no topic ids: floodmark needs Kafka 2.8 or later";
            return Err(KafkaError::answered(action(), RDKafkaErrorCode::UnsupportedFeature, detail));
        }
        Ok(TopicDescription { topic: Topic { name: topic.into(), id }, leaders })
    }

    /// The first offset that the partition holds, and the one that its next record will get.
    ///
    /// # Errors
    /// No answer in time, or no leader: transient.
    pub fn watermarks(&self, topic: &str, partition: i32) -> Result<(i64, i64), KafkaError> {
        self.client.fetch_watermarks(topic, partition, self.timeout).map_err(|error| {
            let action = format!("ask what partition {partition} of topic `{topic}` holds");
            match error.rdkafka_error_code() {
                Some(code) => KafkaError::answered(action, code, self.with_reason(error.to_string())),
                None => KafkaError::failed(action, &error),
            }
        })
    }

    /// The first offset of each partition whose record time is at or after `time`; its end where there is none.
    ///
    /// # Errors
    /// No answer in time, or no leader: transient.
    pub fn offsets_at(&self, topic: &Topic, partitions: i32, time: RecordTime) -> Result<Vec<i64>, KafkaError> {
        let action = || format!("ask what topic `{}` holds from {} ms on", topic.name, time.0);
        let failed = |error| KafkaError::failed(action(), &error);
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(&topic.name, partition, Offset::Offset(time.0)).map_err(failed)?;
        }
        let answer = self.client.offsets_for_times(list, self.timeout).map_err(failed)?;
        let mut offsets = vec![None; usize::try_from(partitions).unwrap_or(0)];
        for element in answer.elements() {
            element.error().map_err(failed)?;
            if let (Offset::Offset(offset), Ok(index)) = (element.offset(), usize::try_from(element.partition())) {
                offsets[index] = Some(offset);
            }
        }
        let or_end = |(partition, offset): (i32, Option<i64>)| match offset {
            Some(offset) => Ok(offset),
            None => self.watermarks(&topic.name, partition).map(|(_, end)| end),
        };
        (0..).zip(offsets).map(or_end).collect()
    }

    /// Adds what the client last complained about: a refused password shows only there, the call just times out.
    fn with_reason(&self, detail: String) -> String {
        // Complaints are handed over by polling; a handful is all that a few seconds leave behind.
        for _ in 0..16 {
            self.client.poll(Duration::ZERO);
        }
        match self.client.client().context().take_error() {
            Some(reason) => format!("{detail} ({reason})"),
            None => detail,
        }
    }
}
