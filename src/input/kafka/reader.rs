//! The reading thread of one worker.

use super::backfill::{BackfillReader, Pace};
use super::watch::{Monitors, Watch};
use super::{BackfillLog, KafkaInput};
use crate::input::decode::Decoder;
use crate::pipeline::intake::Intake;
use crate::pipeline::persist::Ended;
use crate::pipeline::{Output, Reader, Seat};
use floodmark_dataflow::message::{Batch, PartitionUpdate, Reading};
use floodmark_kafka::start::starts;
use floodmark_kafka::{Event, Idleness, PartitionReader, Record, Start, Topic, Topics, owned};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::wire::Rejected;
use floodmark_model::{DeadReason, EventTime, RawRecord, RecordTime};
use std::sync::Arc;
use std::time::Duration;

/// How long a poll waits for its first record. It returns as soon as one is there.
const POLL_WAIT: Duration = Duration::from_millis(50);
/// How often claims to be idle are renewed; they run out after three seconds.
const RENEW_MS: i64 = 500;

/// Reads the partitions of one worker.
pub(super) struct KafkaReader {
    pub(super) input: Arc<KafkaInput>,
    pub(super) topic: Topic,
    /// How many partitions the topic had.
    pub(super) partitions: i32,
    pub(super) starts: Vec<Start>,
    pub(super) watch: Arc<Watch>,
    /// The first worker's thread also starts the one that watches the topics.
    pub(super) monitors: Option<Monitors>,
}

impl Reader for KafkaReader {
    fn read(mut self: Box<Self>, seat: Seat) {
        let monitors = self.monitors.take();
        std::thread::scope(|scope| {
            if let Some(mut monitors) = monitors {
                let (watch, input) = (Arc::clone(&self.watch), Arc::clone(&self.input));
                scope.spawn(move || watch.keep(&mut monitors, &input));
            }
            // An error says that the pipeline has ended, and `stop` knows why.
            let _ = self.run(seat);
        });
    }
}

impl KafkaReader {
    fn run(&self, seat: Seat) -> Result<(), Ended> {
        let input = &*self.input;
        let reader = PartitionReader::new(&input.settings, &input.config.kafka.group, self.topic.clone());
        let now_ms = input.clock.now_ms();
        let mut thread = ReadingThread {
            input,
            reader: input.checked(reader)?,
            state: State {
                intake: seat.intake,
                output: seat.output,
                decoder: Decoder::json(&input.config),
                idleness: Idleness::new(input.config.time.idle_after_ms, now_ms),
                topic: self.topic.clone(),
                renewed_ms: now_ms,
                handed_over: Ok(()),
            },
            progress: seat.progress,
            partitions: self.partitions,
            own: (seat.worker, seat.peers),
            backfill: None,
        };
        thread.take_on(&self.starts)?;
        let mut version = 0;
        while !seat.stop.is_stopped() {
            let pace = thread.backfill_step()?;
            thread.poll(pace.wait(POLL_WAIT))?;
            if let Some(latest) = self.watch.newer_than(&mut version) {
                thread.state.idleness.leaders(&latest.leaders, latest.asked_ms);
                thread.grow(i32::try_from(latest.leaders.len()).unwrap_or(i32::MAX))?;
                latest.backfill.iter().try_for_each(|log| thread.take_on_backfill(log))?;
            }
        }
        Ok(())
    }
}

struct ReadingThread<'a> {
    input: &'a KafkaInput,
    reader: PartitionReader,
    state: State,
    progress: Arc<Progress>,
    partitions: i32,
    /// Index of the worker, and how many there are.
    own: (usize, usize),
    /// The backfill topic, once there is one.
    backfill: Option<BackfillReader>,
}

/// What a poll hands its events to.
pub(super) struct State {
    pub(super) intake: Intake,
    pub(super) output: Output,
    decoder: Decoder,
    idleness: Idleness,
    pub(super) topic: Topic,
    renewed_ms: i64,
    pub(super) handed_over: Result<(), Ended>,
}

