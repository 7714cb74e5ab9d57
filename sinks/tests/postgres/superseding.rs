//! W-7, Q40 to Q44: rows that another takes the place of, and that come back.

use crate::fixture::{connect, fresh};
use crate::incident_store::{promises, superseding};

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
