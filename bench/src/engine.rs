//! The dataflow alone: events in memory in, incidents and closings acknowledged at once.

use crate::machine;
use crate::pipeline::median;
use crate::records::scatter;
use anyhow::{Context, Result};
use clap::Args;
use crossbeam_channel::{Receiver, Sender, bounded};
use floodmark_dataflow::egress::{Delivery, IN_FLIGHT_MAX, Weighty};
use floodmark_dataflow::epoch::Clock;
use floodmark_dataflow::graph::{Outputs, WorkerSettings, run_worker};
use floodmark_dataflow::message::{Batch, Event, EventKind, PartitionUpdate, Reading, TenantId};
use floodmark_dataflow::progress::Flow;
use floodmark_dataflow::source::SourceSettings;
use floodmark_dataflow::state::judge::JudgeSettings;
use floodmark_dataflow::wake::Waker;
use floodmark_dataflow::window_judge::JudgeGauges;
use floodmark_model::progress::{PartitionKey, Tallies};
use floodmark_model::rule::{Rule, RuleIndex};
use floodmark_model::{EventTime, Fingerprint, TopicId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use timely::communication::WorkerGuards;

/// Measures the dataflow alone.
#[derive(Debug, Args)]
pub(crate) struct Engine {
    /// Distinct keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Timely workers
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Events in all; they are made before the clock starts, 40 bytes each
    #[arg(long, default_value_t = 8_000_000)]
    events: u64,
    /// Windows that the events run through
    #[arg(long, default_value_t = 2)]
    windows: u64,
    /// How far events are out of order, in milliseconds: those near a boundary touch two windows
    #[arg(long, default_value_t = 0)]
    disorder_ms: i64,
    /// Times that it is measured with bridges, and as often without
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure memory instead: fill two windows with every key, then close them
    #[arg(long)]
    memory: bool,
}

const BATCH: usize = 4_096;
const WINDOW_MS: i64 = 300_000;
const PANES_MAX: usize = 16_000_000;

struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
    }
}

/// No rows: nothing is stored.
struct NoRow;

impl Weighty for NoRow {
    fn weight(&self) -> usize {
        0
    }
}

/// A running dataflow.
struct Dataflow {
    inputs: Vec<(Sender<Batch<NoRow>>, Waker)>,
    gauges: Vec<Arc<JudgeGauges>>,
    stop: Arc<AtomicBool>,
    _workers: WorkerGuards<()>,
}

impl Dataflow {
    fn start(workers: usize, straddle: bool, lateness_ms: i64) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let room = IN_FLIGHT_MAX * workers;
        let ((rows, to_rows), (due, to_due), (closings, to_closings)) = (bounded(room), bounded(room), bounded(room));
        acknowledge_all(to_rows);
        acknowledge_all(to_due);
        acknowledge_all(to_closings);
        // Nothing is late here, so nothing is asked.
        let (questions, _) = bounded(room);
        let outputs = Outputs { rows, due, closings, questions };
        let (flow, stop) = (Arc::new(Flow::default()), Arc::new(AtomicBool::new(false)));
        let gauges: Vec<Arc<JudgeGauges>> = (0..workers).map(|_| Arc::default()).collect();
        let (mut seats, mut inputs) = (Vec::new(), Vec::new());
        for (worker, gauges) in gauges.iter().enumerate() {
            let (sender, batches) = bounded(64);
            let waker = Waker::default();
            inputs.push((sender, waker.clone()));
            seats.push(Mutex::new(Some(WorkerSettings {
                source: SourceSettings { batches, waker, clock: Arc::clone(&clock), lateness_ms },
                judge: JudgeSettings {
                    rules: vec![(&Rule { straddle, ..Rule::default() }).into()],
                    max_panes: PANES_MAX,
                    max_fingerprints: u32::MAX,
                    seed: 1,
                    worker: worker as u32,
                    peers: workers as u32,
                    start: None,
                    closed: None,
                },
                outputs: outputs.clone(),
                rows_weight_max: 1,
                flow: Arc::clone(&flow),
                gauges: Arc::clone(gauges),
            })));
        }
        let stopped = Arc::clone(&stop);
        let workers = timely::execute(timely::Config::process(workers), move |worker| {
            let seat = seats[worker.index()].lock().ok().and_then(|mut seat| seat.take());
            run_worker(worker, seat.expect("each worker runs once"), |_| (), || stopped.load(Ordering::Relaxed));
        });
        Ok(Self { inputs, gauges, stop, _workers: workers.map_err(anyhow::Error::msg)? })
    }

    fn send(&self, worker: usize, batch: Batch<NoRow>) -> Result<()> {
        self.inputs[worker].0.send(batch).context("the dataflow has ended")?;
        self.inputs[worker].1.wake();
        Ok(())
    }

    fn figure(&self, of: impl Fn(&JudgeGauges) -> u64) -> u64 {
        self.gauges.iter().map(|gauges| of(gauges)).sum()
    }

    fn wait_for(&self, what: &str, done: impl Fn(&Self) -> bool) -> Result<()> {
        let started = Instant::now();
        while !done(self) {
            anyhow::ensure!(started.elapsed() < Duration::from_secs(300), "waited in vain for {what}");
            std::thread::park_timeout(Duration::from_micros(200));
        }
        Ok(())
    }
}

