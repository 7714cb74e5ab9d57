//! W-11, Q44: episodes are the maximal runs of adjacent windows with an incident, however they came about.

use crate::builders::*;
use crate::incident_store::{episodes, promises};
use floodmark_sinks::IncidentStore;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn q44_episodes_are_the_runs_after_every_step(steps in episodes::steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (store, ()) = fresh().await;
            let generation = store.take_over().await.unwrap();
            episodes::q44_episodes_are_the_runs_after_every_step(&store, generation, "acme", &steps).await
        })?;
    }
}

promises! {
    fresh:
    episodes::w11_adjacent_windows_are_one_episode_in_every_order_and_other_keys_are_apart,
    episodes::q44_several_windows_of_one_call_join_the_run_that_is_there,
    episodes::q44_rows_that_leave_and_return_in_one_call_part_and_join_runs,
}
