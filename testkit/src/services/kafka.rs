//! A topic of a test's own, and records put into it fast.

use super::runtime::block_on;
use super::{Service, unique_name};
use crate::wait::{DEADLINE, wait_until};
use floodmark_model::RecordTime;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Longer than the longest record that floodmark accepts: bad ones are produced as well.
const MESSAGE_BYTES_MAX: &str = "8388608";

/// A topic that keeps records of any time. Deleted with this value.
pub struct Topic {
    name: String,
    partitions: i32,
    brokers: String,
}

impl Topic {
    /// Creates a topic with a unique name that starts with `prefix`.
    ///
    /// # Panics
    /// There is no Kafka, or it refuses.
    #[must_use]
    pub fn create(prefix: &str, partitions: i32) -> Self {
        let topic = Self { name: unique_name(prefix), partitions, brokers: Service::Kafka.address() };
        topic.ask_to_create().unwrap_or_else(|error| panic!("create topic {}: {error}", topic.name));
        topic.wait_until_there();
        topic
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The brokers.
    #[must_use]
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Deletes the topic and creates it again: a new id, offsets from 0 (I-1).
    ///
    /// # Panics
    /// Kafka refuses.
    pub fn recreate(&self) {
        self.delete();
        // The name is taken for a moment after the deletion was confirmed.
        wait_until(format!("topic {} to be created again", self.name), DEADLINE, || match self.ask_to_create() {
            Ok(()) => true,
            Err(RDKafkaErrorCode::TopicAlreadyExists) => false,
            Err(error) => panic!("create topic {} again: {error}", self.name),
        });
        self.wait_until_there();
    }

    /// Writes records, in this order within each partition, and returns when the brokers hold all of them.
    ///
    /// # Panics
    /// A record is refused or not acknowledged, or has a record time below 1, which the client would replace.
    pub fn produce<P: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (i32, RecordTime, P)>) -> u64 {
        let producer: BaseProducer<Deliveries> = self
            .client()
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .set("batch.size", "1000000")
            .set("message.max.bytes", MESSAGE_BYTES_MAX)
            .set("queue.buffering.max.messages", "200000")
            .create_with_context(Deliveries::default())
            .unwrap();
        let mut sent = 0;
        for (partition, record_time, payload) in records {
            assert!(record_time.0 > 0, "the client takes a record time of {} for now", record_time.0);
            self.enqueue(&producer, partition, record_time, payload.as_ref());
            sent += 1;
            const POLL_EVERY: u64 = 10_000;
            if sent % POLL_EVERY == 0 {
                producer.poll(Duration::ZERO);
            }
        }
        producer.flush(DEADLINE).unwrap_or_else(|error| panic!("flush to {}: {error}", self.name));
        let deliveries = producer.context();
        if let Some(failure) = deliveries.failure.lock().unwrap().as_ref() {
            panic!("a record was not written to {}: {failure}", self.name);
        }
        assert_eq!(deliveries.written.load(Ordering::Relaxed), sent, "every record is acknowledged");
        sent
    }

    /// Gives the topic more partitions.
    ///
    /// # Panics
    /// Kafka refuses.
    pub fn grow(&mut self, partitions: i32) {
        let (admin, name) = (self.admin(), self.name.clone());
        let answers = block_on(async move {
            admin.create_partitions([&NewPartitions::new(&name, partitions as usize)], &options()).await
        });
        one_answer(answers).unwrap_or_else(|error| panic!("grow topic {}: {error}", self.name));
        self.partitions = partitions;
        self.wait_until_there();
    }

