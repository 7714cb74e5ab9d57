//! The way out: items leave in deliveries, and their epochs stay open until the other side has acknowledged them.
//!
//! # Frontiers and capabilities
//!
//! Each delivery holds one capability: the least epoch of its items. The output carries nothing, and its frontier says
//! what is acknowledged: behind it every item has been delivered and confirmed. A capability is dropped by an
//! acknowledgement and by nothing else, so a store that is away holds progress, and a stop leaves it held (T-5).
//!
//! # Bounds
//!
//! At most [`IN_FLIGHT_MAX`] deliveries are under way; what comes meanwhile grows into the next one, so a slow store
//! gets fewer and larger writes. What is buffered here is bounded where records enter (`source.rs`).

use crate::epoch::Epoch;
use crate::wake::Waker;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::BTreeMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;
use timely::progress::frontier::MutableAntichain;

/// Deliveries of one egress that are sent and not acknowledged.
pub const IN_FLIGHT_MAX: usize = 2;

/// When a delivery leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// As soon as there is an item, and room in flight.
    AtOnce,
    /// When its first epoch is over, or it weighs this much: many small writes become one.
    AfterEpoch {
        /// The weight, as [`Weighty::weight`] adds it up.
        weight_max: usize,
    },
}

/// How much an item adds to a delivery.
pub trait Weighty {
    /// The weight, such as bytes or rows.
    fn weight(&self) -> usize;
}

/// Items on their way to a store.
#[derive(Debug)]
pub struct Delivery<T> {
    /// In the order in which they were sent to the egress.
    pub items: Vec<T>,
    /// To be confirmed when every one of them is durable.
    pub acknowledge: Acknowledge,
}

/// Confirms one delivery. Dropping it unconfirmed confirms nothing: the epoch stays open.
#[derive(Debug)]
pub struct Acknowledge {
    number: u64,
    confirmed: Sender<u64>,
    waker: Waker,
}

impl Acknowledge {
    /// Every item of the delivery is durable.
    pub fn confirm(self) {
        // The receiver is gone when the worker has stopped; nobody waits then.
        let _ = self.confirmed.send(self.number);
        self.waker.wake();
    }
}

/// The plain state of an egress, generic over what holds an epoch open.
struct Outbox<T, C> {
    departure: Departure,
    buffer: Vec<T>,
    weight: usize,
    buffered: Option<(Epoch, C)>,
    in_flight: BTreeMap<u64, C>,
    sent: u64,
}

impl<T: Weighty, C> Outbox<T, C> {
    fn new(departure: Departure) -> Self {
        Self { departure, buffer: Vec::new(), weight: 0, buffered: None, in_flight: BTreeMap::new(), sent: 0 }
    }

    fn push(&mut self, epoch: Epoch, items: &mut Vec<T>, capability: impl FnOnce() -> Option<C>) {
        self.weight += items.iter().map(Weighty::weight).sum::<usize>();
        self.buffer.append(items);
        if self.buffered.as_ref().is_none_or(|(least, _)| epoch < *least)
            && let Some(capability) = capability()
        {
            self.buffered = Some((epoch, capability));
        }
    }

    fn confirm(&mut self, number: u64) {
        self.in_flight.remove(&number);
    }

    /// The next delivery, when one may leave: its number and items.
    fn depart(&mut self, is_over: impl Fn(Epoch) -> bool) -> Option<(u64, Vec<T>)> {
        if self.buffer.is_empty() || self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let (epoch, _) = self.buffered.as_ref()?;
        let leaves = match self.departure {
            Departure::AtOnce => true,
            Departure::AfterEpoch { weight_max } => self.weight >= weight_max || is_over(*epoch),
        };
        if !leaves {
            return None;
        }
        let (_, capability) = self.buffered.take()?;
        let number = self.sent;
        self.sent += 1;
        self.in_flight.insert(number, capability);
        self.weight = 0;
        Some((number, std::mem::take(&mut self.buffer)))
    }
}

/// Builds the operator. Deliveries go out on `deliveries`, which must have room for [`IN_FLIGHT_MAX`] of each worker
/// that sends on it.
pub fn egress<'scope, T: Weighty + 'static>(
    items: Stream<'scope, Epoch, Vec<T>>,
    name: &str,
    departure: Departure,
    deliveries: Sender<Delivery<T>>,
) -> Stream<'scope, Epoch, Vec<()>> {
    let scope = items.scope();
    items.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(Pipeline, name, move |_, operator| {
        let waker = Waker::default();
        waker.set(scope.worker().sync_activator_for(operator.address.to_vec()));
        let (confirmed, confirmations): (_, Receiver<u64>) = unbounded();
        let mut outbox = Outbox::<T, Capability<Epoch>>::new(departure);
        move |(input, frontier), _output| {
            input.for_each(|capability, items| {
                if let Some(epoch) = capability.least().copied() {
                    outbox.push(epoch, items, || capability.retain_least(0));
                }
            });
            confirmations.try_iter().for_each(|number| outbox.confirm(number));
            while let Some((number, items)) = outbox.depart(|epoch| is_over(frontier, epoch)) {
                let acknowledge = Acknowledge { number, confirmed: confirmed.clone(), waker: waker.clone() };
                if deliveries.send(Delivery { items, acknowledge }).is_err() {
                    // The other side is gone: the capability stays held, and nothing is ever taken for durable.
                    break;
                }
            }
        }
    })
}

/// Whether no more items of this epoch can come.
pub(crate) fn is_over(frontier: &MutableAntichain<Epoch>, epoch: Epoch) -> bool {
    !frontier.less_equal(&epoch)
}

#[cfg(test)]
mod tests;
