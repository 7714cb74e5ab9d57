//! The judge of occurrences as an operator: a shell around [`Judge`] and [`MergedWatermark`].
//!
//! # Semantics
//!
//! Each activation drains its input, then takes the merged watermark over the sources, then releases what waited for
//! acknowledgements. An incident leaves in the activation that saw the crossing occurrence (W-5), at that record's own
//! epoch.
//!
//! # Frontiers and capabilities
//!
//! One capability of its own, at the frontier of the messages: closings are sent at it. The second input carries
//! nothing; its frontier says which epochs the occurrence store has acknowledged. An empty frontier closes nothing
//! (T-5): it only ends the operator.

use crate::egress::{Weighty, is_over};
use crate::epoch::Epoch;
use crate::message::{Closing, Due, Message};
use crate::progress::{Flow, WorkerProgress};
use crate::state::judge::{Judge, JudgeFigures, JudgeSettings};
use crate::state::merged_watermark::MergedWatermark;
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
        1
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

/// The streams of incidents that are due, and of closings.
pub type JudgeStreams<'scope> = (Stream<'scope, Epoch, Vec<Due>>, Stream<'scope, Epoch, Vec<Closing>>);

/// Events whose panes are looked at ahead.
const WARM_EVENTS: usize = 32;

/// Lets the memory accesses of the next events overlap: with a million keys each waits for main memory otherwise, and
/// with ten thousand for the second-level cache.
fn warm(judge: &Judge, messages: &[Message]) {
    let look = |message: &Message| match message {
        Message::Event(event) => judge.warm(event),
        Message::Control(_) => 0,
    };
    std::hint::black_box(messages.iter().fold(0, |all, message| all ^ look(message)));
}

/// Builds the operator.
pub(crate) fn window_judge<'scope>(
    messages: Stream<'scope, Epoch, Vec<Message>>,
    acknowledged: Stream<'scope, Epoch, Vec<()>>,
    settings: &JudgeSettings,
    shared: (Rc<WorkerProgress>, Arc<Flow>, Arc<JudgeGauges>),
) -> JudgeStreams<'scope> {
    let (progress, flow, gauges) = shared;
    let scope = messages.scope();
    let mut judge = Judge::new(settings);
    let mut watermark = MergedWatermark::new(scope.peers(), settings.start);
    let mut builder = OperatorBuilder::new("WindowJudge".to_owned(), scope);
    let mut messages = builder.new_input(messages, Exchange::new(Message::route));
    let mut acknowledged = builder.new_input(acknowledged, Pipeline);
    let (due_out, due_stream) = builder.new_output();
    let (closings_out, closings_stream) = builder.new_output();
    let mut due_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Due>>>::from(due_out);
    let mut closings_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Closing>>>::from(closings_out);

    builder.build(move |mut capabilities| {
        let mut closings_at = capabilities.pop();
        let mut due_at = capabilities.pop();
        let (mut seen, mut shown): (Epoch, Epoch) = (0, 0);
        move |frontiers| {
            let (mut due_out, mut closings_out) = (due_out.activate(), closings_out.activate());
            acknowledged.for_each(|_, _| {});
            messages.for_each(|capability, messages| {
                seen = seen.max(capability.least().copied().unwrap_or(0));
                let mut session = due_out.session(&capability);
                let mut events = 0;
                for some in messages.chunks(WARM_EVENTS) {
                    warm(&judge, some);
                    for message in some {
                        match message {
                            Message::Event(event) => {
                                events += 1;
                                judge.apply(event, seen, &mut |due| session.give(due));
                            }
                            Message::Control(control) => watermark.update(control),
                        }
                    }
                }
                messages.clear();
                flow.judged(events);
            });
            let (Some(due_at), Some(closings_at)) = (due_at.as_mut(), closings_at.as_mut()) else { return };
            let Some(frontier) = frontiers[0].frontier().first().copied() else {
                // Only a dataflow that is being dropped has an empty frontier: stay, and close nothing.
                return;
            };
            let merged = watermark.advance();
            if watermark.is_live() {
                let mut session = due_out.session(&*due_at);
                judge.advance(merged, seen, &mut |due| session.give(due));
            }
            if judge.is_waiting() {
                let mut session = closings_out.session(&*closings_at);
                judge.release(|epoch| is_over(&frontiers[1], epoch), &mut |closing| session.give(closing));
            }
            due_at.downgrade(&frontier);
            closings_at.downgrade(&frontier);
            progress.set_merged_watermark(merged);
            if shown != seen {
                shown = seen;
                gauges.show(&judge, merged);
            }
        }
    });
    (due_stream, closings_stream)
}