    /// Deletes the records of a partition below an offset, as retention does.
    ///
    /// # Panics
    /// Kafka refuses.
    pub fn delete_records(&self, partition: i32, before: i64) {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&self.name, partition, Offset::Offset(before)).unwrap();
        let admin = self.admin();
        let answer = block_on(async move { admin.delete_records(&offsets, &options()).await });
        answer.unwrap_or_else(|error| panic!("delete records of topic {}: {error}", self.name));
    }

    /// Records in each partition: the end offsets, as long as nothing is deleted.
    ///
    /// # Panics
    /// Kafka does not answer.
    #[must_use]
    pub fn end_offsets(&self) -> Vec<i64> {
        let producer: BaseProducer = self.client().create().unwrap();
        let end = |partition| producer.client().fetch_watermarks(&self.name, partition, DEADLINE).unwrap().1;
        (0..self.partitions).map(end).collect()
    }

    fn enqueue(&self, producer: &BaseProducer<Deliveries>, partition: i32, record_time: RecordTime, payload: &[u8]) {
        let mut record =
            BaseRecord::<(), [u8]>::to(&self.name).partition(partition).timestamp(record_time.0).payload(payload);
        loop {
            match producer.send(record) {
                Ok(()) => return,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                    record = refused;
                    producer.poll(Duration::from_millis(10));
                }
                Err((error, _)) => panic!("a record for {}: {error}", self.name),
            }
        }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().unwrap()
    }

    fn ask_to_create(&self) -> Result<(), RDKafkaErrorCode> {
        let (admin, name, partitions) = (self.admin(), self.name.clone(), self.partitions);
        let answers = block_on(async move {
            let topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1))
                .set("message.timestamp.type", "CreateTime")
                .set("message.timestamp.after.max.ms", "9223372036854775807")
                .set("retention.ms", "-1")
                .set("max.message.bytes", MESSAGE_BYTES_MAX);
            admin.create_topics([&topic], &options()).await
        });
        one_answer(answers)
    }

    /// A created topic is not at once known to every broker, nor its partitions led.
    fn wait_until_there(&self) {
        let producer: BaseProducer = self.client().create().unwrap();
        wait_until(format!("the leaders of topic {}", self.name), DEADLINE, || {
            let metadata = producer.client().fetch_metadata(Some(&self.name), Duration::from_secs(5));
            metadata.is_ok_and(|metadata| {
                let topics = metadata.topics();
                topics.len() == 1
                    && topics[0].error().is_none()
                    && topics[0].partitions().len() == self.partitions as usize
                    && topics[0].partitions().iter().all(|partition| partition.leader() >= 0)
            })
        });
    }

    fn delete(&self) {
        let (admin, name) = (self.admin(), self.name.clone());
        let answers = block_on(async move { admin.delete_topics(&[&name], &options()).await });
        one_answer(answers).unwrap_or_else(|error| panic!("delete topic {}: {error}", self.name));
    }
}

/// The name of a topic that what is tested may create. Deleted with this value, where it is there.
pub struct LaterTopic {
    name: String,
    brokers: String,
}

impl LaterTopic {
    /// A topic that nobody has created yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), brokers: Service::Kafka.address() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for LaterTopic {
    fn drop(&mut self) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        if !thread::panicking()
            && let Ok(admin) = config.create::<AdminClient<DefaultClientContext>>()
        {
            let name = self.name.clone();
            // Mostly there is none.
            let _ = block_on(async move { admin.delete_topics(&[&name], &options()).await });
        }
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.delete();
        }
    }
}

/// What became of the records of one call.
#[derive(Default)]
struct Deliveries {
    written: AtomicU64,
    failure: Mutex<Option<KafkaError>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => {
                self.written.fetch_add(1, Ordering::Relaxed);
            }
            Err((error, _)) => *self.failure.lock().unwrap() = Some(error.clone()),
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(DEADLINE)).operation_timeout(Some(DEADLINE))
}

type Answers = Result<Vec<Result<String, (String, RDKafkaErrorCode)>>, KafkaError>;

fn one_answer(answers: Answers) -> Result<(), RDKafkaErrorCode> {
    let answers = answers.unwrap_or_else(|error| panic!("Kafka's admin interface: {error}"));
    answers.into_iter().try_for_each(|answer| answer.map(drop).map_err(|(_, code)| code))
}
