//! The threads of a pipeline, and the channels between them.

use super::budget::Admitted;
use super::commit::ToCommit;
use super::lanes::Lanes;
use super::stop::Stop;
use crossbeam_channel::{Receiver, Sender, bounded};
use floodmark_dataflow::ask::{Asking, QUESTIONS_MAX};
use floodmark_dataflow::egress::{Delivery, IN_FLIGHT_MAX};
use floodmark_dataflow::graph::{Outputs, WorkerSettings, run_worker};
use floodmark_dataflow::message::{Closing, Due};
use floodmark_sinks::{IncidentStore, OccurrenceStore};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

/// Threads that insert rows: while the store works on one insert, the next is on its way.
const ROW_LANES: usize = 2;

/// The channels between the workers and the lanes.
pub(super) struct Channels {
    pub(super) outputs: Outputs<Admitted>,
    pub(super) rows: Receiver<Delivery<Admitted>>,
    pub(super) due: Receiver<Delivery<Due>>,
    pub(super) closings: Receiver<Delivery<Closing>>,
    pub(super) questions: Receiver<Asking>,
}

impl Channels {
    pub(super) fn new(workers: usize) -> Self {
        let room = IN_FLIGHT_MAX * workers;
        let ((to_rows, rows), (to_due, due), (to_closings, closings)) = (bounded(room), bounded(room), bounded(room));
        let (to_questions, questions) = bounded(QUESTIONS_MAX * workers);
        let outputs = Outputs { rows: to_rows, due: to_due, closings: to_closings, questions: to_questions };
        Self { outputs, rows, due, closings, questions }
    }
}

/// Starts a thread for each lane, and a few for rows.
pub(super) fn spawn_lanes<O: OccurrenceStore, I: IncidentStore>(
    runtime: &Handle,
    lanes: Arc<Lanes<O, I>>,
    channels: &Channels,
    to_commit: &Sender<ToCommit>,
) -> Vec<std::thread::JoinHandle<()>> {
    let mut threads: Vec<_> = (0..ROW_LANES)
        .map(|_| {
            let (runtime, lanes, rows) = (runtime.clone(), Arc::clone(&lanes), channels.rows.clone());
            spawn("rows", move || runtime.block_on(lanes.rows(rows)))
        })
        .collect();
    let (handle, of_due, due) = (runtime.clone(), Arc::clone(&lanes), channels.due.clone());
    threads.push(spawn("incidents", move || handle.block_on(of_due.due(due))));
    let (handle, of_questions, questions) = (runtime.clone(), Arc::clone(&lanes), channels.questions.clone());
    threads.push(spawn("questions", move || handle.block_on(of_questions.questions(questions))));
    let (handle, of_samples) = (runtime.clone(), Arc::clone(&lanes));
    threads.push(spawn("samples", move || handle.block_on(of_samples.samples())));
    let (handle, closings, to_commit) = (runtime.clone(), channels.closings.clone(), to_commit.clone());
    threads.push(spawn("closings", move || handle.block_on(lanes.closings(closings, to_commit))));
    threads
}

/// Starts the timely workers. Each hands its durable cuts to the committer.
pub(super) fn spawn_workers(
    settings: Vec<WorkerSettings<Admitted>>,
    to_commit: Sender<ToCommit>,
    stop: Stop,
) -> timely::communication::WorkerGuards<()> {
    let config = timely::Config::process(settings.len());
    let seats: Vec<_> = settings.into_iter().map(|settings| Mutex::new(Some((settings, to_commit.clone())))).collect();
    drop(to_commit);
    let run = move |worker: &mut timely::worker::Worker| {
        let seat = seats[worker.index()].lock().unwrap_or_else(PoisonError::into_inner).take();
        let (settings, to_commit) = seat.expect("each worker runs once");
        let durable = |cuts| {
            // The committer is gone only when the pipeline has ended.
            let _ = to_commit.send(ToCommit::Cuts(cuts));
        };
        run_worker(worker, settings, durable, || stop.is_stopped());
    };
    timely::execute(config, run).expect("threads of one process can always talk to each other")
}

/// Starts a thread with a name.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("the system gives another thread")
}

/// A number that strangers cannot guess, for the hash tables of this run.
pub(super) fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
