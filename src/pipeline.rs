//! The one place where the parts are wired: reading threads, dataflow, stores, progress.
//!
//! ```text
//!  reader threads --batches--> timely workers --deliveries--> lanes --> stores
//!       ^                            | durable cuts              | closed times
//!       +--- recovery                +----> committer <----------+
//! ```

pub mod budget;
pub mod commit;
pub mod crowds;
pub mod health;
pub mod intake;
pub mod lanes;
pub mod marks;
pub mod persist;
pub mod questions;
pub mod recent;
pub mod retry_filter;
pub mod samples;
pub mod stop;
pub mod tenants;
mod threads;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::recovery::{Recovered, Recovery};
use budget::{Admitted, Budget};
use commit::{Committer, Pending, SameLog, ToCommit};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
pub use floodmark_dataflow::epoch::{Clock, Epoch};
use floodmark_dataflow::graph::WorkerSettings;
use floodmark_dataflow::message::Batch;
use floodmark_dataflow::progress::Flow;
use floodmark_dataflow::source::SourceSettings;
use floodmark_dataflow::state::judge::{JudgeSettings, JudgedRule};
use floodmark_dataflow::wake::Waker;
use floodmark_dataflow::window_judge::JudgeGauges;
use floodmark_model::Rule;
use floodmark_model::incident::JudgedIncident;
use floodmark_model::progress::Progress;
use floodmark_sinks::{Generation, IncidentStore, OccurrenceStore};
use health::Health;
use intake::{Intake, IntakeShared};
use lanes::Lanes;
use persist::{Ended, Persist};
use retry_filter::MemoryFilter;
use std::sync::Arc;
use std::time::Duration;
use stop::{Ending, Stop};
use tenants::Tenants;
use threads::{Channels, seed, spawn, spawn_lanes, spawn_workers};
use tokio::runtime::Handle;

/// Batches between a reading thread and its worker.
const BATCHES_IN_CHANNEL: usize = 16;
/// Bytes of rows at which an insert leaves before its epoch is over.
const ROWS_WEIGHT_MAX: usize = 8 << 20;
/// How often this process says that it is alive (design, decision 8).
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How often the occurrence store is looked at, so that one that is away is named before there are rows for it.
const LOOK: Duration = Duration::from_secs(2);

/// The system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }
}

/// See [`Pipeline::on_incident`].
pub type OnIncident = dyn Fn(&JudgedIncident) + Send + Sync;
/// See [`Pipeline::on_commit`].
pub type OnCommit = dyn Fn(&Progress, Epoch) + Send + Sync;

/// What a pipeline is made of.
pub struct Pipeline<O, I> {
    /// Its configuration.
    pub config: Arc<Config>,
    /// Holds the rows.
    pub occurrences: Arc<O>,
    /// Holds incidents and progress.
    pub incidents: Arc<I>,
    /// Where epochs and idleness come from.
    pub clock: Arc<dyn Clock>,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// Where `/readyz` looks.
    pub health: Arc<Health>,
    /// Ends it.
    pub stop: Stop,
    /// Until when the log is known to be the same one.
    pub same_log: Arc<SameLog>,
    /// Told of each new incident.
    pub on_incident: Option<Arc<OnIncident>>,
    /// Told of each commit, with the latest epoch of which all is durable.
    pub on_commit: Option<Arc<OnCommit>>,
}

/// What a reading thread works with.
pub struct Seat {
    /// Index of its worker.
    pub worker: usize,
    /// How many workers there are.
    pub peers: usize,
    /// Collects what it reads.
    pub intake: Intake,
    /// Takes its batches.
    pub output: Output,
    /// Says when to end.
    pub stop: Stop,
    /// What was committed at the start.
    pub progress: Arc<Progress>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// The channel from a reading thread to its worker.
#[derive(Clone)]
pub struct Output {
    batches: Sender<Batch<Admitted>>,
    waker: Waker,
}

impl Output {
    /// Hands a batch over; waits while the worker is behind. `Err` when the pipeline has ended.
    pub fn send(&self, batch: Batch<Admitted>) -> Result<(), Ended> {
        self.batches.send(batch).map_err(|_| Ended)?;
        self.waker.wake();
        Ok(())
    }
}

/// Reads a part of the log: one for each worker. It sends [`Batch::Assigned`] first, returns when the pipeline has
/// ended or its input has, and ends the pipeline when it cannot go on.
pub trait Reader: Send {
    /// Reads until the end.
    fn read(self: Box<Self>, seat: Seat);
}

/// Makes a reader for each worker, from what is committed. The last argument deletes the rows of records that will
/// never be read again.
pub type MakeReaders<'a> =
    dyn FnMut(&Progress, usize, &mut dyn FnMut() -> Result<(), Ended>) -> Result<Vec<Box<dyn Reader>>, Ended> + 'a;

impl<O: OccurrenceStore, I: IncidentStore> Pipeline<O, I> {
    /// Runs until something ends it; says what. Blocks the calling thread.
    pub fn run(self, runtime: &Handle, make_readers: &mut MakeReaders<'_>) -> Ending {
        let stop = self.stop.clone();
        self.health.starts();
        // An error says that `stop` already knows why.
        let _ = self.run_until_stopped(runtime, make_readers);
        stop.take_ending().unwrap_or(Ending::Requested)
    }

