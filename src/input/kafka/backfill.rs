//! Reading the backfill topic in a worker's reading thread, beside the live one (design, decision 13).
//!
//! The live topic comes first: it is polled between any two steps here, a step is short, and records are handed on only
//! while the budget of rows is nearly empty, so that live ones find room at once. The partitions are read aside: they
//! say nothing of the watermark.

use super::gather::{Gathered, Next};
use super::reader::State;
use super::{BackfillLog, KafkaInput};
use crate::input::decode::Decoder;
use crate::pipeline::persist::Ended;
use floodmark_dataflow::message::{Batch, Reading};
use floodmark_kafka::{Event, PartitionReader, Record, Start, Topic, owned};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::time::Zone;
use floodmark_model::wire::Rejected;
use floodmark_model::wire::backfill::{FORMAT_HEADER, Headers, ZONE_HEADER, bad};
use floodmark_model::{Coordinates, DeadReason, Occurrence, RawRecord, RecordTime};
use floodmark_sinks::rows::day_of;
use std::sync::Arc;
use std::time::Duration;

/// Records that one step reads or hands on.
const STEP_RECORDS: usize = 1_000;
/// Formats and zones of which a decoder is kept.
const DECODERS_MAX: usize = 16;

/// How long the live topic may be waited for until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// There is more to do.
    Busy,
    /// Something waits for its time, or for room.
    Waiting,
    /// There is nothing.
    Idle,
}

impl Pace {
    /// The wait, where an idle thread waits for `idle`.
    pub(super) fn wait(self, idle: Duration) -> Duration {
        match self {
            Self::Busy => Duration::ZERO,
            Self::Waiting => Duration::from_millis(5).min(idle),
            Self::Idle => idle,
        }
    }
}

/// Reads the backfill topic's partitions of one worker.
pub(super) struct BackfillReader {
    reader: PartitionReader,
    topic: Topic,
    /// How many of the topic's partitions are known here.
    partitions: usize,
    /// Index of the worker, and how many there are.
    own: (usize, usize),
    decoders: Decoders,
    gathered: Gathered<Kept>,
}

/// A record that waits for others of its day.
struct Kept {
    at: Coordinates,
    origin: Option<Coordinates>,
    record_time: RecordTime,
    payload: Option<Vec<u8>>,
    /// How it is decoded, or why it is not.
    decoder: Result<Arc<Decoder>, Rejected>,
}

impl Kept {
    fn raw(&self) -> RawRecord<'_> {
        RawRecord { at: self.at, record_time: self.record_time, payload: self.payload.as_deref() }
    }

    fn decoded(&self) -> Result<Option<Occurrence<'_>>, Rejected> {
        self.decoder.as_ref().map_err(Clone::clone)?.decode(self.raw())
    }
}

impl BackfillReader {
    /// Reads no partition yet.
    pub(super) fn new(input: &KafkaInput, topic: Topic, own: (usize, usize)) -> Result<Self, Ended> {
        let reader = PartitionReader::new(&input.settings, &input.config.kafka.group, topic.clone());
        let bytes_max = input.config.limits.max_row_bytes / 2 / own.1.max(1);
        Ok(Self {
            reader: input.checked(reader)?,
            topic,
            partitions: 0,
            own,
            decoders: Decoders::new(input),
            gathered: Gathered::new(bytes_max),
        })
    }

    /// Begins to read those partitions of this worker that it does not read yet.
    pub(super) fn take_on(
        &mut self,
        input: &KafkaInput,
        log: &BackfillLog,
        progress: &Progress,
        state: &mut State,
    ) -> Result<(), Ended> {
        if log.starts.len() <= self.partitions {
            return Ok(());
        }
        let partitions = i32::try_from(log.starts.len()).unwrap_or(i32::MAX);
        let mine: Vec<i32> = owned(partitions, self.own.0, self.own.1).collect();
        let is_new = |start: &&Start| {
            mine.contains(&start.partition) && usize::try_from(start.partition).is_ok_and(|n| n >= self.partitions)
        };
        let starts: Vec<Start> = log.starts.iter().filter(is_new).cloned().collect();
        self.partitions = log.starts.len();
        let assigned = starts.iter().map(|start| {
            let key = self.key(start.partition);
            state.intake.assign(key, progress.partitions.get(&key).copied(), start.next_offset, Reading::Aside)
        });
        let assigned = assigned.collect();
        state.output.send(Batch::Assigned(assigned))?;
        input.checked(self.reader.add(&starts))
    }

    /// Reads some records, or hands some on.
    pub(super) fn step(&mut self, input: &KafkaInput, state: &mut State) -> Result<Pace, Ended> {
        if !self.gathered.is_due(false, input.clock.now_ms()) {
            let read = self.read(input)?;
            if !self.gathered.is_due(read == 0, input.clock.now_ms()) {
                return Ok(match (read, self.gathered.is_empty()) {
                    (1.., _) => Pace::Busy,
                    (0, false) => Pace::Waiting,
                    (0, true) => Pace::Idle,
                });
            }
        }
        self.hand_on(state)
    }