impl Drop for Dataflow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn acknowledge_all<T: Send + 'static>(deliveries: Receiver<Delivery<T>>) {
    std::thread::spawn(move || deliveries.iter().for_each(|delivery| delivery.acknowledge.confirm()));
}

fn event(key: u64, ts: i64) -> Event {
    Event {
        fingerprint: Fingerprint::from_bits(u128::from(scatter(key)) << 64 | u128::from(key)),
        ts: EventTime(ts),
        tenant: TenantId(0),
        n: 1,
        rule: RuleIndex(0),
        kind: EventKind::Occurrence,
    }
}

fn update(worker: usize, next_offset: i64, greatest: Option<i64>) -> PartitionUpdate {
    PartitionUpdate {
        key: PartitionKey { topic_id: TopicId([0; 16]), partition: worker as i32 },
        next_offset,
        greatest: greatest.map(EventTime),
        reading: Reading::Active,
        tallies: Tallies::default(),
    }
}

fn batch(worker: usize, next_offset: i64, events: Vec<Event>) -> Batch<NoRow> {
    let greatest = events.iter().map(|event| event.ts.0).max();
    Batch::Read { events, rows: None, partitions: vec![update(worker, next_offset, greatest)] }
}

impl Engine {
    /// Measures, and prints.
    pub(crate) fn run(self) -> Result<()> {
        println!("machine: {}", machine::describe());
        if self.memory { self.measure_memory() } else { self.measure_speed() }
    }

    fn assign(&self, dataflow: &Dataflow) -> Result<()> {
        for worker in 0..self.workers {
            dataflow.send(worker, Batch::Assigned(vec![(update(worker, 0, None), None)]))?;
        }
        Ok(())
    }

