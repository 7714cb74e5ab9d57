//! Records into the backfill topic, a bounded batch at a time.

use super::BackfillError;
use floodmark_kafka::{Admin, KafkaError, KafkaSettings, Outgoing, Producer, Topic, TopicDescription, Topics};
use floodmark_model::Coordinates;
use floodmark_model::wire::backfill::Headers;
use std::time::{Duration, Instant};

/// Records of one batch.
const RECORDS_MAX: usize = 20_000;
/// Bytes of their values.
const BYTES_MAX: usize = 8 << 20;
/// Neighbours of one file go to one partition, so many bytes of them: they lie in few days together.
const STRIPE_BYTES: i64 = 1 << 20;
/// How long a new topic may take to be there.
const CREATION: Duration = Duration::from_secs(30);

/// The backfill topic, and a batch for it.
pub struct Sender {
    producer: Producer,
    topic: Topic,
    partitions: i32,
    batch: Vec<Waiting>,
    bytes: usize,
}

/// A record that waits to be sent: partition, headers and payload.
type Waiting = (i32, Vec<(&'static str, Vec<u8>)>, Option<Vec<u8>>);

impl Sender {
    /// For the topic of this name. Where there is none it is created, with as many partitions as `like` has, and keeps
    /// what it gets: the engine may be away for long.
    ///
    /// # Errors
    ///
    /// Kafka does not answer, or refuses.
    pub fn new(
        settings: &KafkaSettings,
        topics: &Topics,
        name: &str,
        like: &str,
        max_record_bytes: usize,
    ) -> Result<Self, BackfillError> {
        let description = match topics.describe(name) {
            Err(KafkaError::TopicMissing { .. }) => {
                create(settings, topics, name, like, max_record_bytes)?;
                described(topics, name)?
            }
            found => found?,
        };
        let producer = Producer::new(settings)?;
        let partitions = description.partitions().max(1);
        Ok(Self { producer, topic: description.topic, partitions, batch: Vec::new(), bytes: 0 })
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// How many partitions it has.
    #[must_use]
    pub fn partitions(&self) -> i32 {
        self.partitions
    }

    /// Adds a record that stands for the one at its origin, always to the same partition.
    pub fn push(&mut self, origin: Coordinates, headers: &Headers<'_>, payload: Option<&[u8]>) {
        self.bytes += payload.map_or(0, <[u8]>::len) + 128;
        self.batch.push((self.partition_of(origin), headers.written(), payload.map(<[u8]>::to_vec)));
    }

    /// Whether the batch should be sent before more is added.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.batch.len() >= RECORDS_MAX || self.bytes >= BYTES_MAX
    }

    /// Sends the batch; when it returns, every record of it is acknowledged. Says how many these were.
    ///
    /// # Errors
    ///
    /// Not all were acknowledged. Sending them again does no harm.
    pub fn flush(&mut self) -> Result<u64, BackfillError> {
        self.bytes = 0;
        let records = std::mem::take(&mut self.batch).into_iter().map(|(partition, headers, payload)| Outgoing {
            partition: Some(partition),
            payload: payload.map(Into::into),
            headers: headers.into_iter().map(|(name, value)| (name, value.into())).collect(),
            ..Outgoing::default()
        });
        let records: Vec<_> = records.collect();
        if records.is_empty() {
            return Ok(0);
        }
        Ok(self.producer.send_all(&self.topic.name, records)?)
    }

    fn partition_of(&self, origin: Coordinates) -> i32 {
        let first = i64::from(origin.topic_id.0[15]) + i64::from(origin.partition);
        let place = first.wrapping_add(origin.offset / STRIPE_BYTES).rem_euclid(i64::from(self.partitions));
        i32::try_from(place).expect("less than the partitions, which are an i32")
    }
}

fn create(
    settings: &KafkaSettings,
    topics: &Topics,
    name: &str,
    like: &str,
    max_record_bytes: usize,
) -> Result<(), BackfillError> {
    let partitions = match topics.describe(like) {
        Err(KafkaError::TopicMissing { .. }) => 1,
        found => found?.partitions(),
    };
    // Headers and batch come on top of a record, and of one that is too long one byte more is sent.
    let max_message_bytes = (max_record_bytes + (64 << 10)).max(1_048_588).to_string();
    let config = [
        ("message.timestamp.type", "CreateTime"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-1"),
        ("cleanup.policy", "delete"),
        ("max.message.bytes", &*max_message_bytes),
    ];
    match Admin::new(settings)?.create_topic(name, partitions, &config) {
        // Another backfill was faster.
        Err(error) if topics.describe(name).is_ok() => tracing::debug!(%error, "the topic is there"),
        created => created?,
    }
    Ok(())
}

/// A topic that was just created is not known to every broker at once.
fn described(topics: &Topics, name: &str) -> Result<TopicDescription, BackfillError> {
    let started = Instant::now();
    loop {
        match topics.describe(name) {
            Ok(found) if !found.leaders.is_empty() && found.leaders.iter().all(|leads| *leads) => return Ok(found),
            Err(error) if started.elapsed() > CREATION => return Err(error.into()),
            Ok(found) if started.elapsed() > CREATION => return Ok(found),
            _ => std::thread::park_timeout(Duration::from_millis(100)),
        }
    }
}
