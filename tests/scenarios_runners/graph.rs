//! The timely graph of a process, between a clock that is moved by hand and stores that acknowledge.

use super::place::{Log, Place, Plan, Survives, take_steps};
use super::stored::{IDLE, Process, Stored};
use crossbeam_channel::{Receiver, Sender, unbounded};
use floodmark::input::decode::Decoder;
use floodmark::pipeline::budget::Admitted;
use floodmark::pipeline::intake::Intake;
use floodmark_dataflow::ask::Asking;
use floodmark_dataflow::egress::Delivery;
use floodmark_dataflow::epoch::{Clock, EPOCH_MS};
use floodmark_dataflow::graph::{Outputs, WorkerSettings, run_worker};
use floodmark_dataflow::message::{Batch, Closing, Due};
use floodmark_dataflow::progress::{Cut, Flow};
use floodmark_dataflow::source::SourceSettings;
use floodmark_dataflow::state::judge::{JudgeSettings, JudgedRule};
use floodmark_dataflow::wake::Waker;
use floodmark_dataflow::window_judge::JudgeGauges;
use floodmark_model::EventTime;
use floodmark_model::progress::PartitionKey;
use floodmark_testkit::scenario::{Actual, FingerprintLabels, Labels, Record, Scenario};
use floodmark_testkit::wait::{DEADLINE, wait_for};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// Runs a scenario, and says what differs from what it expects.
pub(crate) fn run(scenario: &Scenario, plan: Plan, workers: usize) -> Result<(), String> {
    let steps = scenario.steps(FingerprintLabels::Given);
    let stored = Stored::new(scenario);
    let mut graph = Graph { decoder: stored.decoder(), stored, workers, running: None };
    let actual = take_steps(scenario, &steps, plan, &mut graph);
    scenario.compare(&Labels::given(scenario), &actual)
}

/// A clock that is moved by hand.
pub(crate) struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct Graph {
    stored: Stored,
    decoder: Decoder,
    workers: usize,
    running: Option<Running>,
}

/// A running process.
struct Running {
    process: Process,
    clock: Arc<HandClock>,
    threads: Vec<ReadingThread>,
    rows: Receiver<Delivery<Admitted>>,
    due: Receiver<Delivery<Due>>,
    closings: Receiver<Delivery<Closing>>,
    questions: Receiver<Asking>,
    gauges: Vec<Arc<JudgeGauges>>,
    cuts: Arc<Mutex<Vec<Cut>>>,
    stop: Arc<AtomicBool>,
    workers: Option<timely::communication::WorkerGuards<()>>,
    /// How far each partition was handed over.
    handed_over: BTreeMap<PartitionKey, i64>,
    /// Events and rows that were handed over, and rows that have arrived.
    events: u64,
    rows_sent: usize,
    rows_arrived: usize,
}

/// What a worker's reading thread would hold.
struct ReadingThread {
    intake: Intake,
    batches: Sender<Batch<Admitted>>,
    waker: Waker,
}

impl Running {
    fn tick(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
        self.threads.iter().for_each(|thread| thread.waker.wake());
    }

    fn thread(&mut self, partition: i32) -> &mut ReadingThread {
        let worker = partition as usize % self.threads.len();
        &mut self.threads[worker]
    }

    fn read(&mut self, decoder: &Decoder, record: &Record) {
        let raw = record.as_raw();
        self.thread(record.at.partition).intake.record(raw, record.at.offset + 1, decoder.decode(raw));
    }

    fn hand_over(&mut self) {
        for thread in &mut self.threads {
            let Some(batch) = thread.intake.take() else { continue };
            if let Batch::Read { events, rows, partitions } = &batch {
                self.events += events.len() as u64;
                self.rows_sent += rows.iter().map(|rows| rows.block.rows()).sum::<usize>();
                self.handed_over.extend(partitions.iter().map(|update| (update.key, update.next_offset)));
            }
            thread.batches.send(batch).unwrap();
            thread.waker.wake();
        }
    }

    /// Takes what is under way to the stores. Without progress, what is stored is acknowledged and not committed.
    fn serve(&mut self, stored: &mut Stored, survives: Survives) {
        for Delivery { items, acknowledge } in self.rows.try_iter() {
            self.rows_arrived += items.iter().map(|rows| rows.block.rows()).sum::<usize>();
            if survives.rows {
                stored.insert(&items);
            }
            acknowledge.confirm();
        }
        for Delivery { items, acknowledge } in self.due.try_iter() {
            if survives.incidents {
                stored.write(&self.process, &items);
            }
            acknowledge.confirm();
        }
        if survives.rows {
            for Asking { question, reply } in self.questions.try_iter() {
                reply.answer(stored.answer(&self.process, &question));
            }
        }
        if survives.progress {
            for Delivery { items, acknowledge } in self.closings.try_iter() {
                let closed = stored.close(&self.process, &items);
                self.process.is_durable(closed);
                acknowledge.confirm();
            }
            let cuts = std::mem::take(&mut *self.cuts.lock().unwrap());
            self.process.are_durable(cuts);
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
            self.tick(EPOCH_MS);
            None
        });
    }

    fn is_committed(&self, stored: &Stored) -> bool {
        self.handed_over.iter().all(|(key, next_offset)| stored.next_offset(*key) >= *next_offset)
    }

    /// The least merged watermark that a worker knows.
    fn watermark(&self) -> Option<EventTime> {
        self.gauges.iter().map(|gauges| gauges.merged_watermark()).min().flatten()
    }

    /// All events are judged, and all rows have arrived.
    fn has_arrived(&self) -> bool {
        let counted: u64 = self.gauges.iter().map(|gauges| gauges.figures().counted).sum();
        counted == self.events && self.rows_arrived == self.rows_sent
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.tick(EPOCH_MS);
        drop(self.workers.take());
    }
}

