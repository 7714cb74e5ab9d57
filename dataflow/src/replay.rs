//! History under other rules: a small differential dataflow (design, decision 12).
//!
//! ```text
//!  facts ------> by bug: history ---+
//!                                   +--> join by shard: Candidate::judge --> consolidated changes
//!  candidates -> to every shard ----+
//! ```
//!
//! # Semantics
//! - Both inputs are collections: facts and candidates may come and go. [`Replay::settle`] tells what that changed, and
//!   only what it changed is computed: another threshold is judged against every bug, but no other candidate is judged
//!   again; another count is judged under every candidate, but no other bug.
//! - What is found does not depend on the order of facts, on how they are cut into batches, or on the number of workers.
//!
//! # State
//! All facts of one [`Page`], held twice: as they came, about 100 B for each bucket of a bug that has occurrences, and by
//! bug, 16 B more. The caller bounds it by the size of its pages.

use crate::state::candidate::{Candidate, Finding, Page};
use crate::state::history::CandidateIndex;
use crate::state::history::{BugKey, Fact, History};
use crate::state::pane::TenantId;
use crate::state::stretch::Terms;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use differential_dataflow::input::{Input, InputSession};
use floodmark_model::EventTime;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use timely::communication::WorkerGuards;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

/// Parts into which bugs are cut, so that every worker holds some and each part meets every candidate.
const SHARDS: u64 = 64;

/// Facts that travel to a worker at once.
const BATCH: usize = 4_096;

/// Batches that wait for a worker: what reads the store waits as well.
const BATCHES_WAITING: usize = 4;

/// How long a worker that waits for another one sleeps at most.
const PARK: Duration = Duration::from_millis(20);

/// What a candidate would change for one bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Found {
    /// Which candidate.
    pub candidate: CandidateIndex,
    /// Which bug.
    pub bug: BugKey,
    /// What it would change.
    pub finding: Finding,
}

/// The terms of a candidate for a tenant in the window that starts at a time.
pub type TermsOf = Arc<dyn Fn(&Candidate, TenantId, EventTime) -> Terms + Send + Sync>;

/// A replay of one page on threads of its own, which end with this value.
pub struct Replay {
    commands: Vec<Sender<Command>>,
    answers: Receiver<Answer>,
    batch: Vec<(BugKey, Fact, isize)>,
    next_worker: usize,
    judged: Arc<AtomicU64>,
    _workers: WorkerGuards<()>,
}

enum Command {
    Facts(Vec<(BugKey, Fact, isize)>),
    Candidate(Candidate, isize),
    Settle,
}

enum Answer {
    Changes(Vec<(Found, isize)>),
    Settled,
}

impl Replay {
    /// Starts so many workers, at least one, over a page without facts or candidates.
    #[must_use]
    pub fn start(workers: usize, page: Page) -> Self {
        Self::start_on(workers, page, Arc::new(|candidate, _, _| candidate.terms()))
    }

    /// [`Self::start`], where a candidate's terms depend on tenant and window.
    #[must_use]
    pub fn start_on(workers: usize, page: Page, terms: TermsOf) -> Self {
        let workers = workers.max(1);
        let (commands, waiting): (Vec<_>, Vec<_>) = (0..workers).map(|_| bounded(BATCHES_WAITING)).unzip();
        let (to_caller, answers) = unbounded();
        let judged = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&judged);
        let run = move |worker: &mut Worker| {
            let (terms, judged) = (Arc::clone(&terms), Arc::clone(&counter));
            let seat = Seat { page, terms, answers: to_caller.clone(), judged };
            run_worker(worker, seat, &waiting[worker.index()]);
        };
        let guards = timely::execute(timely::Config::process(workers), run);
        let guards = guards.expect("threads of one process can always talk to each other");
        Self { commands, answers, batch: Vec::new(), next_worker: 0, judged, _workers: guards }
    }

    /// Says a fact so many times more; less often with a negative number.
    pub fn say(&mut self, bug: BugKey, fact: Fact, times: isize) {
        self.batch.push((bug, fact, times));
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    /// Adds a candidate. Its index is its own.
    pub fn add(&mut self, candidate: Candidate) {
        self.send(0, Command::Candidate(candidate, 1));
    }

    /// Takes a candidate back that was added.
    pub fn remove(&mut self, candidate: Candidate) {
        self.send(0, Command::Candidate(candidate, -1));
    }

    /// Waits until all that was said is judged. `each` is called for what has changed since the last time, in any order:
    /// 1 for what is found now, -1 for what no longer is.
    pub fn settle(&mut self, mut each: impl FnMut(Found, isize)) {
        self.flush();
        (0..self.commands.len()).for_each(|worker| self.send(worker, Command::Settle));
        let mut unsettled = self.commands.len();
        while unsettled > 0 {
            match self.answers.recv().expect("a worker answers until its commands end") {
                Answer::Changes(changes) => changes.into_iter().for_each(|(found, times)| each(found, times)),
                Answer::Settled => unsettled -= 1,
            }
        }
    }

    /// How often a candidate was judged against a bug: the work done so far.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.judged.load(Ordering::Relaxed)
    }

    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.next_worker = (self.next_worker + 1) % self.commands.len();
        self.send(self.next_worker, Command::Facts(batch));
    }

    fn send(&self, worker: usize, command: Command) {
        self.commands[worker].send(command).expect("a worker takes commands until they end");
    }
}