    fn read(&mut self, input: &KafkaInput) -> Result<usize, Ended> {
        let now_ms = input.clock.now_ms();
        let (gathered, decoders) = (&mut self.gathered, &mut self.decoders);
        let mut lost = Vec::new();
        let mut sink = |event: Event<'_>| match event {
            Event::Record(record) => {
                let kept = decoders.keep(&record);
                let day = kept.decoded().ok().flatten().map_or(i32::MIN, |occurrence| day_of(occurrence.ts));
                let bytes = record.payload.map_or(0, <[u8]>::len);
                gathered.push(day, bytes, kept, now_ms);
                gathered.reached(record.at.partition, record.at.offset + 1, now_ms);
            }
            Event::EndOfPartition { partition, next_offset } => gathered.reached(partition, next_offset, now_ms),
            Event::Lost(range) => lost.push(range),
            Event::Trouble(what) => input.health.trouble("kafka", what),
        };
        let polled = self.reader.poll_some(now_ms, Duration::ZERO, STEP_RECORDS, &mut sink);
        let polled = input.checked(polled)?;
        for range in lost {
            input.check_same(&self.topic)?;
            input.accept_loss(&range)?;
            self.gathered.reached(range.partition, range.resume_at(), now_ms);
            input.checked(self.reader.resume(&range))?;
        }
        Ok(polled.records)
    }

    fn hand_on(&mut self, state: &mut State) -> Result<Pace, Ended> {
        if !state.intake.has_room_to_spare() {
            return Ok(Pace::Waiting);
        }
        for _ in 0..STEP_RECORDS {
            match self.gathered.next() {
                Next::Record(kept) => {
                    state.intake.backfilled(kept.raw(), kept.origin, state.topic.id, kept.decoded());
                    if state.intake.is_full() {
                        break;
                    }
                }
                Next::End(next_offsets) => {
                    for (partition, next_offset) in next_offsets {
                        state.intake.gathered_to(self.key(partition), next_offset);
                    }
                    break;
                }
            }
        }
        state.hand_over();
        state.handed_over.map(|()| Pace::Busy)
    }

    fn key(&self, partition: i32) -> PartitionKey {
        PartitionKey { topic_id: self.topic.id, partition }
    }
}

/// Decoders by what the headers of records ask for.
struct Decoders {
    json: Arc<Decoder>,
    config: Arc<crate::config::Config>,
    known: Vec<(Option<String>, Option<String>, Arc<Decoder>)>,
}

impl Decoders {
    fn new(input: &KafkaInput) -> Self {
        let json = Arc::new(Decoder::json(&input.config));
        Self { json, config: Arc::clone(&input.config), known: Vec::new() }
    }

    fn keep(&mut self, record: &Record<'_>) -> Kept {
        let headers = Headers::read(|name| record.header(name));
        let origin = headers.as_ref().ok().and_then(|headers| headers.origin);
        // A record that stands for itself has its own time.
        let record_time = match &headers {
            Ok(headers) if origin.is_some() => headers.record_time,
            _ => record.record_time,
        };
        let no_time = || Rejected::new(DeadReason::TimeOutOfRange, "the record has no time: its producer wrote none");
        let decoder = headers
            .and_then(|headers| record_time.map(|_| headers).ok_or_else(no_time))
            .and_then(|headers| self.decoder(headers.format, headers.zone));
        let payload = record.payload.map(<[u8]>::to_vec);
        Kept { at: record.at, origin, record_time: record_time.unwrap_or(RecordTime(0)), payload, decoder }
    }

    fn decoder(&mut self, format: Option<&str>, zone: Option<&str>) -> Result<Arc<Decoder>, Rejected> {
        if format.is_none() && zone.is_none() {
            return Ok(Arc::clone(&self.json));
        }
        let known = self.known.iter().find(|known| known.0.as_deref() == format && known.1.as_deref() == zone);
        if let Some((.., decoder)) = known {
            return Ok(Arc::clone(decoder));
        }
        let decoder = Arc::new(self.new_decoder(format, zone)?);
        if self.known.len() >= DECODERS_MAX {
            self.known.clear();
        }
        self.known.push((format.map(str::to_owned), zone.map(str::to_owned), Arc::clone(&decoder)));
        Ok(decoder)
    }

    fn new_decoder(&self, format: Option<&str>, zone: Option<&str>) -> Result<Decoder, Rejected> {
        let decoder = match format {
            None => Decoder::json(&self.config),
            Some(format) => Decoder::text(&self.config, format.parse().map_err(|_| bad(FORMAT_HEADER, format))?),
        };
        Ok(match zone {
            None => decoder,
            Some(zone) => decoder.in_zone(Zone::get(zone).map_err(|_| bad(ZONE_HEADER, zone))?),
        })
    }
}
