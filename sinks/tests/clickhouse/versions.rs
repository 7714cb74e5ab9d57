//! Versions of rules.

use crate::fixture::Database;
use crate::occurrence_store::versions;

#[tokio::test]
async fn q51_every_question_counts_each_window_by_its_own_version() {
    let database = Database::migrated("versions").await;
    versions::q51_every_question_counts_each_window_by_its_own_version(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn q46_candidates_reach_the_threshold_of_their_tenant_and_version() {
    let database = Database::migrated("tenant_thresholds").await;
    versions::q46_candidates_reach_the_threshold_of_their_tenant_and_version(&database.store).await;
    database.drop().await;
}
