//! Takes what happens to one process after another, over one log and the same stores, until everything has settled.

use super::draw::{Call, Happening, Run};
use super::engine::{Engine, Figures, Start};
use super::lanes::Lanes;
use super::random::Random;
use crate::scenarios_runners::place::Log;
use crate::scenarios_runners::stored::{Process, Stored};
use floodmark::pipeline::budget::Admitted;
use floodmark_dataflow::epoch::EPOCH_MS;
use floodmark_model::TopicId;
use floodmark_model::progress::PartitionKey;
use floodmark_testkit::scenario::Record;
use std::collections::BTreeMap;

/// The log, the stores, and the process of the moment.
pub(super) struct World<'a, E: Engine> {
    run: &'a Run,
    pub(super) stored: Stored,
    pub(super) log: Log,
    clock_ms: i64,
    process: Process,
    engine: E,
    lanes: Lanes<E::Acknowledge, E::Reply>,
    workers: usize,
    /// What the reading threads read next, by partition.
    positions: Vec<i64>,
    rounds: u64,
    /// How far the sources of this process have spoken of their partitions, with all before it durable.
    spoken: BTreeMap<PartitionKey, i64>,
    /// Inserts of dead processes that have not arrived.
    late_inserts: Vec<Vec<Admitted>>,
    /// Of the processes before.
    figures: Figures,
}

impl<'a, E: Engine> World<'a, E> {
    /// Takes a whole run, with the records that it sends; what stands in the end is in `stored`.
    pub(super) fn take(run: &'a Run, records: Vec<Record>) -> Result<Self, String> {
        let mut world = Self::new(run);
        let mut records = records.into_iter();
        for happening in &run.happenings {
            if let Happening::Send(_) = happening {
                world.log.records.extend(records.next());
            } else {
                world.happen(happening)?;
            }
        }
        world.log.records.extend(records);
        world.settle()?;
        world.pass_all_windows()?;
        Ok(world)
    }

    fn new(run: &'a Run) -> Self {
        let max_fingerprints = run.settings.max_fingerprints.unwrap_or(1 << 20);
        let stored = Stored::for_rules(&run.settings.rules, max_fingerprints);
        let log = Log { topic_id: TopicId([1; 16]), partitions: run.settings.partitions, records: Vec::new() };
        let clock_ms = 1_000_000;
        let workers = run.settings.workers;
        let process = stored.start(&log, workers);
        let start = Start { settings: &run.settings, stored: &stored, process: &process, log: &log, workers, clock_ms };
        let engine = E::start(&start);
        let lanes = Lanes::new(&process, stored.rules(), run.settings.panes_are_short());
        let positions = vec![0; run.settings.partitions as usize];
        let (late_inserts, figures) = (Vec::new(), Figures::default());
        Self {
            run,
            stored,
            log,
            clock_ms,
            process,
            engine,
            lanes,
            workers,
            positions,
            rounds: 0,
            spoken: BTreeMap::new(),
            late_inserts,
            figures,
        }
    }

