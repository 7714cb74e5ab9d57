//! The plain state of a process with several workers in one thread: every message, frontier and capability stands still
//! until a run moves it.

use super::engine::{Engine, Figures, Start};
use super::lanes::{Lanes, Sent};
use crate::scenarios_runners::stored::{IDLE, Stored};
use floodmark::pipeline::budget::Admitted;
use floodmark::pipeline::intake::Intake;
use floodmark_dataflow::egress::IN_FLIGHT_MAX;
use floodmark_dataflow::epoch::{Epoch, epoch_at};
use floodmark_dataflow::message::{Answer, Batch, Closing, Control, Crowd, Due, Message, Question};
use floodmark_dataflow::progress::Cut;
use floodmark_dataflow::state::crowds::Crowds;
use floodmark_dataflow::state::judge::Judge;
use floodmark_dataflow::state::merged_watermark::MergedWatermark;
use floodmark_dataflow::state::partitions::Partitions;
use floodmark_model::EventTime;
use floodmark_model::progress::PartitionKey;
use floodmark_testkit::scenario::Record;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Turns after which everything must have settled.
const TURNS_MAX: usize = 500;

/// All workers of a process.
pub(super) struct OneThread {
    workers: Vec<Worker>,
    /// From each source to each judge.
    channels: Vec<Vec<VecDeque<(Epoch, Message)>>>,
    crowds: Crowds,
    /// What they forget when every judge has said all of an epoch.
    passed: Option<(Epoch, EventTime)>,
    clock_ms: i64,
}

struct Worker {
    intake: Intake,
    partitions: Partitions,
    /// Where its source's capabilities are.
    epoch: Epoch,
    /// What was read that its source has not spoken of: a partition is idle only after a while (T-4).
    unspoken: Unspoken,
    cuts: VecDeque<Cut>,
    merged: MergedWatermark,
    watermark: Option<EventTime>,
    judge: Judge,
    /// Where the judge's capabilities are: of what is due and what closes, and of what it says of crowds.
    open: Epoch,
    said: Epoch,
    seen: Epoch,
    questions: Vec<Question>,
    answers: Vec<Answer>,
    rows: Outbox<Admitted>,
    due: Outbox<Due>,
    closings: Outbox<Closing>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unspoken {
    Nothing,
    Read,
    HandedOver,
}

/// As the egress does: a delivery holds the least epoch of its items.
struct Outbox<T> {
    buffer: Vec<T>,
    least: Option<Epoch>,
    in_flight: BTreeMap<u64, Epoch>,
    sent: u64,
}

/// A delivery by its lane, worker and number.
pub(super) struct Number {
    lane: Lane,
    worker: usize,
    number: u64,
}

#[derive(Clone, Copy)]
enum Lane {
    Rows,
    Due,
    Closings,
}

impl<T> Outbox<T> {
    fn new() -> Self {
        Self { buffer: Vec::new(), least: None, in_flight: BTreeMap::new(), sent: 0 }
    }

    fn push(&mut self, epoch: Epoch, item: T) {
        self.buffer.push(item);
        self.least = Some(self.least.map_or(epoch, |least| least.min(epoch)));
    }

    fn depart(&mut self) -> Option<(u64, Vec<T>)> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let epoch = self.least.take()?;
        self.sent += 1;
        self.in_flight.insert(self.sent, epoch);
        Some((self.sent, std::mem::take(&mut self.buffer)))
    }

    fn open(&self) -> Option<Epoch> {
        self.in_flight.values().copied().chain(self.least).min()
    }
}

impl OneThread {
    fn peers(&self) -> usize {
        self.workers.len()
    }

    /// The least epoch of which messages may still come.
    fn messages_open(&self) -> Epoch {
        let sources = self.workers.iter().map(|worker| worker.epoch);
        let messages = self.channels.iter().flatten().flatten().map(|(epoch, _)| *epoch);
        sources.chain(messages).min().unwrap_or(0)
    }

    /// The least epoch of which rows may still come, or are not acknowledged.
    fn rows_open(&self) -> Epoch {
        let sources = self.workers.iter().map(|worker| worker.epoch);
        sources.chain(self.workers.iter().filter_map(|worker| worker.rows.open())).min().unwrap_or(0)
    }

    /// The least epoch of which anything is open.
    fn open(&self) -> Epoch {
        let judges = self.workers.iter().map(|worker| worker.open.min(worker.said));
        let outboxes = |worker: &Worker| [worker.due.open(), worker.closings.open()].into_iter().flatten().min();
        let least = judges.chain(self.workers.iter().filter_map(outboxes)).min();
        least.unwrap_or(0).min(self.messages_open()).min(self.rows_open())
    }