/// What a worker is built from.
struct Seat {
    page: Page,
    terms: TermsOf,
    answers: Sender<Answer>,
    judged: Arc<AtomicU64>,
}

/// Runs one worker until its commands end. It waits for each: there is nothing to compute in between that could not wait
/// for the next [`Command::Settle`], which all workers get.
fn run_worker(worker: &mut Worker, seat: Seat, commands: &Receiver<Command>) {
    let answers = seat.answers.clone();
    let probe = ProbeHandle::new();
    let (mut facts, mut candidates) = dataflow(worker, seat, &probe);
    let mut time = 0;
    for command in commands {
        match command {
            Command::Facts(batch) => {
                batch.into_iter().for_each(|(bug, fact, times)| facts.update((bug, fact), times));
                worker.step();
            }
            Command::Candidate(candidate, times) => candidates.update(candidate, times),
            Command::Settle => {
                time += 1;
                facts.advance_to(time);
                facts.flush();
                candidates.advance_to(time);
                candidates.flush();
                worker.step_or_park_while(Some(PARK), || probe.less_than(&time));
                // Nobody listens once the replay was given up.
                let _ = answers.send(Answer::Settled);
            }
        }
    }
    // What was not settled is not wanted.
    for dataflow in worker.installed_dataflows() {
        worker.drop_dataflow(dataflow);
    }
}

type Facts = InputSession<u64, (BugKey, Fact), isize>;
type Candidates = InputSession<u64, Candidate, isize>;

fn dataflow(worker: &mut Worker, seat: Seat, probe: &ProbeHandle<u64>) -> (Facts, Candidates) {
    let Seat { page, terms, answers, judged } = seat;
    worker.dataflow::<u64, _, _>(|scope| {
        let (facts_input, facts) = scope.new_collection();
        let (candidates_input, candidates) = scope.new_collection::<Candidate, isize>();
        let histories = facts
            .reduce_named("History", |_, facts, history| {
                history.push((History::of(facts.iter().map(|(fact, times)| (*fact, *times))), 1isize));
            })
            .map(|(bug, history): (BugKey, History)| (shard(&bug), (bug, history)));
        let everywhere = candidates.flat_map(|candidate| (0..SHARDS).map(move |shard| (shard, candidate)));
        histories
            .join_core(everywhere.arrange_by_key_named("Candidates"), move |_, (bug, history), candidate| {
                judged.fetch_add(1, Ordering::Relaxed);
                let (bug, candidate_index) = (*bug, candidate.index);
                let found = move |finding| Found { candidate: candidate_index, bug, finding };
                let terms = |start| terms(candidate, bug.tenant, start);
                candidate.judge_on(history, &page, terms).into_iter().map(found)
            })
            // A bug that is judged again mostly answers the same.
            .consolidate()
            .inspect_batch(move |_, changes| {
                let changes = changes.iter().map(|(found, _, times)| (*found, *times)).collect();
                // Nobody listens once the replay was given up.
                let _ = answers.send(Answer::Changes(changes));
            })
            .probe_with(probe);
        (facts_input, candidates_input)
    })
}

/// Any bits of a fingerprint are as good as others.
fn shard(bug: &BugKey) -> u64 {
    (bug.fingerprint.bits() as u64 ^ u64::from(bug.tenant.0)) % SHARDS
}
