//! W-11, Q44: episodes are the maximal runs of adjacent windows with an incident, however they came about.

use crate::fixture::fresh;
use crate::incident_store::{episodes, promises};
use floodmark_sinks::IncidentStore;
use proptest::prelude::*;
use std::cell::Cell;

/// Each case has a tenant of its own in one database.
#[test]
fn q44_episodes_are_the_runs_after_every_step() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (store, _database) = runtime.block_on(fresh());
    let generation = runtime.block_on(store.take_over()).unwrap();
    let cases = Cell::new(0);
    let config = ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in episodes::steps())| {
        let tenant = cases.replace(cases.get() + 1).to_string();
        let follow = episodes::q44_episodes_are_the_runs_after_every_step(&store, generation, &tenant, &steps);
        runtime.block_on(follow)?;
    });
}

promises! {
    fresh:
    episodes::w11_adjacent_windows_are_one_episode_in_every_order_and_other_keys_are_apart,
    episodes::q44_several_windows_of_one_call_join_the_run_that_is_there,
    episodes::q44_rows_that_leave_and_return_in_one_call_part_and_join_runs,
}
