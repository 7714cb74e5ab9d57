//! What people and checks ask.

use crate::fixture::Database;
use crate::occurrence_store::inspect;

#[tokio::test]
async fn fingerprints_are_found_by_their_first_digits() {
    let database = Database::migrated("ask_fingerprints").await;
    inspect::fingerprints_are_found_by_their_first_digits(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn the_rows_of_a_key_are_grouped_by_what_decides_where_they_count() {
    let database = Database::migrated("ask_groups").await;
    inspect::the_rows_of_a_key_are_grouped_by_what_decides_where_they_count(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn clamped_rows_keep_their_own_time() {
    let database = Database::migrated("ask_clamped").await;
    inspect::clamped_rows_keep_their_own_time(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn rows_below_the_committed_offsets_are_counted_by_partition_and_table() {
    let database = Database::migrated("ask_rows").await;
    inspect::rows_below_the_committed_offsets_are_counted_by_partition_and_table(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn settled_counts_are_sorted_and_cut_at_the_committed_offsets() {
    let database = Database::migrated("ask_settled").await;
    inspect::settled_counts_are_sorted_and_cut_at_the_committed_offsets(&database.store).await;
    database.drop().await;
}