    fn crowd(&mut self, epoch: Epoch, said: &Crowd) {
        if let Some(panes) = self.crowds.add(said) {
            let owner = said.key.route() as usize % self.peers();
            self.workers[owner].due.push(epoch, Due::Crowd { key: said.key, panes });
        }
    }
}

impl OneThread {
    fn forget_crowds(&mut self, passed: Option<(Epoch, EventTime)>) {
        let open = self.workers.iter().map(|worker| worker.said).min().unwrap_or(0);
        if let Some((_, watermark)) = self.passed.take_if(|(epoch, _)| *epoch < open) {
            self.crowds.forget(watermark);
        }
        self.passed = self.passed.or(passed);
    }
}

impl Engine for OneThread {
    type Acknowledge = Number;
    type Reply = usize;

    fn start(start: &Start<'_>) -> Self {
        let peers = start.workers;
        let worker = |index: usize| {
            let mut intake = Intake::new(Arc::clone(&start.process.intake));
            let mut partitions = Partitions::new(start.stored.lateness_ms());
            for key in start.partitions(index) {
                let (update, watermark) = start.process.assign(&mut intake, start.log, key);
                partitions.assign(update, watermark);
            }
            let settings = start.judge(index);
            Worker {
                intake,
                partitions,
                epoch: 0,
                unspoken: Unspoken::HandedOver,
                cuts: VecDeque::new(),
                merged: MergedWatermark::new(peers, settings.start),
                watermark: settings.start,
                judge: Judge::new(&settings),
                open: 0,
                said: 0,
                seen: 0,
                questions: Vec::new(),
                answers: Vec::new(),
                rows: Outbox::new(),
                due: Outbox::new(),
                closings: Outbox::new(),
            }
        };
        let mut channels = vec![vec![VecDeque::new(); peers]; peers];
        for event in &start.process.loaded {
            let message = Message::Event(*event);
            channels[0][message.route() as usize % peers].push_back((0, message));
        }
        let crowds = Crowds::new(start.stored.max_fingerprints().into());
        Self { workers: (0..peers).map(worker).collect(), channels, crowds, passed: None, clock_ms: start.clock_ms }
    }

    fn read(&mut self, stored: &Stored, record: &Record) {
        let peers = self.peers();
        let worker = &mut self.workers[record.at.partition as usize % peers];
        let raw = record.as_raw();
        let key = PartitionKey { topic_id: record.at.topic_id, partition: record.at.partition };
        if worker.intake.next_offset(key) <= Some(record.at.offset) {
            worker.unspoken = Unspoken::Read;
        }
        worker.intake.record(raw, record.at.offset + 1, stored.decoder().decode(raw));
    }

    fn be_idle(&mut self, key: PartitionKey, _: bool) {
        let worker = key.partition as usize % self.peers();
        if self.workers[worker].unspoken == Unspoken::Nothing {
            self.workers[worker].intake.set_reading(key, IDLE);
        }
    }

    fn hand_over(&mut self, worker: usize) {
        let peers = self.peers();
        let from = worker % peers;
        let worker = &mut self.workers[from];
        let Some(Batch::Read { events, rows, partitions }) = worker.intake.take() else { return };
        if worker.unspoken == Unspoken::Read {
            worker.unspoken = Unspoken::HandedOver;
        }
        partitions.into_iter().for_each(|update| worker.partitions.update(update));
        for event in events {
            let message = Message::Event(event);
            self.channels[from][message.route() as usize % peers].push_back((worker.epoch, message));
        }
        rows.into_iter().for_each(|rows| worker.rows.push(worker.epoch, rows));
    }

    fn set_clock(&mut self, clock_ms: i64) {
        self.clock_ms = clock_ms;
    }

    fn enter_epoch(&mut self, worker: usize) {
        let source = worker % self.peers();
        let epoch = epoch_at(self.clock_ms);
        let worker = &mut self.workers[source];
        if epoch <= worker.epoch {
            return;
        }
        let partitions = worker.partitions.take_progress(worker.watermark, self.clock_ms);
        worker.cuts.push_back(Cut { epoch: worker.epoch, partitions });
        worker.epoch = epoch;
        if worker.unspoken == Unspoken::HandedOver {
            worker.unspoken = Unspoken::Nothing;
        }
        let watermark = worker.partitions.watermark(self.clock_ms);
        for (to, channel) in self.channels[source].iter_mut().enumerate() {
            let control = Control { source: source as u32, to: to as u32, watermark, clock_ms: self.clock_ms };
            channel.push_back((epoch, Message::Control(control)));
        }
    }

