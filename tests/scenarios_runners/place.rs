//! From the steps of a scenario to what a level does.

use floodmark_model::progress::PartitionKey;
use floodmark_model::wire::{DecodeSettings, json};
use floodmark_model::{EventTime, TopicId};
use floodmark_testkit::scenario::{Actual, Record, Restart, Scenario, Step};

/// How the steps are taken. An expectation holds for every one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// As they are written.
    AsWritten,
    /// With a cut after every record.
    CutAfterEveryRecord,
    /// With a kill after so many records, of which something else survives each time; `turn` says what the first time.
    KillAfterEvery {
        /// Records between two kills.
        records: usize,
        /// Index into what may survive.
        turn: usize,
    },
}

/// What of the latest batches is stored when a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survives {
    /// Their rows.
    pub(crate) rows: bool,
    /// The incidents that they made due.
    pub(crate) incidents: bool,
    /// That both are.
    pub(crate) progress: bool,
}

impl Survives {
    /// All of it: an orderly stop.
    pub(crate) const EVERYTHING: Self = Self { rows: true, incidents: true, progress: true };
    /// The records are read again though they are stored.
    pub(crate) const ALL_BUT_PROGRESS: Self = Self { rows: true, incidents: true, progress: false };
    /// What can be left of a crash (G-3).
    const EACH: [Self; 5] = [
        Self { rows: false, incidents: false, progress: false },
        Self { rows: true, incidents: false, progress: false },
        Self { rows: false, incidents: true, progress: false },
        Self::ALL_BUT_PROGRESS,
        Self::EVERYTHING,
    ];
}

/// The records of a topic, as a broker holds them.
pub(crate) struct Log {
    /// Changes when the topic is created anew.
    pub(crate) topic_id: TopicId,
    /// Partitions from 0.
    pub(crate) partitions: i32,
    /// In the order in which they were sent.
    pub(crate) records: Vec<Record>,
}

impl Log {
    /// The partitions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = PartitionKey> + use<> {
        let topic_id = self.topic_id;
        (0..self.partitions).map(move |partition| PartitionKey { topic_id, partition })
    }

    /// Whether a partition holds nothing.
    pub(crate) fn is_empty(&self, key: PartitionKey) -> bool {
        self.records.iter().all(|record| record.at.partition != key.partition)
    }
}

/// Where scenarios run: one process after another over the same log and the same stores.
pub(crate) trait Place {
    /// A process starts on what is stored, and reads the log from there.
    fn start(&mut self, log: &Log);
    /// A record that has just been sent is read.
    fn read(&mut self, record: &Record);
    /// A record that was read is delivered again (I-1).
    fn read_again(&mut self, record: &Record);
    /// Waits until everything is durable.
    fn settle(&mut self);
    /// Everything is durable, and time has passed this: what it closes is stored.
    fn pass(&mut self, time: EventTime);
    /// The process ends.
    fn end(&mut self, survives: Survives);
    /// The topic was deleted and created again, as this one.
    fn recreate_topic(&mut self, log: &Log);
    /// What stands in the stores.
    fn actual(&mut self) -> Actual;
}

/// How many partitions the steps need.
pub(crate) fn partitions(steps: &[Step]) -> i32 {
    let partitions = steps.iter().filter_map(|step| match step {
        Step::Record(record) => Some(record.at.partition + 1),
        _ => None,
    });
    partitions.max().unwrap_or(1)
}

/// Takes the steps one after another, then closes every window, and says what stands.
pub(crate) fn take_steps(scenario: &Scenario, steps: &[Step], plan: Plan, place: &mut impl Place) -> Actual {
    let mut log = Log { topic_id: TopicId([1; 16]), partitions: partitions(steps), records: Vec::new() };
    let mut run = Run { plan, place, records: 0 };
    run.place.start(&log);
    for step in steps {
        match step {
            Step::Record(record) => {
                log.records.push(record.clone());
                run.record(&log, record);
            }
            Step::Redeliver(record) => run.place.read_again(record),
            Step::Cut => run.place.settle(),
            Step::Watermark(time) => run.place.pass(*time),
            Step::Restart(Restart::Kill) => run.restart(&log, Survives::ALL_BUT_PROGRESS),
            Step::Restart(Restart::Stop) => run.restart(&log, Survives::EVERYTHING),
            Step::RecreateTopic => {
                run.place.settle();
                log = Log { topic_id: next(log.topic_id), records: Vec::new(), ..log };
                run.place.recreate_topic(&log);
            }
            Step::UserResolve { .. } => panic!("{}: nobody resolves occurrences", scenario.id),
        }
    }
    run.place.settle();
    if let Some(time) = end_of_windows(scenario, steps) {
        run.place.pass(time);
    }
    run.place.end(Survives::EVERYTHING);
    run.place.actual()
}

struct Run<'a, P> {
    plan: Plan,
    place: &'a mut P,
    records: usize,
}

impl<P: Place> Run<'_, P> {
    fn record(&mut self, log: &Log, record: &Record) {
        self.place.read(record);
        self.records += 1;
        match self.plan {
            Plan::AsWritten => {}
            Plan::CutAfterEveryRecord => self.place.settle(),
            Plan::KillAfterEvery { records, turn } => {
                if self.records.is_multiple_of(records) {
                    let kills = self.records / records;
                    self.restart(log, Survives::EACH[(turn + kills) % Survives::EACH.len()]);
                }
            }
        }
    }

    fn restart(&mut self, log: &Log, survives: Survives) {
        self.place.end(survives);
        self.place.start(log);
    }
}

fn next(topic_id: TopicId) -> TopicId {
    TopicId(topic_id.0.map(|byte| byte + 1))
}

/// A time at which every window that holds an occurrence has closed, with the one after it.
fn end_of_windows(scenario: &Scenario, steps: &[Step]) -> Option<EventTime> {
    let settings = DecodeSettings::default();
    let times = steps.iter().filter_map(|step| match step {
        Step::Record(record) => json::decode(record.as_raw(), &settings).ok().map(|occurrence| occurrence.ts),
        Step::Watermark(time) => Some(*time),
        _ => None,
    });
    times.max().map(|last| last.plus(2 * scenario.params.rule().window_ms))
}
