//! Records of a topic into the backfill topic: each keeps the identity and the time that it had there.

use super::BackfillError;
use super::range::{Place, wanted_at_all};
use super::report::Produced;
use super::send::Sender;
use super::touched::Touched;
use crate::config::Config;
use crate::input::decode::Decoder;
use floodmark_kafka::start::starts;
use floodmark_kafka::{Event, KafkaSettings, LostRange, PartitionReader, Record, Start, Topic, Topics};
use floodmark_model::progress::PartitionKey;
use floodmark_model::wire::Rejected;
use floodmark_model::wire::backfill::Headers;
use floodmark_model::{DeadReason, RecordTime, Rule};
use floodmark_sinks::postgres::{PostgresStore, Produced as Stored};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long a poll waits for its first record.
const POLL_WAIT: Duration = Duration::from_millis(100);
/// Records taken before the batch is looked at.
const POLL_RECORDS: usize = 2_000;

/// A range of a topic, by partition.
pub struct TopicRange {
    topic: Topic,
    parts: BTreeMap<i32, Part>,
    resumed: Vec<String>,
}

/// The range of one partition.
#[derive(Clone, Copy, Debug)]
struct Part {
    began: i64,
    /// Records before it were produced by an earlier run: they are looked at, and not sent.
    resume_at: i64,
    /// The next record to read.
    next_offset: i64,
    end: i64,
}

impl TopicRange {
    /// Asks what the topic holds of the range, and the store what an earlier run has produced of it.
    ///
    /// # Errors
    ///
    /// The topic is not there, holds no longer what is wanted, or the range holds nothing.
    pub async fn find(
        store: &PostgresStore,
        (settings, topics): (&KafkaSettings, &Topics),
        name: &str,
        (from, to): (Option<Place>, Option<Place>),
        backfill: &Topic,
        now: RecordTime,
    ) -> Result<Self, BackfillError> {
        let description = topics.describe(name)?;
        let (topic, partitions) = (description.topic.clone(), description.partitions());
        let held: Vec<(i64, i64)> =
            (0..partitions).map(|partition| topics.watermarks(name, partition)).collect::<Result<_, _>>()?;
        let wrong = |why| BackfillError::Usage(format!("{why}; {}", super::held::describe(settings, &topic, &held)));
        wanted_at_all((from, to), &held).map_err(wrong)?;
        let places = |place: Option<Place>| place.map(|place| place.offsets(topics, &topic, partitions)).transpose();
        let (from_offsets, to_offsets) = (places(from)?, places(to)?);
        let (mut parts, mut resumed) = (BTreeMap::new(), Vec::new());
        for (partition, &(low, high)) in (0..).zip(&held) {
            let at = |offsets: &Option<Vec<i64>>| offsets.as_ref().map(|offsets| offsets[partition as usize]);
            let (began, end) = (at(&from_offsets).unwrap_or(low), at(&to_offsets).unwrap_or(high).min(high));
            if matches!(from, Some(Place::Offset(_))) && began < low && began < end {
                return Err(BackfillError::Lost(format!(
                    "topic {name}, partition {partition} holds records from offset {low} on: --from {began} is gone"
                )));
            }
            if began >= end {
                continue;
            }
            let key = PartitionKey { topic_id: topic.id, partition };
            let stored = store.identify_partition(key, name, now).await?;
            let goes_on = stored.filter(|stored| stored.topic_id == backfill.id && stored.began <= began);
            let resume_at = goes_on.map_or(began, |stored| stored.next_offset.clamp(began, end));
            if resume_at > began {
                resumed.push(format!(
                    "{name}/{partition}: went on at offset {resume_at}, where an earlier run was cut off"
                ));
            }
            let part = Part { began: goes_on.map_or(began, |stored| stored.began), resume_at, next_offset: began, end };
            parts.insert(partition, part);
        }
        if parts.is_empty() && (from.is_some() || to.is_some()) {
            return Err(wrong("no record lies between --from and --to".to_owned()));
        }
        Ok(Self { topic, parts, resumed })
    }

    /// Records that are still to be read, at most.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.parts.values().map(|part| (part.end - part.next_offset).unsigned_abs()).sum()
    }

    /// The backfill of this range is finished.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn forget(&self, store: &PostgresStore) -> Result<(), BackfillError> {
        for partition in self.parts.keys() {
            store.note_produced(PartitionKey { topic_id: self.topic.id, partition: *partition }, None).await?;
        }
        Ok(())
    }
}

