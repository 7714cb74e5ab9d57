//! The timely graph of a process on threads of its own, with the other ends of its channels.

use super::place::Log;
use super::stored::{Process, Stored};
use crossbeam_channel::{Receiver, Sender, unbounded};
use floodmark::pipeline::budget::Admitted;
use floodmark::pipeline::intake::Intake;
use floodmark_dataflow::ask::Asking;
use floodmark_dataflow::egress::Delivery;
use floodmark_dataflow::epoch::Clock;
use floodmark_dataflow::graph::{Outputs, WorkerSettings, run_worker};
use floodmark_dataflow::message::{Batch, Closing, Due};
use floodmark_dataflow::progress::{Cut, Flow};
use floodmark_dataflow::source::SourceSettings;
use floodmark_dataflow::state::judge::JudgeSettings;
use floodmark_dataflow::wake::Waker;
use floodmark_dataflow::window_judge::JudgeGauges;
use floodmark_model::EventTime;
use floodmark_testkit::scenario::Record;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// A clock that is moved by hand.
pub(super) struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A running graph.
pub(super) struct Timely {
    clock: Arc<HandClock>,
    pub(super) threads: Vec<ReadingThread>,
    pub(super) rows: Receiver<Delivery<Admitted>>,
    pub(super) due: Receiver<Delivery<Due>>,
    pub(super) closings: Receiver<Delivery<Closing>>,
    pub(super) questions: Receiver<Asking>,
    pub(super) gauges: Vec<Arc<JudgeGauges>>,
    cuts: Arc<Mutex<Vec<Cut>>>,
    stop: Arc<AtomicBool>,
    workers: Option<timely::communication::WorkerGuards<()>>,
}

/// What a worker's reading thread would hold.
pub(super) struct ReadingThread {
    pub(super) intake: Intake,
    batches: Sender<Batch<Admitted>>,
    waker: Waker,
}

impl ReadingThread {
    /// Hands a batch to the source.
    pub(super) fn send(&self, batch: Batch<Admitted>) {
        self.batches.send(batch).unwrap();
        self.waker.wake();
    }
}

impl Timely {
    /// Starts a worker for each judge on what was loaded.
    pub(super) fn start(
        stored: &Stored,
        process: &Process,
        log: &Log,
        judges: Vec<JudgeSettings>,
        clock_ms: i64,
    ) -> Self {
        let workers = judges.len();
        let clock = Arc::new(HandClock(AtomicI64::new(clock_ms)));
        let ((to_rows, rows), (to_due, due), (to_closings, closings)) = (unbounded(), unbounded(), unbounded());
        let (to_questions, questions) = unbounded();
        let outputs = Outputs { rows: to_rows, due: to_due, closings: to_closings, questions: to_questions };
        let (flow, stop, cuts) = (Arc::new(Flow::default()), Arc::new(AtomicBool::new(false)), Arc::default());
        let gauges: Vec<Arc<JudgeGauges>> = (0..workers).map(|_| Arc::default()).collect();
        let (mut settings, mut threads) = (Vec::new(), Vec::new());
        for (judge, gauges) in judges.into_iter().zip(&gauges) {
            let (batches, receiver) = unbounded();
            let waker = Waker::default();
            settings.push(Mutex::new(Some(WorkerSettings {
                source: SourceSettings {
                    batches: receiver,
                    waker: waker.clone(),
                    clock: Arc::clone(&clock) as Arc<dyn Clock>,
                    lateness_ms: stored.lateness_ms(),
                },
                judge,
                outputs: outputs.clone(),
                rows_weight_max: 1 << 20,
                flow: Arc::clone(&flow),
                gauges: Arc::clone(gauges),
            })));
            threads.push(ReadingThread { intake: Intake::new(Arc::clone(&process.intake)), batches, waker });
        }
        let (stopped, durable): (_, Arc<Mutex<Vec<Cut>>>) = (Arc::clone(&stop), Arc::clone(&cuts));
        let guards = timely::execute(timely::Config::process(workers), move |worker| {
            let settings = settings[worker.index()].lock().unwrap().take().unwrap();
            let hand_over = |cuts| durable.lock().unwrap().extend(cuts);
            run_worker(worker, settings, hand_over, || stopped.load(Ordering::SeqCst));
        });
        threads[0].send(Batch::Loaded(process.loaded.clone()));
        for (index, thread) in threads.iter_mut().enumerate() {
            let own = log.keys().filter(|key| key.partition as usize % workers == index);
            let assigned = own.map(|key| process.assign(&mut thread.intake, log, key)).collect();
            thread.send(Batch::Assigned(assigned));
        }
        Self { clock, threads, rows, due, closings, questions, gauges, cuts, stop, workers: Some(guards.unwrap()) }
    }

    /// The clock moves on.
    pub(super) fn tick(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
        self.threads.iter().for_each(|thread| thread.waker.wake());
    }

    /// What the clock says.
    pub(super) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// The thread that reads a partition.
    pub(super) fn thread(&mut self, partition: i32) -> &mut ReadingThread {
        let worker = partition as usize % self.threads.len();
        &mut self.threads[worker]
    }

    /// Takes a record in.
    pub(super) fn read(&mut self, stored: &Stored, record: &Record) {
        let raw = record.as_raw();
        let decoded = stored.decoder().decode(raw);
        self.thread(record.at.partition).intake.record(raw, record.at.offset + 1, decoded);
    }

    /// The cuts that have become durable since the last call.
    pub(super) fn durable(&self) -> Vec<Cut> {
        std::mem::take(&mut *self.cuts.lock().unwrap())
    }

    /// The least merged watermark that a worker knows.
    pub(super) fn watermark(&self) -> Option<EventTime> {
        self.gauges.iter().map(|gauges| gauges.merged_watermark()).min().flatten()
    }
}

impl Drop for Timely {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.tick(floodmark_dataflow::epoch::EPOCH_MS);
        drop(self.workers.take());
    }
}
