//! Versions of rules: kept, and each window counted by its own (Q51).

use crate::builders::*;
use crate::incident_store::promises;
use crate::occurrence_store::versions;
use floodmark_sinks::sqlite::SqliteStore;

promises! {
    fresh:
    rules::versions_of_rules_come_back_as_they_were_stored,
    rules::what_is_stored_of_a_rule_becomes_what_is_given,
    rules::a_process_that_was_overtaken_stores_no_rules,
}

#[tokio::test]
async fn q51_every_question_counts_each_window_by_its_own_version() {
    versions::q51_every_question_counts_each_window_by_its_own_version(&SqliteStore::open_in_memory().unwrap()).await;
}

#[tokio::test]
async fn q46_candidates_reach_the_threshold_of_their_tenant_and_version() {
    let store = SqliteStore::open_in_memory().unwrap();
    versions::q46_candidates_reach_the_threshold_of_their_tenant_and_version(&store).await;
}
