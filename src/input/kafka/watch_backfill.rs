//! What is known of the backfill topic. It may be absent: it is looked for, and never waited for or created.

use super::{BackfillLog, KafkaInput};
use crate::metrics::Log;
use crate::pipeline::persist::Ended;
use crate::pipeline::stop::Ending;
use floodmark_kafka::{Observation, TopicDescription, TopicMonitor, Topics};
use floodmark_model::progress::Progress;
use std::sync::Arc;

/// Every so many questions about the live topic one looks for a backfill topic.
const LOOK_EVERY: u32 = 3;

/// Watches the backfill topic, or looks for it.
pub(super) struct BackfillWatch {
    topics: Topics,
    progress: Arc<Progress>,
    found: Option<Found>,
    asked: u32,
}

struct Found {
    monitor: TopicMonitor,
    log: BackfillLog,
}

impl BackfillWatch {
    /// Looks for the topic once.
    pub(super) fn new(input: &KafkaInput, topics: Topics, progress: Arc<Progress>) -> Result<Self, Ended> {
        let mut watch = Self { topics, progress, found: None, asked: 0 };
        if let Some(description) = watch.describe(input)? {
            watch.take_on(input, &description)?;
        }
        Ok(watch)
    }

    /// The topic, once it is found.
    pub(super) fn log(&self) -> Option<&BackfillLog> {
        self.found.as_ref().map(|found| &found.log)
    }

    /// Asks once. Whether what was read of the topic is known to be of the same one.
    pub(super) fn ask(&mut self, input: &KafkaInput) -> Result<bool, Ended> {
        let Some(found) = &mut self.found else {
            self.asked += 1;
            if self.asked.is_multiple_of(LOOK_EVERY) {
                self.look(input)?;
            }
            return Ok(true);
        };
        let name = Arc::clone(&found.log.topic.name);
        match found.monitor.ask() {
            Observation::Same { leaders, .. } => {
                for (partition, end) in (0..).zip(found.monitor.ends()) {
                    end.into_iter().for_each(|end| input.metrics.partition_ends(Log::Backfill, partition, end));
                }
                let topic = found.log.topic.clone();
                self.take_on(input, &TopicDescription { topic, leaders })?;
                Ok(true)
            }
            Observation::Recreated { old, new } => {
                input.start_anew(&name, old, new);
                Ok(false)
            }
            Observation::Gone => {
                let what = format!("the backfill topic {name} was deleted: what was not read of it is not counted");
                input.stop.end(Ending::StartAnew(what));
                Ok(false)
            }
            Observation::Unreachable(why) => {
                input.health.trouble("kafka", why);
                Ok(false)
            }
        }
    }

    /// A topic that has appeared since the start.
    fn look(&mut self, input: &KafkaInput) -> Result<(), Ended> {
        // Whoever does not answer now is asked again.
        let Ok(description) = self.topics.describe(&input.config.kafka.backfill_topic) else { return Ok(()) };
        let is_known = self.progress.partitions.keys().any(|key| key.topic_id == description.topic.id);
        if !is_known && let Some((key, _)) = self.progress.partitions.iter().find(|(_, stored)| stored.is_backfill()) {
            // A start says what is lost of the old one.
            input.start_anew(&description.topic.name, key.topic_id, description.topic.id);
            return Err(Ended);
        }
        if description.leaders.iter().all(|has_leader| *has_leader) && !description.leaders.is_empty() {
            tracing::info!(topic = &*description.topic.name, "reading the backfill topic, which has appeared");
            self.take_on(input, &description)?;
        }
        Ok(())
    }

    fn describe(&self, input: &KafkaInput) -> Result<Option<TopicDescription>, Ended> {
        use floodmark_kafka::KafkaError::TopicMissing;
        input.until_answered(|| match self.topics.describe(&input.config.kafka.backfill_topic) {
            Err(TopicMissing { .. }) => Ok(None),
            answer => answer.map(Some),
        })
    }

    /// Decides where the partitions begin that are not known yet.
    fn take_on(&mut self, input: &KafkaInput, description: &TopicDescription) -> Result<(), Ended> {
        let known = self.found.as_ref().map_or(0, |found| found.log.starts.len());
        if description.leaders.len() <= known {
            return Ok(());
        }
        let new = i32::try_from(known).unwrap_or(i32::MAX)..description.partitions();
        let new = input.starts(&self.topics, &description.topic, new, &self.progress)?;
        match &mut self.found {
            Some(found) => {
                found.log.starts = found.log.starts.iter().cloned().chain(new).collect();
            }
            None => {
                let topics = input.topics()?;
                let monitor = TopicMonitor::new(topics, description.topic.clone(), description.partitions());
                let log = BackfillLog { topic: description.topic.clone(), starts: new.into() };
                self.found = Some(Found { monitor, log });
            }
        }
        Ok(())
    }
}
