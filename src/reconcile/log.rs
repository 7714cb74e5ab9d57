//! What the log holds, as its brokers say.

use super::ReconcileError;
use floodmark_kafka::{KafkaError, KafkaSettings, Topics};
use floodmark_model::TopicId;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one question to the brokers may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// A topic to ask.
#[derive(Clone)]
pub struct LogOf {
    /// How to reach the brokers.
    pub settings: KafkaSettings,
    /// The topic's name.
    pub topic: String,
}

impl LogOf {
    /// What it holds now.
    pub(super) async fn ask(self) -> Result<Log, ReconcileError> {
        tokio::task::spawn_blocking(move || self.ask_blocking()).await?
    }

    fn ask_blocking(&self) -> Result<Log, ReconcileError> {
        let topics = Topics::new(&self.settings, ASK_TIMEOUT)?;
        let description = match topics.describe(&self.topic) {
            Err(KafkaError::TopicMissing { .. }) => {
                return Err(ReconcileError::TopicMissing { topic: self.topic.clone() });
            }
            described => described?,
        };
        let offsets = |partition| Ok((partition, topics.watermarks(&self.topic, partition)?));
        let offsets = (0..description.partitions()).map(offsets).collect::<Result<_, KafkaError>>()?;
        Ok(Log { topic_id: Some(description.topic.id), offsets })
    }
}

/// What the log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    /// The topic's id.
    pub(super) topic_id: Option<TopicId>,
    /// For each partition its first offset, and the one that its next record will get.
    pub(super) offsets: BTreeMap<i32, (i64, i64)>,
}
