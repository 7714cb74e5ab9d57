//! One worker's partitions of one topic (design, decision 7).
//!
//! - **Assigned by hand.** No group is joined, nothing rebalances, nothing is committed here.
//! - **In order.** Per partition, records come in the order of their offsets, each once per [`PartitionReader::add`] or
//!   [`PartitionReader::resume`]; the end of a partition is told after all records before it.
//! - **No silent loss.** A place that the log no longer holds is told as [`Event::Lost`], and the partition stands still
//!   until the caller accepts it. A record that the client had to skip, because it is corrupt, is an error.
//! - **Bounded.** At most [`POLL_EVENTS_MAX`] events a call; the queue behind it is bounded in bytes and records.

use crate::context::Context;
use crate::error::classify_code;
use crate::settings::{FETCH_BYTES, QUEUE_KBYTES};
use crate::{Failure, KafkaError, KafkaSettings, LostRange, Start, Topic};
use floodmark_model::{Coordinates, RawRecord, RecordTime};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most events of one [`PartitionReader::poll`].
pub const POLL_EVENTS_MAX: usize = 4_096;

/// How long the question may take what a partition holds, once reading it has failed.
const WATERMARKS_TIMEOUT: Duration = Duration::from_secs(5);

/// So many bytes of values handed over have emptied a full queue: its bound, and one fetch on top of it, which
/// decompresses to at most eight times its size.
const TURN_BYTES: usize = QUEUE_KBYTES * 1024 + 8 * FETCH_BYTES;

/// What a reader hands over.
pub enum Event<'a> {
    /// A record.
    Record(Record<'a>),
    /// The partition was read to its end: `next_offset` is the place after the last record that was handed over.
    EndOfPartition {
        /// Partition.
        partition: i32,
        /// Next offset to read.
        next_offset: i64,
    },
    /// The log no longer holds the next record. The partition stands still until [`PartitionReader::resume`].
    Lost(LostRange),
    /// Something is wrong that will pass, or that a human has to set right meanwhile; the client keeps trying.
    Trouble(String),
}

/// One record as Kafka holds it.
pub struct Record<'a> {
    /// Where it stands.
    pub at: Coordinates,
    /// The time that Kafka holds for it: its producer's, or the broker's where the topic says so (Q39). `None` where
    /// a producer wrote none, so that T-1 and T-2 have no reference.
    pub record_time: Option<RecordTime>,
    /// Its value.
    pub payload: Option<&'a [u8]>,
    message: &'a BorrowedMessage<'a>,
}

impl<'a> Record<'a> {
    /// What is decoded; `None` without a record time. Such a record is a dead letter (`time_out_of_range`): any time
    /// made up for it would either move a watermark or page for 1970.
    #[must_use]
    pub fn raw(&self) -> Option<RawRecord<'a>> {
        Some(RawRecord { at: self.at, record_time: self.record_time?, payload: self.payload })
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.message.key()
    }

    /// The value of its first header with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.message.headers()?.iter().find(|header| header.key == name)?.value
    }
}

/// What one poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Records handed over.
    pub records: usize,
    /// All that had reached the reader by this moment of the caller's clock has been handed over (T-4).
    pub seen_until_ms: i64,
}

/// Reads the partitions of one worker.
pub struct PartitionReader {
    consumer: BaseConsumer<Context>,
    topic: Topic,
    /// The next offset of each partition.
    positions: BTreeMap<i32, i64>,
    /// Partitions that stand still.
    lost: BTreeSet<i32>,
    /// Some partition could not be read on; which one, and why, is still to be asked.
    has_stopped: bool,
    turn: Turn,
}

impl PartitionReader {
    /// A reader of no partitions yet. Connects when the first ones are added. `group` only names it: no group is
    /// joined.
    ///
    /// # Errors
    /// The settings do not make a client.
    pub fn new(settings: &KafkaSettings, group: &str, topic: Topic) -> Result<Self, KafkaError> {
        let consumer = settings
            .reader(group)
            .create_with_context(Context::default())
            .map_err(|error| KafkaError::failed("make a consumer", &error))?;
        let turn = Turn::default();
        Ok(Self { consumer, topic, positions: BTreeMap::new(), lost: BTreeSet::new(), has_stopped: false, turn })
    }

