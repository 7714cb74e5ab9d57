//! The way in: batches of one reading thread become records and rows of an epoch.
//!
//! # Semantics
//!
//! Batches are taken in the order in which the thread sent them. With each new epoch the source sends every worker one
//! control record, in the stream of its records, that says where its partitions' watermarks stand (T-3, T-4); before
//! that it notes how far it had read when it left the last epoch (a [`Cut`]). The first control record is sent as soon as
//! it knows its partitions: until every source has spoken, the judges only count.
//!
//! # Frontiers and capabilities
//!
//! One capability for each output, at the current epoch, moved by the injected clock alone. They are never dropped: a
//! channel that is disconnected is not the end of time (T-5).
//!
//! # Bounds
//!
//! Batches of one activation are bounded, and no more than [`EVENTS_IN_FLIGHT_MAX`](crate::progress::EVENTS_IN_FLIGHT_MAX) events are on their way to the
//! judges of this process: beyond that the channel fills and the reading thread waits. Rows are bounded where they are
//! encoded.

use crate::epoch::{Clock, Epoch, epoch_at};
use crate::message::{Batch, Control, Message};
use crate::progress::{Cut, Flow, WorkerProgress};
use crate::state::partitions::Partitions;
use crate::wake::Waker;
use crossbeam_channel::Receiver;
use std::rc::Rc;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Scope, Stream};

/// Batches taken in one activation.
const BATCHES_MAX: usize = 16;

/// What a source is built from.
pub struct SourceSettings<R> {
    /// The reading thread's batches.
    pub batches: Receiver<Batch<R>>,
    /// Wakes the source when a batch was sent.
    pub waker: Waker,
    /// Where epochs come from.
    pub clock: Arc<dyn Clock>,
    /// How far a partition's watermark stays behind its greatest event time, in milliseconds (T-3).
    pub lateness_ms: i64,
}

/// The two streams of a source: messages for the judges, and rows for the occurrence store.
pub type SourceStreams<'scope, R> = (Stream<'scope, Epoch, Vec<Message>>, Stream<'scope, Epoch, Vec<R>>);

/// Builds the operator.
pub(crate) fn source<'scope, R: 'static>(
    scope: Scope<'scope, Epoch>,
    settings: SourceSettings<R>,
    progress: Rc<WorkerProgress>,
    flow: Arc<Flow>,
) -> SourceStreams<'scope, R> {
    let SourceSettings { batches, waker, clock, lateness_ms } = settings;
    let mut builder = OperatorBuilder::new("Source".to_owned(), scope);
    let address = builder.operator_info().address;
    waker.set(scope.worker().sync_activator_for(address.to_vec()));
    let again = scope.activator_for(address);
    let (messages_out, messages) = builder.new_output();
    let (rows_out, rows) = builder.new_output();
    let mut messages_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<Message>>>::from(messages_out);
    let mut rows_out = OutputBuilder::<_, CapacityContainerBuilder<Vec<R>>>::from(rows_out);
    let (index, peers) = (scope.index() as u32, scope.peers() as u32);

    builder.build(move |mut capabilities| {
        let mut rows_at = capabilities.pop().expect("one capability for each output");
        let mut messages_at = capabilities.pop().expect("one capability for each output");
        let mut state = SourceState { partitions: Partitions::new(lateness_ms), is_assigned: false, has_spoken: false };
        move |_frontiers| {
            let (mut messages_out, mut rows_out) = (messages_out.activate(), rows_out.activate());
            let mut taken = 0;
            while taken < BATCHES_MAX && flow.has_room() {
                // Disconnected is not the end of time (T-5).
                let Ok(batch) = batches.try_recv() else { break };
                taken += 1;
                let (events, row) = state.take(batch);
                flow.sent(events.len());
                messages_out.session(&messages_at).give_iterator(events.into_iter().map(Message::Event));
                rows_out.session(&rows_at).give_iterator(row.into_iter());
            }
            if taken == BATCHES_MAX || !flow.has_room() {
                again.activate();
            }
            let now_ms = clock.now_ms();
            let epoch = epoch_at(now_ms);
            let is_new = epoch > *messages_at.time();
            if is_new {
                state.leave(*messages_at.time(), &progress, now_ms);
                move_to(epoch, &mut [&mut messages_at, &mut rows_at]);
            }
            if is_new || !state.has_spoken {
                state.has_spoken = state.is_assigned;
                let mut session = messages_out.session(&messages_at);
                for to in 0..peers {
                    if let Some(control) = state.control(index, to, now_ms) {
                        session.give(Message::Control(control));
                    }
                }
            }
        }
    });
    (messages, rows)
}

fn move_to(epoch: Epoch, capabilities: &mut [&mut Capability<Epoch>]) {
    capabilities.iter_mut().for_each(|capability| capability.downgrade(&epoch));
}

/// The plain state of a source.
struct SourceState {
    partitions: Partitions,
    is_assigned: bool,
    has_spoken: bool,
}

impl SourceState {
    /// Takes a batch in; gives what it sends.
    fn take<R>(&mut self, batch: Batch<R>) -> (Vec<crate::message::Event>, Option<R>) {
        match batch {
            Batch::Loaded(events) => (events, None),
            Batch::Assigned(partitions) => {
                self.is_assigned = true;
                partitions.into_iter().for_each(|(update, stored)| self.partitions.assign(update, stored));
                (Vec::new(), None)
            }
            Batch::Read { events, rows, partitions } => {
                partitions.into_iter().for_each(|update| self.partitions.update(update));
                (events, rows)
            }
        }
    }

    /// Notes how far all that was sent up to `epoch` has come.
    fn leave(&mut self, epoch: Epoch, progress: &WorkerProgress, now_ms: i64) {
        if self.is_assigned {
            let partitions = self.partitions.take_progress(progress.merged_watermark(), now_ms);
            progress.push(Cut { epoch, partitions });
        }
    }

    /// The control record for one worker, once the source knows its partitions.
    fn control(&self, source: u32, to: u32, clock_ms: i64) -> Option<Control> {
        self.is_assigned.then(|| Control { source, to, watermark: self.partitions.watermark(clock_ms), clock_ms })
    }
}

#[cfg(test)]
mod tests;
