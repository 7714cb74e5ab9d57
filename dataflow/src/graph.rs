//! The whole dataflow of one worker, and its loop.

use crate::ask::Asking;
use crate::crowds::crowds;
use crate::egress::{Delivery, Departure, Weighty, egress};
use crate::epoch::{Epoch, epoch_at};
use crate::message::{Closing, Due};
use crate::progress::{Cut, Flow, WorkerProgress};
use crate::source::{SourceSettings, source};
use crate::state::judge::JudgeSettings;
use crate::window_judge::{JudgeGauges, JudgeStreams, window_judge};
use crossbeam_channel::Sender;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use timely::dataflow::operators::{Concat, Concatenate, Probe};
use timely::worker::Worker;

/// The channels to the stores. Workers may share them; each must have room for
/// [`IN_FLIGHT_MAX`](crate::egress::IN_FLIGHT_MAX) deliveries of each worker.
pub struct Outputs<R> {
    /// Rows for the occurrence store.
    pub rows: Sender<Delivery<R>>,
    /// Incidents that are due.
    pub due: Sender<Delivery<Due>>,
    /// Closings.
    pub closings: Sender<Delivery<Closing>>,
    /// Questions to the occurrence store. It must have room for
    /// [`QUESTIONS_MAX`](crate::ask::QUESTIONS_MAX) of each worker.
    pub questions: Sender<Asking>,
}

impl<R> Clone for Outputs<R> {
    fn clone(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            due: self.due.clone(),
            closings: self.closings.clone(),
            questions: self.questions.clone(),
        }
    }
}

/// What one worker is built from.
pub struct WorkerSettings<R> {
    /// Its reading thread.
    pub source: SourceSettings<R>,
    /// Its judge.
    pub judge: JudgeSettings,
    /// The stores.
    pub outputs: Outputs<R>,
    /// Weight at which a delivery of rows leaves before its epoch is over.
    pub rows_weight_max: usize,
    /// Shared by the workers of this process.
    pub flow: Arc<Flow>,
    /// What the judge shows.
    pub gauges: Arc<JudgeGauges>,
}

/// How long a worker parks when it has nothing to do; it must wake for every epoch.
const PARK: Duration = Duration::from_millis(20);

/// Runs the dataflow on this worker until `stop` says so; hands over every cut that has become durable.
///
/// A stop is not the end of time: the dataflow is dropped, and closes no window (T-5).
pub fn run_worker<R: Weighty + 'static>(
    worker: &mut Worker,
    settings: WorkerSettings<R>,
    mut durable: impl FnMut(Vec<Cut>),
    stop: impl Fn() -> bool,
) {
    let WorkerSettings { source: source_settings, judge, outputs, rows_weight_max, flow, gauges } = settings;
    let (clock, tick) = (Arc::clone(&source_settings.clock), source_settings.waker.clone());
    let progress = Rc::new(WorkerProgress::default());
    let probe = worker.dataflow::<Epoch, _, _>(|scope| {
        let (messages, rows) = source(scope, source_settings, Rc::clone(&progress), Arc::clone(&flow));
        let departure = Departure::AfterEpoch { weight_max: rows_weight_max };
        let stored = egress(rows, "Occurrences", departure, outputs.rows);
        let shared = (Rc::clone(&progress), flow, gauges);
        let JudgeStreams { due, closings, crowds: said } =
            window_judge(messages, stored.clone(), &judge, outputs.questions, shared);
        let loud = crowds(said, u64::from(judge.max_fingerprints), Rc::clone(&progress));
        let paged = egress(due.concat(loud), "Incidents", Departure::AtOnce, outputs.due);
        let closed = egress(closings, "Closings", Departure::AtOnce, outputs.closings);
        let (probe, _) = scope.concatenate([stored, paged, closed]).probe();
        probe
    });
    let mut epoch = 0;
    while !stop() {
        let now = epoch_at(clock.now_ms());
        if now > epoch {
            epoch = now;
            tick.wake();
        }
        worker.step_or_park(Some(PARK));
        let cuts = probe.with_frontier(|frontier| progress.take_durable(|epoch| !frontier.less_equal(&epoch)));
        if !cuts.is_empty() {
            durable(cuts);
        }
    }
    for dataflow in worker.installed_dataflows() {
        worker.drop_dataflow(dataflow);
    }
}