    /// What the judges have met.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = self.figures;
        figures += self.engine.figures();
        figures
    }

    fn happen(&mut self, happening: &Happening) -> Result<(), String> {
        self.engine.depart(&mut self.lanes);
        match *happening {
            Happening::Send(_) => {}
            Happening::Read { partition, records } => self.read(partition, records),
            Happening::ReadAgain { partition, records } => self.read_again(partition, records),
            Happening::BeIdle { partition } => self.be_idle(partition, false),
            Happening::HandOver { worker } => self.engine.hand_over(worker),
            Happening::Tick { ms } => self.tick(ms),
            Happening::EnterEpoch { worker } => self.engine.enter_epoch(worker),
            Happening::Judge { worker, messages } => self.engine.judge(worker, messages),
            Happening::InsertRows { delivery, call } => self.insert_rows(delivery, call),
            Happening::WriteIncidents { deliveries, call } => self.write_incidents(deliveries, call)?,
            Happening::ReadTotals { closings } => self.lanes.read_totals(&self.stored, &self.process, closings),
            Happening::WriteTotals { call } => self.write_totals(call),
            Happening::LookUp => self.lanes.look_up(&self.stored, &self.process),
            Happening::Reply => self.reply(),
            Happening::Commit { call } => self.commit(call),
            Happening::ForgetRetries => self.forget_retries(),
            Happening::ArriveLate => self.arrive_late(),
            Happening::Crash { workers, survivors } => self.crash(workers, survivors),
            Happening::Stop { workers } => {
                self.drain()?;
                self.crash(workers, 0);
            }
        }
        Ok(())
    }

    fn key(&self, partition: i32) -> PartitionKey {
        PartitionKey { topic_id: self.log.topic_id, partition }
    }

    fn position(&self, partition: i32) -> i64 {
        self.positions[partition as usize]
    }

    fn of_partition(&self, partition: i32) -> impl Iterator<Item = &Record> {
        self.log.records.iter().filter(move |record| record.at.partition == partition)
    }

    fn read(&mut self, partition: i32, records: usize) {
        let position = self.position(partition);
        let some: Vec<Record> = self.of_partition(partition).skip(position as usize).take(records).cloned().collect();
        some.iter().for_each(|record| self.engine.read(&self.stored, record));
        self.positions[partition as usize] += some.len() as i64;
    }

    fn read_again(&mut self, partition: i32, records: usize) {
        let position = self.position(partition) as usize;
        let before = self.of_partition(partition).take(position).skip(position.saturating_sub(records));
        let again: Vec<Record> = before.cloned().collect();
        again.iter().for_each(|record| self.engine.read(&self.stored, record));
    }

    fn be_idle(&mut self, partition: i32, is_settled: bool) {
        if self.position(partition) == self.of_partition(partition).count() as i64 {
            self.engine.be_idle(self.key(partition), is_settled);
        }
    }

    fn tick(&mut self, ms: i64) {
        self.clock_ms += ms;
        self.engine.set_clock(self.clock_ms);
    }

    fn insert_rows(&mut self, delivery: usize, call: Call) {
        let acknowledge = self.lanes.insert_rows(&mut self.stored, delivery, call);
        acknowledge.into_iter().for_each(|acknowledge| self.engine.acknowledge(acknowledge));
    }

    fn write_incidents(&mut self, deliveries: usize, call: Call) -> Result<(), String> {
        let written = self.lanes.write_incidents(&self.stored, &self.process, deliveries, call)?;
        written.into_iter().for_each(|acknowledge| self.engine.acknowledge(acknowledge));
        Ok(())
    }

    fn write_totals(&mut self, call: Call) {
        let written = self.lanes.write_totals(&self.stored, &mut self.process, call);
        written.into_iter().for_each(|acknowledge| self.engine.acknowledge(acknowledge));
    }

    fn reply(&mut self) {
        if let Some((answer, reply)) = self.lanes.answer() {
            self.engine.reply(reply, answer);
        }
    }

    fn commit(&mut self, call: Call) {
        let durable = self.engine.durable();
        let partitions = durable.iter().flat_map(|cut| &cut.partitions);
        self.spoken.extend(partitions.map(|(key, progress)| (*key, progress.next_offset)));
        self.process.are_durable(durable);
        for _ in 0..if call == Call::SeemsToFail { 2 } else { 1 } {
            self.stored.commit(&mut self.process);
        }
    }

    fn forget_retries(&self) {
        if let Some(time) = self.engine.held_since() {
            self.process.intake.retries.forget_before(time);
        }
    }

    fn arrive_late(&mut self) {
        if let Some(rows) = self.late_inserts.pop() {
            self.stored.insert(&rows);
        }
    }

    fn crash(&mut self, workers: usize, survivors: u64) {
        self.figures += self.engine.figures();
        let lanes = std::mem::replace(
            &mut self.lanes,
            Lanes::new(&self.process, self.stored.rules(), self.run.settings.panes_are_short()),
        );
        let late = lanes.die(&mut self.stored, &self.process, &mut Random::new(survivors));
        self.late_inserts.extend(late);
        self.process = self.stored.start(&self.log, workers);
        self.engine = E::start(&Start {
            settings: &self.run.settings,
            stored: &self.stored,
            process: &self.process,
            log: &self.log,
            workers,
            clock_ms: self.clock_ms,
        });
        self.lanes = Lanes::new(&self.process, self.stored.rules(), self.run.settings.panes_are_short());
        self.workers = workers;
        self.spoken.clear();
        let committed = |partition: i32| self.stored.next_offset(self.key(partition));
        self.positions = (0..self.log.partitions).map(committed).collect();
    }

    /// Everything that can go on goes on, once.
    fn round(&mut self) -> Result<(), String> {
        let workers = 0..self.workers;
        workers.clone().for_each(|worker| self.engine.hand_over(worker));
        self.tick(EPOCH_MS);
        workers.clone().for_each(|worker| self.engine.enter_epoch(worker));
        workers.for_each(|worker| self.engine.judge(worker, usize::MAX));
        self.engine.depart(&mut self.lanes);
        self.rounds += 1;
        // Now the one is faster, now the other.
        if self.rounds.is_multiple_of(2) {
            self.answer_all();
        }
        for _ in 0..self.lanes.rows.len() {
            self.insert_rows(0, Call::Succeeds);
        }
        self.write_incidents(usize::MAX, Call::Succeeds)?;
        self.lanes.read_totals(&self.stored, &self.process, usize::MAX);
        self.write_totals(Call::Succeeds);
        self.answer_all();
        self.commit(Call::Succeeds);
        Ok(())
    }

    fn answer_all(&mut self) {
        for _ in 0..self.lanes.questions.len() {
            self.lanes.look_up(&self.stored, &self.process);
        }
        while let Some((answer, reply)) = self.lanes.answer() {
            self.engine.reply(reply, answer);
        }
    }

    fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let mut failure = Ok(());
        let has_come = E::repeat(what, || {
            if is_done(self) {
                return true;
            }
            failure = self.round();
            failure.is_err()
        });
        failure?;
        if has_come { Ok(()) } else { Err(format!("{what} does not come: {:?}", self.stored.progress())) }
    }

    /// All that was read is durable.
    fn drain(&mut self) -> Result<(), String> {
        let partitions: Vec<i32> = (0..self.log.partitions).collect();
        self.until("the commit of all that was read", |world| {
            let progress = world.stored.progress();
            let next_offset = |partition| progress.partitions.get(&world.key(partition)).map_or(0, |p| p.next_offset);
            let mut partitions = partitions.iter();
            partitions.all(|partition| next_offset(*partition) >= world.position(*partition)) && world.lanes.is_empty()
        })
    }

    /// Everything is read and durable.
    fn settle(&mut self) -> Result<(), String> {
        while !self.late_inserts.is_empty() {
            self.arrive_late();
        }
        (0..self.log.partitions).for_each(|partition| self.read(partition, usize::MAX));
        self.drain()
    }

    /// Everything is idle, and time passes until every window is closed, with the one after it.
    fn pass_all_windows(&mut self) -> Result<(), String> {
        let Some(last) = self.stored.last_event_time() else { return Ok(()) };
        let longest_ms = self.run.settings.rules.iter().map(|rule| rule.window_ms).max().unwrap_or(0);
        let end = last.plus(2 * longest_ms);
        self.until("every source to speak", |world| {
            let spoken = |partition| world.spoken.get(&world.key(partition)) == Some(&world.position(partition));
            (0..world.log.partitions).all(spoken)
        })?;
        (0..self.log.partitions).for_each(|partition| self.be_idle(partition, true));
        self.until("a watermark", |world| world.engine.watermark().is_some())?;
        // Once all are idle it moves as the clock does.
        let before = self.engine.watermark();
        self.until("all to be idle", |world| world.engine.watermark() > before)?;
        let watermark = self.engine.watermark().expect("there is one");
        self.tick((end.0 - watermark.0).max(0));
        self.until("the closing", |world| world.stored.closed() >= Some(end.minus(longest_ms)))?;
        self.drain()
    }
}
