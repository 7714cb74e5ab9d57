//! Whether the topic is still the one that is read (I-1; design, decision 7).

use crate::{KafkaError, Topic, Topics};
use floodmark_model::TopicId;
use std::ops::Range;

/// What one question brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The same topic.
    Same {
        /// Whether each partition has a leader.
        leaders: Vec<bool>,
        /// Partitions that were not there before; mostly empty. Reported once.
        new_partitions: Range<i32>,
    },
    /// The topic was deleted and created anew. What was read since the last [`Observation::Same`] may belong to either.
    Recreated {
        /// The id that was read until now.
        old: TopicId,
        /// The id of the topic that now has the name.
        new: TopicId,
    },
    /// The topic is not there.
    Gone,
    /// Nobody answered; says why.
    Unreachable(String),
}

/// Asks about one topic.
///
/// [`TopicMonitor::ask`] blocks up to the time-out of its [`Topics`], so it wants a thread that may wait. Progress
/// may cover only what was read before a question that was answered with [`Observation::Same`]: the caller notes its
/// next offsets, or its clock, *before* it asks.
pub struct TopicMonitor {
    topics: Topics,
    topic: Topic,
    partitions: i32,
}

impl TopicMonitor {
    /// Watches `topic`, of which `partitions` are known.
    #[must_use]
    pub fn new(topics: Topics, topic: Topic, partitions: i32) -> Self {
        Self { topics, topic, partitions }
    }

    /// Where each partition ends: the offset that its next record will get; `None` where nobody says.
    #[must_use]
    pub fn ends(&self) -> Vec<Option<i64>> {
        let end = |partition| self.topics.watermarks(&self.topic.name, partition).ok().map(|(_, end)| end);
        (0..self.partitions).map(end).collect()
    }

    /// Asks once; to be called every second.
    pub fn ask(&mut self) -> Observation {
        match self.topics.describe(&self.topic.name) {
            Err(KafkaError::TopicMissing { .. }) => Observation::Gone,
            Err(error) => Observation::Unreachable(error.to_string()),
            Ok(description) if description.topic.id != self.topic.id => {
                Observation::Recreated { old: self.topic.id, new: description.topic.id }
            }
            Ok(description) => {
                // A topic never shrinks; a broker that has not heard of its growth yet may say so for a moment.
                let new_partitions = self.partitions..description.partitions().max(self.partitions);
                self.partitions = new_partitions.end;
                Observation::Same { leaders: description.leaders, new_partitions }
            }
        }
    }
}
