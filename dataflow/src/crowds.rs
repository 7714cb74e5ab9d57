//! Counts the bugs of each tenant and window over all judges: a shell around [`Crowds`].
//!
//! # Semantics
//!
//! What the judges say is exchanged by (rule, window, tenant). An incident leaves in the activation that saw the pane
//! which was one too many, at the epoch of what the judge said. A window is forgotten once every judge has closed it.

use crate::egress::is_over;
use crate::epoch::Epoch;
use crate::message::{Crowd, Due};
use crate::progress::WorkerProgress;
use crate::state::crowds::Crowds;
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::Operator;

/// Builds the operator. More than `max_fingerprints` of a tenant in a window are an incident.
pub(crate) fn crowds<'scope>(
    said: Stream<'scope, Epoch, Vec<Crowd>>,
    max_fingerprints: u64,
    progress: Rc<WorkerProgress>,
) -> Stream<'scope, Epoch, Vec<Due>> {
    let mut crowds = Crowds::new(max_fingerprints);
    let by_window = Exchange::new(|crowd: &Crowd| crowd.key.route());
    said.unary_frontier::<CapacityContainerBuilder<Vec<Due>>, _, _, _>(by_window, "Crowds", move |_, _| {
        let mut passed = None;
        move |(input, frontier), output| {
            input.for_each(|capability, said| {
                let loud = said
                    .drain(..)
                    .filter_map(|crowd| crowds.add(&crowd).map(|panes| Due::Crowd { key: crowd.key, panes }));
                output.session(&capability).give_iterator(loud);
            });
            // Judges are not equally far: one may still tell of windows that another has closed.
            if let Some((_, watermark)) = passed.take_if(|(epoch, _)| is_over(frontier, *epoch)) {
                crowds.forget(watermark);
            }
            passed = passed.or_else(|| progress.passed());
        }
    })
}
