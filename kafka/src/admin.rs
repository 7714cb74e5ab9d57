//! Creates and deletes topics. The engine never does: this is for `backfill`, tests, demos and benchmarks.

use crate::{KafkaError, KafkaSettings};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// The number of replicas that lets the brokers decide (Kafka 2.4 and later).
const BROKERS_DEFAULT: i32 = -1;

/// How long a request, and what it sets going in the cluster, may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Changes topics. Calls block until the cluster has done it.
pub struct Admin {
    client: AdminClient<DefaultClientContext>,
    options: AdminOptions,
}

impl Admin {
    /// A client. Connects when first asked.
    ///
    /// # Errors
    /// The settings do not make a client.
    pub fn new(settings: &KafkaSettings) -> Result<Self, KafkaError> {
        let client = settings.client().create().map_err(|error| KafkaError::failed("make an admin client", &error))?;
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT));
        Ok(Self { client, options })
    }

    /// Creates a topic with as many replicas as the brokers have by default. `config` are its settings, such as `retention.ms`.
    ///
    /// # Errors
    /// It exists, the settings are refused (both permanent), or nobody answers.
    pub fn create_topic(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) -> Result<(), KafkaError> {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(BROKERS_DEFAULT));
        let new = config.iter().fold(new, |new, (key, value)| new.set(key, value));
        let answers = block_on(self.client.create_topics([&new], &self.options));
        first("create", topic, answers)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// [`KafkaError::TopicMissing`], or nobody answers.
    pub fn delete_topic(&self, topic: &str) -> Result<(), KafkaError> {
        let answers = block_on(self.client.delete_topics(&[topic], &self.options));
        first("delete", topic, answers)
    }

    /// Raises the number of partitions to `partitions`.
    ///
    /// # Errors
    /// It has as many already, or nobody answers.
    pub fn grow_topic(&self, topic: &str, partitions: usize) -> Result<(), KafkaError> {
        let grown = NewPartitions::new(topic, partitions);
        let answers = block_on(self.client.create_partitions([&grown], &self.options));
        first("grow", topic, answers)
    }

    /// Deletes the records of a partition below `offset`, as retention does.
    ///
    /// # Errors
    /// The offset lies beyond the end, or nobody answers.
    pub fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<(), KafkaError> {
        let action = || format!("delete records of `{topic}`, partition {partition}, below {offset}");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .map_err(|error| KafkaError::failed(action(), &error))?;
        let answer = block_on(self.client.delete_records(&list, &self.options))
            .map_err(|error| KafkaError::failed(action(), &error))?;
        answer
            .elements()
            .iter()
            .try_for_each(|element| element.error())
            .map_err(|error| KafkaError::failed(action(), &error))
    }
}

type Answers = Result<Vec<Result<String, (String, RDKafkaErrorCode)>>, ClientError>;

/// The answer about the one topic that was asked about.
fn first(verb: &str, topic: &str, answers: Answers) -> Result<(), KafkaError> {
    let action = format!("{verb} topic `{topic}`");
    let answers = answers.map_err(|error| KafkaError::failed(action.as_str(), &error))?;
    match answers.into_iter().next() {
        Some(Err((_, RDKafkaErrorCode::UnknownTopicOrPartition))) => {
            Err(KafkaError::TopicMissing { topic: topic.to_owned() })
        }
        Some(Err((_, code))) => Err(KafkaError::answered(action, code, code.to_string())),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Waits for a future on this thread. The client's own thread completes it, so no runtime is needed.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