    fn judge(&mut self, worker: usize, messages: usize) {
        let to = worker % self.peers();
        let rows_open = self.rows_open();
        let is_acknowledged = |epoch| epoch < rows_open;
        let Worker { judge, merged, seen, due, .. } = &mut self.workers[to];
        for channel in self.channels.iter_mut().map(|channels| &mut channels[to]) {
            for (epoch, message) in channel.drain(..messages.min(channel.len())) {
                *seen = epoch.max(*seen);
                match message {
                    Message::Event(event) => judge.apply(&event, epoch, &mut |new| due.push(epoch, new)),
                    Message::Control(control) => merged.update(&control),
                }
            }
        }
        let messages_open = self.messages_open();
        let Worker { judge, merged, open, due, answers, questions, closings, seen, .. } = &mut self.workers[to];
        let watermark = merged.advance();
        for answer in std::mem::take(answers) {
            judge.answer(answer, &mut |new| due.push(*open, new));
        }
        if merged.is_live() {
            judge.advance(watermark, *seen, &mut |new| due.push(*open, new));
        }
        let mut said = Vec::new();
        judge.tell(|crowd| said.push(crowd));
        if judge.is_waiting() {
            let close = &mut |closing| closings.push(*open, closing);
            judge.release(is_acknowledged, &mut |new| due.push(*open, new), close);
        }
        while let Some(question) = judge.ask(is_acknowledged) {
            questions.push(question);
        }
        let oldest = judge.oldest_epoch().map_or(messages_open, |oldest| oldest.min(messages_open));
        *open = oldest.max(*open);
        let worker = &mut self.workers[to];
        worker.watermark = watermark;
        let passed = watermark.map(|watermark| (worker.seen, watermark));
        let said_at = std::mem::replace(&mut worker.said, messages_open);
        said.iter().for_each(|crowd| self.crowd(said_at, crowd));
        self.forget_crowds(passed);
    }

    fn depart(&mut self, lanes: &mut Lanes<Number, usize>) {
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let number = |lane, number| Number { lane, worker: index, number };
            if let Some((sent, items)) = worker.rows.depart() {
                lanes.rows.push(Sent { items, acknowledge: number(Lane::Rows, sent) });
            }
            if let Some((sent, items)) = worker.due.depart() {
                lanes.due.push_back(Sent { items, acknowledge: number(Lane::Due, sent) });
            }
            if let Some((sent, items)) = worker.closings.depart() {
                lanes.closings.push_back(Sent { items, acknowledge: number(Lane::Closings, sent) });
            }
            lanes.questions.extend(worker.questions.drain(..).map(|question| (question, index)));
        }
    }

    fn acknowledge(&mut self, Number { lane, worker, number }: Number) {
        let worker = &mut self.workers[worker];
        let in_flight = match lane {
            Lane::Rows => &mut worker.rows.in_flight,
            Lane::Due => &mut worker.due.in_flight,
            Lane::Closings => &mut worker.closings.in_flight,
        };
        in_flight.remove(&number);
    }

    fn reply(&mut self, worker: usize, answer: Answer) {
        self.workers[worker].answers.push(answer);
    }

    fn durable(&mut self) -> Vec<Cut> {
        let open = self.open();
        let durable = |worker: &mut Worker| {
            let durable = worker.cuts.iter().take_while(|cut| cut.epoch < open).count();
            worker.cuts.drain(..durable).collect::<Vec<_>>()
        };
        self.workers.iter_mut().flat_map(durable).filter(|cut| !cut.partitions.is_empty()).collect()
    }

    fn watermark(&self) -> Option<EventTime> {
        self.workers.iter().map(|worker| worker.watermark).min().flatten()
    }

    fn held_since(&self) -> Option<EventTime> {
        self.workers.iter().map(|worker| worker.judge.held_since()).min().flatten()
    }

    fn figures(&self) -> Figures {
        let mut all = Figures::default();
        for figures in self.workers.iter().map(|worker| worker.judge.figures()) {
            all += Figures { late: figures.late, refused: figures.refused, asked: figures.asked };
        }
        all
    }

    fn repeat(_: &str, mut turn: impl FnMut() -> bool) -> bool {
        (0..TURNS_MAX).any(|_| turn())
    }
}