impl ReadingThread<'_> {
    /// Begins to read partitions, and tells the source of them.
    fn take_on(&mut self, starts: &[Start]) -> Result<(), Ended> {
        let now_ms = self.input.clock.now_ms();
        let assigned = starts.iter().map(|start| self.assign(start, now_ms)).collect();
        self.state.output.send(Batch::Assigned(assigned))?;
        self.input.checked(self.reader.add(starts))
    }

    fn assign(&mut self, start: &Start, now_ms: i64) -> (PartitionUpdate, Option<EventTime>) {
        self.state.idleness.add(start.partition, start.is_empty);
        let key = self.state.key(start.partition);
        let stored = self.progress.partitions.get(&key).copied();
        let reading = self.state.reading(start.partition, now_ms);
        self.state.intake.assign(key, stored, start.next_offset, reading)
    }

    /// Takes on what is new of the backfill topic.
    fn take_on_backfill(&mut self, log: &BackfillLog) -> Result<(), Ended> {
        let backfill = match &mut self.backfill {
            Some(backfill) => backfill,
            none => none.insert(BackfillReader::new(self.input, log.topic.clone(), self.own)?),
        };
        backfill.take_on(self.input, log, &self.progress, &mut self.state)
    }

    fn backfill_step(&mut self) -> Result<Pace, Ended> {
        match &mut self.backfill {
            Some(backfill) => backfill.step(self.input, &mut self.state),
            None => Ok(Pace::Idle),
        }
    }

    /// Reads what is there, and hands it on; waits for it so long.
    fn poll(&mut self, wait: Duration) -> Result<(), Ended> {
        let now_ms = self.input.clock.now_ms();
        let (state, input) = (&mut self.state, self.input);
        let mut lost = Vec::new();
        let polled = self.reader.poll(now_ms, wait, &mut |event| match event {
            Event::Record(record) => state.record(&record),
            Event::EndOfPartition { partition, next_offset } => {
                state.intake.skip_to(state.key(partition), next_offset);
                state.idleness.end_of_partition(partition, now_ms);
            }
            Event::Lost(range) => lost.push(range),
            Event::Trouble(what) => input.health.trouble("kafka", what),
        });
        let polled = input.checked(polled)?;
        for range in lost {
            input.check_same(&self.state.topic)?;
            input.accept_loss(&range)?;
            self.state.intake.skip_to(self.state.key(range.partition), range.resume_at());
            input.checked(self.reader.resume(&range))?;
        }
        self.state.idleness.seen(polled.seen_until_ms);
        self.state.claim_idle(input.clock.now_ms());
        self.state.hand_over();
        self.state.handed_over
    }

    /// Takes on partitions that the topic has got since.
    fn grow(&mut self, partitions: i32) -> Result<(), Ended> {
        if partitions <= self.partitions {
            return Ok(());
        }
        let topic = self.state.topic.name.clone();
        tracing::info!(topic = &*topic, from = self.partitions, to = partitions, "the topic has new partitions");
        let (worker, peers) = self.own;
        let new: Vec<_> = owned(partitions, worker, peers).filter(|partition| *partition >= self.partitions).collect();
        self.partitions = partitions;
        if new.is_empty() {
            return Ok(());
        }
        let topics = self.input.checked(Topics::new(&self.input.settings, super::ANSWER_TIMEOUT))?;
        let ask = || starts(&topics, &topic, new.iter().map(|partition| (*partition, None)));
        let starts = self.input.until_answered(ask)?;
        self.take_on(&starts)
    }
}

impl State {
    fn key(&self, partition: i32) -> PartitionKey {
        PartitionKey { topic_id: self.topic.id, partition }
    }

    fn record(&mut self, record: &Record<'_>) {
        self.idleness.record(record.at.partition);
        let next_offset = record.at.offset + 1;
        match record.raw() {
            Some(raw) => {
                let decoded = self.decoder.decode(raw);
                self.intake.record(raw, next_offset, decoded);
            }
            None => {
                let raw = RawRecord { at: record.at, record_time: RecordTime(0), payload: record.payload };
                let detail = "the record has no time: its producer wrote none";
                self.intake.record(raw, next_offset, Err(Rejected::new(DeadReason::TimeOutOfRange, detail)));
            }
        }
        if self.intake.is_full() {
            self.hand_over();
        }
    }

    pub(super) fn hand_over(&mut self) {
        if let Some(batch) = self.intake.take()
            && self.handed_over.is_ok()
        {
            self.handed_over = self.output.send(batch);
        }
    }

    fn reading(&self, partition: i32, now_ms: i64) -> Reading {
        match self.idleness.idle_until(partition) {
            Some(until_ms) if now_ms < until_ms => Reading::IdleUntil(until_ms),
            _ => Reading::Active,
        }
    }

    /// T-4: says which partitions are idle, and renews what was said before it runs out.
    fn claim_idle(&mut self, now_ms: i64) {
        let mut changed = false;
        self.idleness.changes(now_ms, |_, _| changed = true);
        if !changed && now_ms < self.renewed_ms + RENEW_MS {
            return;
        }
        self.renewed_ms = now_ms;
        let is_live = |key: &PartitionKey| key.topic_id == self.topic.id;
        let keys: Vec<_> = self.intake.partitions().filter(is_live).collect();
        for key in keys {
            let reading = self.reading(key.partition, now_ms);
            self.intake.set_reading(key, reading);
        }
    }
}