    /// Begins to read partitions at their `next_offset`, also where that has a loss: whether to accept it is decided
    /// before. Partitions that are read already stay where they are.
    ///
    /// # Errors
    /// The client refuses the assignment.
    pub fn add(&mut self, starts: &[Start]) -> Result<(), KafkaError> {
        for start in starts {
            self.positions.entry(start.partition).or_insert(start.next_offset);
        }
        self.assign()
    }

    /// Accepts a loss: reads on where the log can be read.
    ///
    /// # Errors
    /// The client refuses the assignment.
    pub fn resume(&mut self, lost: &LostRange) -> Result<(), KafkaError> {
        if self.lost.remove(&lost.partition) {
            self.positions.insert(lost.partition, lost.resume_at());
        }
        self.assign()
    }

    /// The next offset of each partition: behind every record handed over.
    #[must_use]
    pub fn positions(&self) -> &BTreeMap<i32, i64> {
        &self.positions
    }

    /// Hands what is there to `sink`, at most [`POLL_EVENTS_MAX`] events; waits up to `timeout` for the first one only.
    /// `now_ms` is the caller's clock; it does not go back.
    ///
    /// # Errors
    /// Only what no waiting cures: records that cannot be read, or a client that has given up. The events before it
    /// have been handed over.
    pub fn poll(
        &mut self,
        now_ms: i64,
        timeout: Duration,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<Polled, KafkaError> {
        self.poll_some(now_ms, timeout, POLL_EVENTS_MAX, sink)
    }

    /// [`Self::poll`] for at most so many events.
    ///
    /// # Errors
    /// Those of [`Self::poll`].
    pub fn poll_some(
        &mut self,
        now_ms: i64,
        timeout: Duration,
        events_max: usize,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<Polled, KafkaError> {
        let (mut records, mut bytes, mut empty_polls, mut wait) = (0, 0, 0, timeout);
        for _ in 0..events_max {
            match self.consumer.poll(wait) {
                Some(Ok(message)) => {
                    let position = self.positions.entry(message.partition()).or_insert(message.offset());
                    // Left in the queue from before an assignment, and read again since.
                    if message.offset() >= *position {
                        *position = message.offset() + 1;
                        records += 1;
                        bytes += message.payload_len();
                        sink(Event::Record(record(&message, &self.topic)));
                    }
                }
                Some(Err(error)) => self.complaint(&error, sink)?,
                // It also stands for an event inside the client: only the second one in a row means an empty queue.
                None if empty_polls == 1 => {
                    empty_polls = 2;
                    break;
                }
                None => {
                    empty_polls = 1;
                    wait = Duration::ZERO;
                    continue;
                }
            }
            (empty_polls, wait) = (0, Duration::ZERO);
        }
        if self.has_stopped {
            self.find_lost(sink)?;
        }
        let seen_until_ms = self.turn.polled(now_ms, bytes, empty_polls == 2);
        Ok(Polled { records, seen_until_ms })
    }

    /// What to make of an error in the queue.
    fn complaint(&mut self, error: &ClientError, sink: &mut impl FnMut(Event<'_>)) -> Result<(), KafkaError> {
        match error {
            ClientError::PartitionEOF(partition) => {
                if let Some(&next_offset) = self.positions.get(partition) {
                    sink(Event::EndOfPartition { partition: *partition, next_offset });
                }
                return Ok(());
            }
            ClientError::MessageConsumption(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation) => {
                self.has_stopped = true;
                return Ok(());
            }
            _ => {}
        }
        // The reason names partition and offset, the code does not.
        let detail = self.consumer.client().context().take_error().unwrap_or_else(|| error.to_string());
        match error {
            ClientError::MessageConsumption(code) if classify_code(*code) == Failure::Transient => {
                sink(Event::Trouble(detail));
                Ok(())
            }
            _ => Err(KafkaError::Failed {
                action: format!("read topic `{}`", self.topic.name),
                failure: Failure::Permanent,
                detail,
            }),
        }
    }

    /// Finds the partitions whose place the log no longer holds. The client says that there is one, not which; asked
    /// again at the next poll when the brokers do not answer.
    fn find_lost(&mut self, sink: &mut impl FnMut(Event<'_>)) -> Result<(), KafkaError> {
        let mut found = Vec::new();
        for (&partition, &next_offset) in self.positions.iter().filter(|(partition, _)| !self.lost.contains(partition))
        {
            let (low, high) = match self.consumer.fetch_watermarks(&self.topic.name, partition, WATERMARKS_TIMEOUT) {
                Ok(held) => held,
                Err(error) => {
                    sink(Event::Trouble(format!("ask what partition {partition} holds: {error}")));
                    return Ok(());
                }
            };
            found.extend(Start::decide(&self.topic.name, partition, Some(next_offset), low, high).lost);
        }
        self.has_stopped = false;
        self.lost.extend(found.iter().map(|lost| lost.partition));
        // Whichever partition had stopped and is not lost, such as for a log that has grown back, goes on.
        self.assign()?;
        found.into_iter().for_each(|lost| sink(Event::Lost(lost)));
        Ok(())
    }

    /// Assigns all partitions at their positions, but those that stand still. What the queue held is read again, so
    /// this is for rare occasions.
    fn assign(&self) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::with_capacity(self.positions.len());
        for (&partition, &next_offset) in self.positions.iter().filter(|(partition, _)| !self.lost.contains(partition))
        {
            list.add_partition_offset(&self.topic.name, partition, Offset::Offset(next_offset))
                .map_err(|error| KafkaError::failed(format!("assign partition {partition}"), &error))?;
        }
        self.consumer
            .assign(&list)
            .map_err(|error| KafkaError::failed(format!("assign partitions of `{}`", self.topic.name), &error))
    }
}

impl Drop for PartitionReader {
    fn drop(&mut self) {
        // A consumer that still has partitions waits for them when it is closed.
        if let Err(error) = self.consumer.unassign() {
            tracing::debug!(%error, "could not give the partitions back");
        }
    }
}

fn record<'a>(message: &'a BorrowedMessage<'a>, topic: &Topic) -> Record<'a> {
    Record {
        at: Coordinates { topic_id: topic.id, partition: message.partition(), offset: message.offset() },
        record_time: message.timestamp().to_millis().map(RecordTime),
        payload: message.payload(),
        message,
    }
}

/// How far the reader has gone through what had reached it. The queue hands over first what came first: when it was
/// empty, or when more than it can hold was handed over since a moment, all from before that moment is seen.
#[derive(Debug, Default)]
struct Turn {
    began_ms: Option<i64>,
    bytes: usize,
    seen_until_ms: i64,
}

impl Turn {
    /// After a poll that began at `now_ms`. Returns the moment until which all is seen.
    fn polled(&mut self, now_ms: i64, bytes: usize, is_drained: bool) -> i64 {
        let began_ms = *self.began_ms.get_or_insert(now_ms);
        self.bytes += bytes;
        if is_drained {
            self.seen_until_ms = now_ms;
        } else if self.bytes >= TURN_BYTES {
            self.seen_until_ms = began_ms;
        } else {
            return self.seen_until_ms;
        }
        self.began_ms = Some(now_ms);
        self.bytes = 0;
        self.seen_until_ms
    }
}

#[cfg(test)]
mod tests {
    use super::{TURN_BYTES, Turn};

    #[test]
    fn an_empty_queue_shows_all_until_now() {
        let mut turn = Turn::default();
        assert_eq!(turn.polled(100, 10, true), 100);
        assert_eq!(turn.polled(200, 10, false), 100);
        assert_eq!(turn.polled(300, 10, true), 300);
    }

    #[test]
    fn a_queue_that_is_never_empty_shows_what_was_in_it_when_the_turn_began() {
        let mut turn = Turn::default();
        turn.polled(100, 0, true);
        assert_eq!(turn.polled(200, TURN_BYTES - 1, false), 100);
        assert_eq!(turn.polled(300, 1, false), 100, "the turn began at 100");
        assert_eq!(turn.polled(400, TURN_BYTES, false), 300, "the next began at 300");
    }
}
