//! The timely graph of a process, between a clock that is moved by hand and stores that acknowledge.

use super::place::{Log, Place, Plan, Survives, take_steps};
use super::stored::{IDLE, Process, Stored};
use super::timely::Timely;
use floodmark_dataflow::ask::Asking;
use floodmark_dataflow::egress::Delivery;
use floodmark_dataflow::epoch::EPOCH_MS;
use floodmark_dataflow::message::Batch;
use floodmark_dataflow::state::judge::{JudgeSettings, JudgedRule};
use floodmark_model::EventTime;
use floodmark_model::progress::PartitionKey;
use floodmark_testkit::scenario::{Actual, FingerprintLabels, Labels, Record, Scenario};
use floodmark_testkit::wait::{DEADLINE, wait_for};
use std::collections::BTreeMap;

/// Runs a scenario, and says what differs from what it expects.
pub(crate) fn run(scenario: &Scenario, plan: Plan, workers: usize) -> Result<(), String> {
    let steps = scenario.steps(FingerprintLabels::Given);
    let stored = Stored::new(scenario);
    let mut graph = Graph { stored, workers, running: None };
    let actual = take_steps(scenario, &steps, plan, &mut graph);
    scenario.compare(&Labels::given(scenario), &actual)
}

struct Graph {
    stored: Stored,
    workers: usize,
    running: Option<Running>,
}

/// A running process.
struct Running {
    process: Process,
    timely: Timely,
    /// How far each partition was handed over.
    handed_over: BTreeMap<PartitionKey, i64>,
    /// Events and rows that were handed over, and rows that have arrived.
    events: u64,
    rows_sent: usize,
    rows_arrived: usize,
}

impl Running {
    fn hand_over(&mut self) {
        for thread in &mut self.timely.threads {
            let Some(batch) = thread.intake.take() else { continue };
            if let Batch::Read { events, rows, partitions } = &batch {
                self.events += events.len() as u64;
                self.rows_sent += rows.iter().map(|rows| rows.block.rows()).sum::<usize>();
                self.handed_over.extend(partitions.iter().map(|update| (update.key, update.next_offset)));
            }
            thread.send(batch);
        }
    }

    /// Takes what is under way to the stores. Without progress, what is stored is acknowledged and not committed.
    fn serve(&mut self, stored: &mut Stored, survives: Survives) {
        for Delivery { items, acknowledge } in self.timely.rows.try_iter() {
            self.rows_arrived += items.iter().map(|rows| rows.block.rows()).sum::<usize>();
            if survives.rows {
                stored.insert(&items);
            }
            acknowledge.confirm();
        }
        for Delivery { items, acknowledge } in self.timely.due.try_iter() {
            if survives.incidents {
                stored.write(&self.process, &items);
            }
            acknowledge.confirm();
        }
        if survives.rows {
            for Asking { question, reply } in self.timely.questions.try_iter() {
                reply.answer(stored.answer(&self.process, &question));
            }
        }
        if survives.progress {
            for Delivery { items, acknowledge } in self.timely.closings.try_iter() {
                let closed = stored.close(&self.process, &items);
                self.process.is_durable(closed);
                acknowledge.confirm();
            }
            self.process.are_durable(self.timely.durable());
            stored.commit(&mut self.process);
        }
    }

    /// Serves the stores while the clock ticks, until `is_done`.
    fn until(&mut self, what: &str, stored: &mut Stored, survives: Survives, is_done: impl Fn(&Self, &Stored) -> bool) {
        wait_for(what, DEADLINE, || {
            self.serve(stored, survives);
            if is_done(self, stored) {
                return Some(());
            }
            self.timely.tick(EPOCH_MS);
            None
        });
    }

    fn is_committed(&self, stored: &Stored) -> bool {
        self.handed_over.iter().all(|(key, next_offset)| stored.next_offset(*key) >= *next_offset)
    }

    /// All events are judged, and all rows have arrived.
    fn has_arrived(&self) -> bool {
        let counted: u64 = self.timely.gauges.iter().map(|gauges| gauges.figures().counted).sum();
        counted == self.events && self.rows_arrived == self.rows_sent
    }
}

const AT_ONCE: Survives = Survives::EVERYTHING;

impl Place for Graph {
    fn start(&mut self, log: &Log) {
        let process = self.stored.start(log, self.workers);
        let progress = &process.recovered.progress;
        let judge = |worker: usize| JudgeSettings {
            rules: self.stored.rules().iter().map(JudgedRule::from).collect(),
            max_panes: 10_000,
            max_fingerprints: self.stored.max_fingerprints(),
            seed: 1,
            worker: worker as u32,
            peers: self.workers as u32,
            start: progress.watermark(),
            closed: progress.closed,
        };
        let judges = (0..self.workers).map(judge).collect();
        let mut timely = Timely::start(&self.stored, &process, log, judges, 1_000_000);
        for record in log.records.iter().filter(|record| !process.covers(record)) {
            timely.read(&self.stored, record);
        }
        let (handed_over, events) = (BTreeMap::new(), 0);
        self.running = Some(Running { process, timely, handed_over, events, rows_sent: 0, rows_arrived: 0 });
    }

    fn read(&mut self, record: &Record) {
        self.running.as_mut().expect("started").timely.read(&self.stored, record);
    }

    fn read_again(&mut self, record: &Record) {
        self.read(record);
    }

    fn settle(&mut self) {
        let running = self.running.as_mut().expect("started");
        running.hand_over();
        running.until("the commit", &mut self.stored, AT_ONCE, Running::is_committed);
    }

    fn pass(&mut self, time: EventTime) {
        self.settle();
        let running = self.running.as_mut().expect("started");
        running.until("a watermark", &mut self.stored, AT_ONCE, |running, _| running.timely.watermark().is_some());
        for thread in &mut running.timely.threads {
            let keys: Vec<_> = thread.intake.partitions().collect();
            keys.into_iter().for_each(|key| thread.intake.set_reading(key, IDLE));
        }
        running.hand_over();
        // It moves as the clock does once all are idle: then by as much as it takes, and no further.
        let before = running.timely.watermark();
        running.until("all to be idle", &mut self.stored, AT_ONCE, |running, _| running.timely.watermark() > before);
        let watermark = running.timely.watermark().expect("there is one");
        running.timely.tick((time.0 - watermark.0).max(0));
        running.until("time to pass", &mut self.stored, AT_ONCE, |running, _| running.timely.watermark() >= Some(time));
        let closed = self.stored.closed_when_passed(time);
        running.until("the closing", &mut self.stored, AT_ONCE, |_, stored| stored.closed() >= Some(closed));
    }

    fn end(&mut self, survives: Survives) {
        let mut running = self.running.take().expect("started");
        running.hand_over();
        if survives == Survives::EVERYTHING {
            running.until("the commit", &mut self.stored, AT_ONCE, Running::is_committed);
        } else if survives.rows || survives.incidents {
            running.until("rows and verdicts", &mut self.stored, survives, |running, _| running.has_arrived());
            running.serve(&mut self.stored, survives);
        }
    }

    fn recreate_topic(&mut self, log: &Log) {
        self.end(Survives::EVERYTHING);
        self.start(log);
    }

    fn actual(&mut self) -> Actual {
        self.stored.actual()
    }
}
