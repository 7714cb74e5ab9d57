//! W-7, Q40 to Q44: rows that another takes the place of, and that come back.

use crate::fixture::{connect, fresh};
use crate::incident_store::builders::*;
use crate::incident_store::{promises, superseding};
use floodmark_model::incident::ClosedWindow;
use floodmark_model::{Reach, Verdict};
use floodmark_sinks::IncidentStore;

promises! {
    fresh:
    superseding::q40_superseding_goes_on_along_the_chain_and_back,
    superseding::q41_a_row_that_comes_back_is_as_far_as_its_window,
    superseding::w9_the_reach_and_the_window_before_decide_whatever_the_row_was,
    superseding::w9_a_bridge_stays_though_its_total_is_below_the_threshold,
    superseding::q42_a_superseded_row_returns_when_the_one_that_stood_for_it_is_withdrawn,
    superseding::of_several_rows_of_one_key_the_last_verdict_holds_and_the_first_opens,
    superseding::w12_a_cardinality_incident_is_a_row_of_its_own,
    superseding::q44_a_thousand_chains_are_one_call,
}

#[tokio::test]
async fn a16_every_change_along_the_chain_is_in_the_audit() {
    let (store, database) = fresh().await;
    superseding::q40_superseding_goes_on_along_the_chain_and_back(&store).await;
    let observer = connect(&database).await;
    let audit = observer.query("SELECT incident_id, transition FROM incident_transitions", &[]).await.unwrap();
    let mut audit: Vec<(i64, &str)> =
        audit.iter().map(|row| (superseding::chain_window(row.get(0)), row.get(1))).collect();
    audit.sort();
    assert_eq!(audit, superseding::A16_CHAIN);
}

/// Both lanes of a process at once, over the same runs: nobody waits in a circle, and episodes are right afterwards.
#[tokio::test]
async fn q44_writes_and_closings_of_the_same_rows_at_once_leave_the_runs() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    let keys = |window: i64| (0..40).map(move |n: i32| key_of(&n.to_string(), window * WINDOW_MS));
    let all: Vec<_> = (0..4).flat_map(keys).map(incident_of).collect();
    store.write_incidents(generation, &all).await.unwrap();
    let write = async {
        for verdict in [Verdict::Blocked, Verdict::Own].repeat(10) {
            let rows: Vec<_> = keys(1).map(|key| judged_of(key, verdict)).collect();
            store.write_incidents(generation, &rows).await.unwrap();
        }
    };
    let close = async {
        for reach in [Reach::Below, Reach::Own].repeat(10) {
            let window = |key| ClosedWindow { facts: facts_of(key, 10), reach };
            let closed: Vec<_> = keys(0).chain(keys(2)).map(window).collect();
            store.close_incidents(generation, &closed, false).await.unwrap();
            let facts: Vec<_> = keys(3).chain(keys(2)).map(|key| facts_of(key, 10)).collect();
            store.refresh_incidents(generation, &facts).await.unwrap();
        }
    };
    tokio::join!(write, close);
    let heads = database.number("SELECT count(DISTINCT episode_id) FROM incidents");
    assert_eq!(heads, 40, "four windows of each bug are one episode");
    assert!(rows(&store).await.iter().all(|row| row.window_start.0 > 0 || row.episode_id == row.id));
}
