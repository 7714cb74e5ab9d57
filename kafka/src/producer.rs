//! Records out, acknowledged by all in-sync replicas.

use crate::settings::MESSAGE_TIMEOUT_MS;
use crate::{KafkaError, KafkaSettings};
use floodmark_model::RecordTime;
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::{ClientContext, Message};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Records that are handed to the client between two looks at its acknowledgements.
const LOOK_EVERY: usize = 1_024;

/// How long one wait for room in the client's queue lasts.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// Longer than any record can be on its way: when it is over, each was acknowledged or has failed.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(MESSAGE_TIMEOUT_MS + 5_000);

/// A record to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Partition; chosen by the key when absent, anywhere without one.
    pub partition: Option<i32>,
    /// Key.
    pub key: Option<Cow<'a, [u8]>>,
    /// Value.
    pub payload: Option<Cow<'a, [u8]>>,
    /// Record time; the client's clock when absent.
    pub record_time: Option<RecordTime>,
    /// Headers, in this order.
    pub headers: Vec<(&'a str, Cow<'a, [u8]>)>,
}

impl<'a> Outgoing<'a> {
    /// A record with a value and nothing else.
    pub fn new(payload: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { payload: Some(payload.into()), ..Self::default() }
    }

    /// The same record for a given partition.
    #[must_use]
    pub fn to(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// The same record with a given record time.
    #[must_use]
    pub fn at(self, record_time: RecordTime) -> Self {
        Self { record_time: Some(record_time), ..self }
    }
}

/// Writes records, each once and in order per partition.
pub struct Producer {
    client: BaseProducer<Deliveries>,
}

impl Producer {
    /// A producer. Connects at once.
    ///
    /// # Errors
    /// The settings do not make a client.
    pub fn new(settings: &KafkaSettings) -> Result<Self, KafkaError> {
        let client = settings
            .producer()
            .create_with_context(Deliveries::default())
            .map_err(|error| KafkaError::failed("make a producer", &error))?;
        Ok(Self { client })
    }

    /// Writes all records to `topic` and waits until each is acknowledged; returns their number. Memory is bounded: it
    /// takes from `records` only what the client's queue has room for. One caller at a time.
    ///
    /// # Errors
    /// How many were not acknowledged, and why the first was not. They may have been written all the same.
    pub fn send_all<'a>(
        &mut self,
        topic: &str,
        records: impl IntoIterator<Item = Outgoing<'a>>,
    ) -> Result<u64, KafkaError> {
        self.client.context().start();
        let mut refused = None;
        for (index, record) in records.into_iter().enumerate() {
            if let Err(error) = self.send(topic, &record) {
                refused = Some(error);
                break;
            }
            if index % LOOK_EVERY == 0 {
                self.client.poll(Duration::ZERO);
            }
        }
        // Also after a refusal: what was taken before it is on its way.
        let flushed = self.client.flush(FLUSH_TIMEOUT);
        let Tally { acknowledged, failed, first_failure } = self.client.context().start();
        let action = || format!("write to topic `{topic}`");
        if let Some(error) = refused.or(first_failure) {
            let KafkaError::Failed { failure, detail, .. } = KafkaError::failed(action(), &error) else {
                return Err(KafkaError::failed(action(), &error));
            };
            let detail = format!("{acknowledged} records acknowledged, {failed} failed: {detail}");
            return Err(KafkaError::Failed { action: action(), failure, detail });
        }
        flushed.map_err(|error| KafkaError::failed(action(), &error))?;
        Ok(acknowledged)
    }

    /// Hands one record to the client, waiting for room. A record leaves the queue by its own time-out at the latest,
    /// so the wait ends.
    fn send(&self, topic: &str, record: &Outgoing<'_>) -> Result<(), ClientError> {
        let mut native = native(topic, record);
        loop {
            match self.client.send(native) {
                Ok(()) => return Ok(()),
                Err((ClientError::MessageProduction(RDKafkaErrorCode::QueueFull), returned)) => {
                    native = returned;
                    self.client.poll(ROOM_WAIT);
                }
                Err((error, _)) => return Err(error),
            }
        }
    }
}

fn native<'a>(topic: &'a str, record: &'a Outgoing<'_>) -> BaseRecord<'a, [u8], [u8]> {
    let mut native = BaseRecord::to(topic);
    native.partition = record.partition;
    native.key = record.key.as_deref();
    native.payload = record.payload.as_deref();
    native.timestamp = record.record_time.map(|time| time.0);
    if !record.headers.is_empty() {
        let headers = OwnedHeaders::new_with_capacity(record.headers.len());
        native.headers = Some(
            record
                .headers
                .iter()
                .fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(value.as_ref()) })),
        );
    }
    native
}

/// What became of the records since the last start.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    failed: u64,
    first_failure: Option<ClientError>,
}

/// Counts acknowledgements.
#[derive(Default)]
struct Deliveries {
    tally: Mutex<Tally>,
}

impl Deliveries {
    /// Starts a new tally and returns the last one.
    fn start(&self) -> Tally {
        std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(_) => tally.acknowledged += 1,
            Err((error, message)) => {
                tally.failed += 1;
                if tally.first_failure.is_none() {
                    tracing::warn!(%error, topic = message.topic(), partition = message.partition(), "not acknowledged");
                    tally.first_failure = Some(error.clone());
                }
            }
        }
    }
}
