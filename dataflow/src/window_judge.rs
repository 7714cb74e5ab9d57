//! The judge of occurrences as an operator: a shell around [`Judge`] and [`MergedWatermark`].
//!
//! # Semantics
//!
//! Each activation drains its input, takes in answers, takes the merged watermark over the sources, then releases and
//! asks what waited for acknowledgements. An incident leaves in the activation that saw the crossing occurrence (W-5), at
//! that record's own epoch.
//!
//! # Frontiers and capabilities
//!
//! One capability of its own for each output, at the frontier of the messages or at the least epoch with a late
//! occurrence that is not judged (W-8): progress does not pass it. The second input carries nothing; its frontier says
//! which epochs the occurrence store has acknowledged. An empty frontier closes nothing (T-5): it only ends the operator.

use crate::ask::{Asking, Questions};
use crate::egress::{Weighty, is_over};
use crate::epoch::Epoch;
use crate::message::{Closing, Crowd, Due, Message};
use crate::progress::{Flow, WorkerProgress};
use crate::state::judge::{AHEAD, Judge, JudgeFigures, JudgeSettings};
use crate::state::merged_watermark::MergedWatermark;
use crate::wake::Waker;
use crossbeam_channel::Sender;
use floodmark_model::EventTime;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

impl Weighty for Due {
    fn weight(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Crowd { .. } => 1,
            Self::Mark { .. } => 0,
        }
    }
}

impl Weighty for Closing {
    fn weight(&self) -> usize {
        1
    }
}

/// What one judge shows to other threads: its figures, and the merged watermark.
#[derive(Debug)]
pub struct JudgeGauges {
    counted: AtomicU64,
    late: AtomicU64,
    refused: AtomicU64,
    asked: AtomicU64,
    waiting: AtomicU64,
    open_panes: AtomicU64,
    retained_panes: AtomicU64,
    bytes: AtomicU64,
    merged_ms: AtomicI64,
    held_since_ms: AtomicI64,
}

impl Default for JudgeGauges {
    fn default() -> Self {
        Self {
            counted: AtomicU64::new(0),
            late: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            open_panes: AtomicU64::new(0),
            retained_panes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            merged_ms: AtomicI64::new(i64::MIN),
            held_since_ms: AtomicI64::new(i64::MIN),
        }
    }
}

impl JudgeGauges {
    /// The judge's figures, as of its latest activation.
    #[must_use]
    pub fn figures(&self) -> JudgeFigures {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        JudgeFigures {
            counted: read(&self.counted),
            late: read(&self.late),
            refused: read(&self.refused),
            asked: read(&self.asked),
            waiting: read(&self.waiting) as usize,
            open_panes: read(&self.open_panes) as usize,
            retained_panes: read(&self.retained_panes) as usize,
            bytes: read(&self.bytes) as usize,
        }
    }

    /// The merged watermark.
    #[must_use]
    pub fn merged_watermark(&self) -> Option<EventTime> {
        known(self.merged_ms.load(Ordering::Relaxed))
    }

    /// The first instant whose window this judge may still hold; `None` while it holds all it ever saw.
    #[must_use]
    pub fn held_since(&self) -> Option<EventTime> {
        known(self.held_since_ms.load(Ordering::Relaxed))
    }

    fn show(&self, judge: &Judge, merged: Option<EventTime>) {
        let figures = judge.figures();
        let write = |value: &AtomicU64, figure: u64| value.store(figure, Ordering::Relaxed);
        write(&self.counted, figures.counted);
        write(&self.late, figures.late);
        write(&self.refused, figures.refused);
        write(&self.asked, figures.asked);
        write(&self.waiting, figures.waiting as u64);
        write(&self.open_panes, figures.open_panes as u64);
        write(&self.retained_panes, figures.retained_panes as u64);
        write(&self.bytes, figures.bytes as u64);
        let time = |time: Option<EventTime>| time.map_or(i64::MIN, |time| time.0);
        self.merged_ms.store(time(merged), Ordering::Relaxed);
        self.held_since_ms.store(time(judge.held_since()), Ordering::Relaxed);
    }
}

fn known(time_ms: i64) -> Option<EventTime> {
    (time_ms != i64::MIN).then_some(EventTime(time_ms))
}

/// What a judge sends.
pub struct JudgeStreams<'scope> {
    /// Incidents that are due.
    pub due: Stream<'scope, Epoch, Vec<Due>>,
    /// Closings.
    pub closings: Stream<'scope, Epoch, Vec<Closing>>,
    /// How many panes tenants have.
    pub crowds: Stream<'scope, Epoch, Vec<Crowd>>,
}