/// Sends records of a topic.
pub struct TopicProducer<'a> {
    /// Where they go.
    pub sender: &'a mut Sender,
    /// How clients are set up.
    pub settings: &'a KafkaSettings,
    /// Asks the brokers.
    pub topics: &'a Topics,
    /// Remembers how far that is.
    pub store: &'a PostgresStore,
    /// Where the store is called.
    pub runtime: &'a Handle,
    /// The configuration.
    pub config: &'a Config,
    /// The rules that may judge the records.
    pub rules: &'a [Rule],
    /// What was produced.
    pub produced: &'a mut Produced,
    /// Which windows that touches.
    pub touched: &'a mut Touched,
}

impl TopicProducer<'_> {
    /// Sends the whole range. `left` is told how many records are still to be read.
    ///
    /// # Errors
    ///
    /// The range was not sent to its end.
    pub fn send(&mut self, range: &mut TopicRange, mut left: impl FnMut(u64)) -> Result<(), BackfillError> {
        self.produced.resumed.append(&mut range.resumed);
        let decoder = Decoder::json(self.config);
        let wanted = range.parts.iter().map(|(partition, part)| (*partition, Some(part.next_offset)));
        let found = starts(self.topics, &range.topic.name, wanted)?;
        found.iter().try_for_each(|start: &Start| start.lost.as_ref().map_or(Ok(()), refuse))?;
        let mut reader = PartitionReader::new(self.settings, &self.config.kafka.group, range.topic.clone())?;
        reader.add(&found)?;
        let (mut clock_ms, mut lost) = (0, None);
        while range.records() > 0 {
            clock_ms += 1;
            let TopicRange { topic, parts, .. } = &mut *range;
            reader.poll_some(clock_ms, POLL_WAIT, POLL_RECORDS, &mut |event| match event {
                Event::Record(record) => self.record(&decoder, &record, &topic.name, parts),
                // Behind the last record there may be some that no reader sees.
                Event::EndOfPartition { partition, next_offset } => reached(parts, partition, next_offset),
                Event::Lost(records) => lost = Some(records),
                Event::Trouble(what) => tracing::warn!(what, "kafka"),
            })?;
            lost.as_ref().map_or(Ok(()), refuse)?;
            if self.sender.is_full() {
                self.flush(range)?;
            }
            left(range.records());
        }
        self.flush(range)
    }

    fn record(&mut self, decoder: &Decoder, record: &Record<'_>, name: &str, parts: &mut BTreeMap<i32, Part>) {
        let Some(&part) = parts.get(&record.at.partition) else { return };
        reached(parts, record.at.partition, record.at.offset + 1);
        if record.at.offset >= part.end {
            return;
        }
        let place = || format!("{name}/{}:{}", record.at.partition, record.at.offset);
        match record.raw().map(|raw| decoder.decode(raw)) {
            None => self.produced.rejected(&Rejected::new(DeadReason::TimeOutOfRange, "the record has no time"), place),
            Some(Err(rejected)) => self.produced.rejected(&rejected, place),
            Some(Ok(Some(occurrence))) => self.touched.add(self.rules, &occurrence),
            Some(Ok(None)) => {}
        }
        if record.at.offset < part.resume_at {
            return;
        }
        let headers = Headers { origin: Some(record.at), record_time: record.record_time, ..Headers::default() };
        self.sender.push(record.at, &headers, record.payload);
    }

    fn flush(&mut self, range: &TopicRange) -> Result<(), BackfillError> {
        self.produced.records += self.sender.flush()?;
        let topic_id = self.sender.topic().id;
        for (partition, part) in &range.parts {
            let key = PartitionKey { topic_id: range.topic.id, partition: *partition };
            let stored = Stored { topic_id, began: part.began, next_offset: part.next_offset.max(part.resume_at) };
            self.runtime.block_on(self.store.note_produced(key, Some(stored)))?;
        }
        Ok(())
    }
}

fn reached(parts: &mut BTreeMap<i32, Part>, partition: i32, next_offset: i64) {
    if let Some(part) = parts.get_mut(&partition) {
        part.next_offset = part.next_offset.max(next_offset.min(part.end));
    }
}

fn refuse(lost: &LostRange) -> Result<(), BackfillError> {
    Err(BackfillError::Lost(format!("{lost}: give a --from that the topic still holds")))
}