    /// In turns, so that what else the machine does weighs on both alike.
    fn measure_speed(&self) -> Result<()> {
        let made: Vec<Vec<Vec<Event>>> = (0..self.workers).map(|worker| self.make(worker as u64)).collect();
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            without.push(self.measure_once(made.clone(), false)?);
            with.push(self.measure_once(made.clone(), true)?);
        }
        let (with, without) = (median(with.into_iter()), median(without.into_iter()));
        println!(
            "engine: medians: {with:.2} M events/s with bridges, {without:.2} without; ratio {:.2}",
            with / without
        );
        Ok(())
    }

    /// Millions of events a second.
    fn measure_once(&self, made: Vec<Vec<Vec<Event>>>, straddle: bool) -> Result<f64> {
        let dataflow = Dataflow::start(self.workers, straddle, self.disorder_ms)?;
        self.assign(&dataflow)?;
        let (started, cpu) = (Instant::now(), machine::cpu_seconds());
        std::thread::scope(|scope| {
            for (worker, batches) in made.into_iter().enumerate() {
                let (sender, waker) = &dataflow.inputs[worker];
                scope.spawn(move || {
                    let mut offset = 0;
                    for events in batches {
                        offset += events.len() as i64;
                        if sender.send(batch(worker, offset, events)).is_err() {
                            return;
                        }
                        waker.wake();
                    }
                });
            }
        });
        let events = self.events / self.workers as u64 * self.workers as u64;
        dataflow.wait_for("the last event", |dataflow| dataflow.figure(|judge| judge.figures().counted) >= events)?;
        let (took, cpu) = (started.elapsed().as_secs_f64(), machine::cpu_seconds() - cpu);
        println!(
            "engine: {} keys, {} workers, bridges {}, {events} events in {took:.2} s: {:.2} M events/s, {:.2} M events \
             per CPU second",
            self.keys,
            self.workers,
            if straddle { "on" } else { "off" },
            events as f64 / took / 1e6,
            events as f64 / cpu / 1e6,
        );
        Ok(events as f64 / took / 1e6)
    }

    /// One worker's events: keys at random, event time from the first window to the last.
    fn make(&self, worker: u64) -> Vec<Vec<Event>> {
        let count = self.events / self.workers as u64;
        let span = self.windows as i64 * WINDOW_MS;
        let events = (0..count).map(|n| {
            let early = scatter(n) as i64 & i64::MAX;
            let ts = (n as i128 * i128::from(span) / i128::from(count)) as i64 - early % (self.disorder_ms + 1);
            event(scatter(n * self.workers as u64 + worker) % self.keys, ts)
        });
        let mut events = events.peekable();
        let mut batches = Vec::new();
        while events.peek().is_some() {
            batches.push(events.by_ref().take(BATCH).collect());
        }
        batches
    }

    fn measure_memory(&self) -> Result<()> {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let dataflow = Dataflow::start(self.workers, true, 0)?;
        self.assign(&dataflow)?;
        let before = machine::memory_bytes();
        for window in 0..2 {
            self.fill(&dataflow, window)?;
            let panes = dataflow.figure(|judge| (judge.figures().open_panes + judge.figures().retained_panes) as u64);
            let bytes = dataflow.figure(|judge| judge.figures().bytes as u64);
            println!(
                "memory: {} open and {} retained panes: {:.1} B a pane in state, {:.1} B a pane of the process, \
                 {:.0} MiB resident, {:.0} MiB peak",
                dataflow.figure(|judge| judge.figures().open_panes as u64),
                dataflow.figure(|judge| judge.figures().retained_panes as u64),
                bytes as f64 / panes as f64,
                (machine::memory_bytes().saturating_sub(before)) as f64 / panes as f64,
                mib(machine::memory_bytes()),
                mib(machine::peak_memory_bytes()),
            );
        }
        for round in 2..8 {
            self.fill(&dataflow, round)?;
        }
        println!(
            "memory: after 6 more windows of as many keys: {:.0} MiB resident, {:.0} MiB peak",
            mib(machine::memory_bytes()),
            mib(machine::peak_memory_bytes())
        );
        Ok(())
    }

    /// One event for each key, in one window; its first event closes the window before.
    fn fill(&self, dataflow: &Dataflow, window: i64) -> Result<()> {
        let counted = dataflow.figure(|judge| judge.figures().counted);
        let ts = window * WINDOW_MS + 1;
        for first in (0..self.keys).step_by(BATCH * self.workers) {
            for worker in 0..self.workers {
                let start = first + (worker * BATCH) as u64;
                let keys = start..(start + BATCH as u64).min(self.keys);
                let events = keys.map(|key| event(scatter(window as u64) ^ key, ts)).collect::<Vec<_>>();
                dataflow.send(worker, batch(worker, window * self.keys as i64 + start as i64, events))?;
            }
        }
        dataflow.wait_for("the window", |dataflow| {
            let retained_max = if window == 0 { 0 } else { self.keys };
            dataflow.figure(|judge| judge.figures().counted) >= counted + self.keys
                && dataflow.figure(|judge| judge.figures().open_panes as u64) <= self.keys
                && dataflow.figure(|judge| judge.figures().retained_panes as u64) <= retained_max
        })
    }
}