    fn run_until_stopped(self, runtime: &Handle, make_readers: &mut MakeReaders<'_>) -> Result<(), Ended> {
        let persist = Persist { health: self.health.clone(), metrics: self.metrics.clone(), stop: self.stop.clone() };
        let (occurrences, incidents) = (Arc::clone(&self.occurrences), Arc::clone(&self.incidents));
        let recovery = Recovery { occurrences: &*occurrences, incidents: &*incidents, persist: &persist };
        let recovered = runtime.block_on(recovery.take_over(&self.config))?;
        let intake = self.intake(&recovered, &persist)?;
        let mut forget = || runtime.block_on(recovery.delete_uncommitted(&recovered.progress));
        let readers = make_readers(&recovered.progress, self.config.workers, &mut forget)?;

        let (to_commit, commits) = unbounded();
        let channels = Channels::new(self.config.workers);
        let crowds = Arc::new(crowds::OpenCrowds::default());
        let lanes = Lanes {
            occurrences: Arc::clone(&self.occurrences),
            incidents: Arc::clone(&self.incidents),
            generation: recovered.generation,
            intake: Arc::clone(&intake),
            persist: persist.clone(),
            waiting: samples::Waiting::default(),
            marks: marks::Marks::new(self.config.workers),
            crowds: Arc::clone(&crowds),
            on_incident: self.on_incident.clone(),
        };
        let mut threads = spawn_lanes(runtime, Arc::new(lanes), &channels, &to_commit);
        threads.push(self.spawn_committer(runtime, &recovered, &persist, commits));
        let gauges = self.gauges();
        let (settings, outputs) = self.worker_settings(&recovered, &intake, channels, &gauges);
        let workers = spawn_workers(settings, to_commit, self.stop.clone());

        let loaded = runtime.block_on(recovery.load(&intake, &recovered.progress, &crowds, |events| {
            // An error says that the pipeline has ended, which the caller sees as well.
            let _ = outputs[0].send(Batch::Loaded(events));
        }));
        if loaded.is_ok() {
            threads.extend(self.spawn_readers(readers, outputs, &intake, &recovered));
            self.health.well("pipeline");
            let keeping = self.keep_house(recovered.generation, &persist, &intake, &gauges);
            runtime.block_on(keeping);
        }
        self.health.trouble("pipeline", "stopping");
        workers.join().into_iter().for_each(|worker| worker.unwrap_or_else(|error| panic!("{error}")));
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        loaded
    }

    fn intake(&self, recovered: &Recovered, persist: &Persist) -> Result<Arc<IntakeShared>, Ended> {
        let limits = &self.config.limits;
        let tenants = Tenants::new(limits.max_tenants);
        // Their tenants have numbers before the first record can take the last one.
        if tenants.thresholds(&recovered.rules).is_none() {
            persist.stop.fail("more tenants have a threshold of their own than limits.max_tenants allows: raise it", 2);
            return Err(Ended);
        }
        Ok(Arc::new(IntakeShared {
            rules: recovered.rules.clone(),
            store_unmatched: self.config.store_unmatched,
            tenants,
            retries: Box::new(MemoryFilter::new(limits.max_event_ids)),
            recent: recent::RecentMessages::default(),
            budget: Budget::new(limits.max_row_bytes),
            metrics: Arc::clone(&self.metrics),
        }))
    }

    fn gauges(&self) -> Vec<Arc<JudgeGauges>> {
        let gauges: Vec<Arc<JudgeGauges>> = (0..self.config.workers).map(|_| Arc::default()).collect();
        self.metrics.set_judges(gauges.clone());
        gauges
    }