fn look_ahead(judge: &Judge, messages: &[Message]) {
    judge.look_ahead(messages.iter().filter_map(|message| match message {
        Message::Event(event) => Some(event),
        Message::Control(_) => None,
    }));
}

/// Builds the operator.
pub(crate) fn window_judge<'scope>(
    messages: Stream<'scope, Epoch, Vec<Message>>,
    acknowledged: Stream<'scope, Epoch, Vec<()>>,
    settings: &JudgeSettings,
    questions: Sender<Asking>,
    shared: (Rc<WorkerProgress>, Arc<Flow>, Arc<JudgeGauges>),
) -> JudgeStreams<'scope> {
    let (progress, flow, gauges) = shared;
    let scope = messages.scope();
    let mut judge = Judge::new(settings);
    let mut watermark = MergedWatermark::new(scope.peers(), settings.start);
    let mut builder = OperatorBuilder::new("WindowJudge".to_owned(), scope);
    let waker = Waker::default();
    waker.set(scope.worker().sync_activator_for(builder.operator_info().address.to_vec()));
    let questions = Questions::new(questions, waker);
    let mut messages = builder.new_input(messages, Exchange::new(Message::route));
    let mut acknowledged = builder.new_input(acknowledged, Pipeline);
    let (due_out, due_stream) = builder.new_output();
    let (closings_out, closings_stream) = builder.new_output();
    let (crowds_out, crowds_stream) = builder.new_output();
    let mut due_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Due>>>::from(due_out);
    let mut crowds_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Crowd>>>::from(crowds_out);
    let mut closings_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Closing>>>::from(closings_out);

    builder.build(move |mut capabilities| {
        let mut crowds_at = capabilities.pop();
        let mut closings_at = capabilities.pop();
        let mut due_at = capabilities.pop();
        let (mut seen, mut shown): (Epoch, Epoch) = (0, 0);
        move |frontiers| {
            let (mut due_out, mut closings_out) = (due_out.activate(), closings_out.activate());
            let mut crowds_out = crowds_out.activate();
            acknowledged.for_each(|_, _| {});
            messages.for_each(|capability, messages| {
                let epoch = capability.least().copied().unwrap_or(0);
                seen = seen.max(epoch);
                let mut session = due_out.session(&capability);
                let mut events = 0;
                for some in messages.chunks(AHEAD) {
                    look_ahead(&judge, some);
                    for message in some {
                        match message {
                            Message::Event(event) => {
                                events += 1;
                                judge.apply(event, epoch, &mut |due| session.give(due));
                            }
                            Message::Control(control) => watermark.update(control),
                        }
                    }
                }
                messages.clear();
                flow.judged(events);
            });
            let (Some(due_at), Some(closings_at), Some(crowds_at)) =
                (due_at.as_mut(), closings_at.as_mut(), crowds_at.as_mut())
            else {
                return;
            };
            let Some(frontier) = frontiers[0].frontier().first().copied() else {
                // Only a dataflow that is being dropped has an empty frontier: stay, and close nothing.
                return;
            };
            let is_acknowledged = |epoch| is_over(&frontiers[1], epoch);
            let merged = watermark.advance();
            {
                let mut due = due_out.session(&*due_at);
                questions.answers().for_each(|answer| judge.answer(answer, &mut |row| due.give(row)));
                if watermark.is_live() {
                    judge.advance(merged, seen, &mut |row| due.give(row));
                }
                // Before anything is freed.
                let mut crowds = crowds_out.session(&*crowds_at);
                judge.tell(|crowd| crowds.give(crowd));
                if judge.is_waiting() {
                    let mut closings = closings_out.session(&*closings_at);
                    judge.release(is_acknowledged, &mut |row| due.give(row), &mut |closing| closings.give(closing));
                }
            }
            while let Some(question) = judge.ask(is_acknowledged) {
                questions.ask(question);
            }
            let open = judge.oldest_epoch().map_or(frontier, |oldest| oldest.min(frontier));
            for capability in [due_at, closings_at] {
                // What a close asks for may have come of an epoch that is over already.
                capability.downgrade(&open.max(*capability.time()));
            }
            crowds_at.downgrade(&frontier);
            progress.set_merged_watermark(merged, seen);
            if shown != seen {
                shown = seen;
                gauges.show(&judge, merged);
            }
        }
    });
    JudgeStreams { due: due_stream, closings: closings_stream, crowds: crowds_stream }
}