const AT_ONCE: Survives = Survives::EVERYTHING;

impl Place for Graph {
    fn start(&mut self, log: &Log) {
        let process = self.stored.start(log, self.workers);
        let progress = Arc::clone(&process.recovered.progress);
        let clock = Arc::new(HandClock(AtomicI64::new(1_000_000)));
        let ((to_rows, rows), (to_due, due), (to_closings, closings)) = (unbounded(), unbounded(), unbounded());
        let (to_questions, questions) = unbounded();
        let outputs = Outputs { rows: to_rows, due: to_due, closings: to_closings, questions: to_questions };
        let (flow, stop, cuts) = (Arc::new(Flow::default()), Arc::new(AtomicBool::new(false)), Arc::default());
        let gauges: Vec<Arc<JudgeGauges>> = (0..self.workers).map(|_| Arc::default()).collect();
        let (mut settings, mut threads) = (Vec::new(), Vec::new());
        for (index, gauges) in gauges.iter().enumerate() {
            let (batches, receiver) = unbounded();
            let waker = Waker::default();
            settings.push(Mutex::new(Some(WorkerSettings {
                source: SourceSettings {
                    batches: receiver,
                    waker: waker.clone(),
                    clock: Arc::clone(&clock) as Arc<dyn Clock>,
                    lateness_ms: self.stored.lateness_ms(),
                },
                judge: JudgeSettings {
                    rules: self.stored.rules().iter().map(JudgedRule::from).collect(),
                    max_panes: 10_000,
                    max_fingerprints: self.stored.max_fingerprints(),
                    seed: 1,
                    worker: index as u32,
                    peers: self.workers as u32,
                    start: progress.watermark(),
                    closed: progress.closed,
                },
                outputs: outputs.clone(),
                rows_weight_max: 1 << 20,
                flow: Arc::clone(&flow),
                gauges: Arc::clone(gauges),
            })));
            threads.push(ReadingThread { intake: Intake::new(Arc::clone(&process.intake)), batches, waker });
        }
        let (stopped, durable): (_, Arc<Mutex<Vec<Cut>>>) = (Arc::clone(&stop), Arc::clone(&cuts));
        let workers = timely::execute(timely::Config::process(self.workers), move |worker| {
            let settings = settings[worker.index()].lock().unwrap().take().unwrap();
            let hand_over = |cuts| durable.lock().unwrap().extend(cuts);
            run_worker(worker, settings, hand_over, || stopped.load(Ordering::SeqCst));
        });
        threads[0].batches.send(Batch::Loaded(process.loaded.clone())).unwrap();
        for (index, thread) in threads.iter_mut().enumerate() {
            let own = log.keys().filter(|key| key.partition as usize % self.workers == index);
            let assigned = own.map(|key| process.assign(&mut thread.intake, log, key)).collect();
            thread.batches.send(Batch::Assigned(assigned)).unwrap();
        }
        let mut running = Running {
            process,
            clock,
            threads,
            rows,
            due,
            closings,
            questions,
            gauges,
            cuts,
            stop,
            workers: Some(workers.unwrap()),
            handed_over: BTreeMap::new(),
            events: 0,
            rows_sent: 0,
            rows_arrived: 0,
        };
        for record in &log.records {
            if !running.process.covers(record) {
                running.read(&self.decoder, record);
            }
        }
        self.running = Some(running);
    }

    fn read(&mut self, record: &Record) {
        self.running.as_mut().expect("started").read(&self.decoder, record);
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
        running.until("a watermark", &mut self.stored, AT_ONCE, |running, _| running.watermark().is_some());
        for thread in &mut running.threads {
            let keys: Vec<_> = thread.intake.partitions().collect();
            keys.into_iter().for_each(|key| thread.intake.set_reading(key, IDLE));
        }
        running.hand_over();
        // It moves as the clock does once all are idle: then by as much as it takes, and no further.
        let before = running.watermark();
        running.until("all to be idle", &mut self.stored, AT_ONCE, |running, _| running.watermark() > before);
        let watermark = running.watermark().expect("there is one");
        running.tick((time.0 - watermark.0).max(0));
        running.until("time to pass", &mut self.stored, AT_ONCE, |running, _| running.watermark() >= Some(time));
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