    fn worker_settings(
        &self,
        recovered: &Recovered,
        intake: &IntakeShared,
        channels: Channels,
        gauges: &[Arc<JudgeGauges>],
    ) -> (Vec<WorkerSettings<Admitted>>, Vec<Output>) {
        let (flow, workers) = (Arc::new(Flow::default()), self.config.workers);
        let (seed, judged) = (seed(), judged_rules(&recovered.rules, &intake.tenants));
        let worker = |(index, gauges): (usize, &Arc<JudgeGauges>)| {
            let (batches, receiver) = bounded(BATCHES_IN_CHANNEL);
            let waker = Waker::default();
            let settings = WorkerSettings {
                source: SourceSettings {
                    batches: receiver,
                    waker: waker.clone(),
                    clock: Arc::clone(&self.clock),
                    lateness_ms: self.config.time.lateness_ms,
                },
                judge: JudgeSettings {
                    rules: judged.clone(),
                    max_panes: self.config.limits.max_panes / workers,
                    max_fingerprints: self.config.limits.max_fingerprints,
                    seed,
                    worker: index as u32,
                    peers: workers as u32,
                    start: recovered.progress.watermark(),
                    closed: recovered.progress.closed,
                },
                outputs: channels.outputs.clone(),
                rows_weight_max: ROWS_WEIGHT_MAX,
                flow: Arc::clone(&flow),
                gauges: Arc::clone(gauges),
            };
            (settings, Output { batches, waker })
        };
        gauges.iter().enumerate().map(worker).unzip()
    }

    fn spawn_readers(
        &self,
        readers: Vec<Box<dyn Reader>>,
        outputs: Vec<Output>,
        intake: &Arc<IntakeShared>,
        recovered: &Recovered,
    ) -> Vec<std::thread::JoinHandle<()>> {
        let seats = outputs.into_iter().enumerate().map(|(worker, output)| Seat {
            worker,
            peers: self.config.workers,
            intake: Intake::new(Arc::clone(intake)),
            output,
            stop: self.stop.clone(),
            progress: Arc::clone(&recovered.progress),
            clock: Arc::clone(&self.clock),
        });
        let spawn = |(reader, seat): (Box<dyn Reader>, Seat)| {
            spawn(&format!("reader-{}", seat.worker), move || {
                reader.read(seat);
            })
        };
        readers.into_iter().zip(seats).map(spawn).collect()
    }

    fn spawn_committer(
        &self,
        runtime: &Handle,
        recovered: &Recovered,
        persist: &Persist,
        commits: Receiver<ToCommit>,
    ) -> std::thread::JoinHandle<()> {
        let pending = Pending::new(self.config.workers, &recovered.progress);
        let (clock, on_commit) = (Arc::clone(&self.clock), self.on_commit.clone());
        let (incidents, same_log) = (Arc::clone(&self.incidents), Arc::clone(&self.same_log));
        let (generation, persist, runtime) = (recovered.generation, persist.clone(), runtime.clone());
        spawn("committer", move || {
            let now_ms = || clock.now_ms();
            let committed = |progress: &Progress, epoch| {
                if let Some(tell) = &on_commit {
                    tell(progress, epoch);
                }
            };
            let committer = Committer { incidents, generation, same_log, persist };
            runtime.block_on(committer.run(pending, commits, now_ms, committed));
        })
    }

    /// Heartbeats, a look at the occurrence store, and what the retry filter may forget; until the pipeline ends.
    async fn keep_house(
        &self,
        generation: Generation,
        persist: &Persist,
        intake: &IntakeShared,
        gauges: &[Arc<JudgeGauges>],
    ) {
        let beat = self.repeat(HEARTBEAT, async || {
            if let Some(time) = gauges.iter().map(|gauges| gauges.held_since()).min().flatten() {
                intake.retries.forget_before(time);
            }
            let beat = async || self.incidents.heartbeat(generation).await;
            persist.until_stored(self.incidents.name(), "heartbeat", beat).await
        });
        let look = self.repeat(LOOK, async || {
            let ping = async || self.occurrences.ping().await;
            persist.until_stored(self.occurrences.name(), "ping", ping).await
        });
        tokio::join!(beat, look);
    }

    /// Repeats an action until it fails or the pipeline ends.
    async fn repeat(&self, every: Duration, mut action: impl AsyncFnMut() -> Result<(), Ended>) {
        let mut ticks = tokio::time::interval(every);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.stop.stopped() => return,
            }
            if action().await.is_err() {
                return;
            }
        }
    }
}

/// The rules as the judges take them. The directory has numbered the tenants that have thresholds of their own before.
fn judged_rules(rules: &[Rule], tenants: &Tenants) -> Vec<JudgedRule> {
    let thresholds = tenants.thresholds(rules).unwrap_or_default().into_iter().chain(std::iter::repeat(Vec::new()));
    rules.iter().zip(thresholds).map(|(rule, thresholds)| JudgedRule::new(rule, thresholds)).collect()
}
