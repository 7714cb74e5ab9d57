//! Reading Kafka topics: partition `p` belongs to worker `p % peers`, assigned by hand (design, decision 7). Beside the
//! live topic that of backfilled records is read as soon as there is one (decision 13).

mod backfill;
mod gather;
mod reader;
mod watch;
mod watch_backfill;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::pipeline::commit::SameLog;
use crate::pipeline::health::Health;
use crate::pipeline::persist::Ended;
use crate::pipeline::stop::{Ending, Stop};
use crate::pipeline::{Clock, Reader};
use backon::{BackoffBuilder, ExponentialBuilder};
use floodmark_kafka::start::starts;
use floodmark_kafka::{GroupOffsets, KafkaError, KafkaSettings, Start, Topic, TopicMonitor, Topics, owned};
use floodmark_model::TopicId;
use floodmark_model::progress::{PartitionKey, Progress};
use reader::KafkaReader;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use watch::{Latest, Monitors, Watch};
use watch_backfill::BackfillWatch;

/// How long a broker may take to answer one question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What the parts of a pipeline's Kafka end share.
pub struct KafkaInput {
    /// The configuration.
    pub config: Arc<Config>,
    /// How clients are set up.
    pub settings: KafkaSettings,
    /// Where `/readyz` looks.
    pub health: Arc<Health>,
    /// Lag of each partition.
    pub metrics: Arc<Metrics>,
    /// Ends the pipeline.
    pub stop: Stop,
    /// Confirmed while the topic is the same one.
    pub same_log: Arc<SameLog>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl KafkaInput {
    /// Asks the brokers about the topic, decides where each partition begins, and makes a reader for each worker.
    /// `forget_uncommitted` is called when the topic was created anew since the last commit.
    ///
    /// # Errors
    ///
    /// When the pipeline has ended meanwhile, also because of what was found here.
    pub fn readers(
        self: &Arc<Self>,
        progress: &Progress,
        workers: usize,
        forget_uncommitted: &mut dyn FnMut() -> Result<(), Ended>,
    ) -> Result<Vec<Box<dyn Reader>>, Ended> {
        let topics = self.topics()?;
        let description = self.until_answered(|| topics.describe(&self.config.kafka.topic))?;
        let topic = description.topic.clone();
        self.name_what_is_lost(progress, &topic, false, forget_uncommitted)?;
        let starts = self.starts(&topics, &topic, 0..description.partitions(), progress)?;
        let backfill = BackfillWatch::new(self, self.topics()?, Arc::new(progress.clone()))?;
        if let Some(log) = backfill.log() {
            self.name_what_is_lost(progress, &log.topic, true, forget_uncommitted)?;
        }
        let monitor = TopicMonitor::new(topics, topic.clone(), description.partitions());
        let latest = Latest {
            leaders: description.leaders.clone(),
            asked_ms: self.clock.now_ms(),
            backfill: backfill.log().cloned(),
        };
        let watch = Arc::new(Watch::new(latest));
        let mut monitors = Some(Monitors { live: monitor, backfill });
        let readers = (0..workers).map(|worker| -> Box<dyn Reader> {
            let own: Vec<_> = owned(description.partitions(), worker, workers).collect();
            Box::new(KafkaReader {
                input: Arc::clone(self),
                topic: topic.clone(),
                partitions: description.partitions(),
                starts: starts.iter().filter(|start| own.contains(&start.partition)).cloned().collect(),
                watch: Arc::clone(&watch),
                monitors: monitors.take(),
            })
        });
        Ok(readers.collect())
    }

    /// Shows committed offsets to lag tools; a failure is only worth a word.
    ///
    /// # Errors
    ///
    /// When no client can be made of the settings.
    pub fn group_offsets(&self) -> Result<GroupOffsets, KafkaError> {
        GroupOffsets::new(&self.settings, &self.config.kafka.group)
    }

    fn topics(&self) -> Result<Topics, Ended> {
        self.checked(Topics::new(&self.settings, ANSWER_TIMEOUT))
    }

    /// Where partitions of a topic begin; ends the pipeline where that is not accepted.
    fn starts(
        &self,
        topics: &Topics,
        topic: &Topic,
        partitions: Range<i32>,
        progress: &Progress,
    ) -> Result<Vec<Start>, Ended> {
        let wanted: Vec<_> = partitions.map(|partition| (partition, stored(progress, topic.id, partition))).collect();
        let starts = self.until_answered(|| starts(topics, &topic.name, wanted.iter().copied()))?;
        starts.iter().filter_map(|start| start.lost.as_ref()).try_for_each(|lost| self.accept_loss(lost))?;
        Ok(starts)
    }

    /// Decision 7: progress of another id of the topic is what remains of one that was deleted.
    fn name_what_is_lost(
        &self,
        progress: &Progress,
        topic: &Topic,
        is_backfill: bool,
        forget_uncommitted: &mut dyn FnMut() -> Result<(), Ended>,
    ) -> Result<(), Ended> {
        let of_topic = progress.partitions.iter().filter(|(_, stored)| stored.is_backfill() == is_backfill);
        let gone: Vec<_> = of_topic.filter(|(key, _)| key.topic_id != topic.id).collect();
        if gone.is_empty() || progress.partitions.keys().any(|key| key.topic_id == topic.id) {
            return Ok(());
        }
        for (key, stored) in gone {
            tracing::warn!(
                topic = &*topic.name, old_id = %key.topic_id, new_id = %topic.id, partition = key.partition,
                next_offset = stored.next_offset,
                "the topic was created anew: what the old one held from this offset on is lost, the new one is read from 0"
            );
        }
        forget_uncommitted()
    }

    /// A lost range ends the pipeline with exit code 4, unless the flag to go on was given.
    fn accept_loss(&self, lost: &floodmark_kafka::LostRange) -> Result<(), Ended> {
        if self.config.kafka.accept_data_loss {
            tracing::warn!(%lost, "data was lost; going on, as --accept-data-loss says");
            return Ok(());
        }
        let advice = "start with --accept-data-loss to go on from there, or restore the topic";
        self.stop.fail(format!("{lost}; {advice}"), 4);
        Err(Ended)
    }

    /// A topic that was created anew looks like one that lost records. It is told apart here, and not left to the one
    /// who watches the topic and may come later.
    fn check_same(&self, topic: &Topic) -> Result<(), Ended> {
        let topics = self.topics()?;
        let now = self.until_answered(|| topics.describe(&topic.name))?.topic;
        if now.id == topic.id {
            return Ok(());
        }
        self.start_anew(&topic.name, topic.id, now.id);
        Err(Ended)
    }

    fn start_anew(&self, topic: &str, old: TopicId, new: TopicId) {
        let what = format!("topic {topic} was created anew: its id was {old} and is now {new}");
        self.stop.end(Ending::StartAnew(what));
    }

    /// Repeats a question with back-off until it is answered, or the pipeline ends.
    fn until_answered<T>(&self, mut ask: impl FnMut() -> Result<T, KafkaError>) -> Result<T, Ended> {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(5));
        let waits =
            ExponentialBuilder::default().with_min_delay(min).with_max_delay(max).without_max_times().with_jitter();
        let mut waits = waits.build();
        loop {
            match ask() {
                Err(error) if error.is_transient() || matches!(error, KafkaError::TopicMissing { .. }) => {
                    tracing::warn!(%error, "waiting for kafka");
                    self.health.trouble("kafka", format!("{error}; repeating with back-off"));
                    self.pause(waits.next().unwrap_or(max))?;
                }
                answer => {
                    let answer = self.checked(answer)?;
                    self.health.well("kafka");
                    return Ok(answer);
                }
            }
        }
    }

    /// Waits, unless the pipeline ends.
    fn pause(&self, wait: Duration) -> Result<(), Ended> {
        let until = std::time::Instant::now() + wait;
        while !self.stop.is_stopped() {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::park_timeout(left.min(Duration::from_millis(50)));
        }
        Err(Ended)
    }

    /// A failure that waiting does not cure ends the pipeline.
    fn checked<T>(&self, result: Result<T, KafkaError>) -> Result<T, Ended> {
        result.map_err(|error| {
            let exit_code = if matches!(error, KafkaError::Setting { .. }) { 2 } else { 3 };
            self.stop.fail(error.to_string(), exit_code);
            Ended
        })
    }
}

/// The backfill topic, and where each of its partitions begins.
#[derive(Clone, Debug)]
struct BackfillLog {
    topic: Topic,
    /// By partition, from 0.
    starts: Arc<[Start]>,
}

fn stored(progress: &Progress, topic_id: TopicId, partition: i32) -> Option<i64> {
    progress.partitions.get(&PartitionKey { topic_id, partition }).map(|stored| stored.next_offset)
}
