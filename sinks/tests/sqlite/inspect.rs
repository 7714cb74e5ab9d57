//! What people and checks ask.

use crate::occurrence_store::inspect;
use floodmark_sinks::sqlite::SqliteStore;

#[tokio::test]
async fn fingerprints_are_found_by_their_first_digits() {
    inspect::fingerprints_are_found_by_their_first_digits(&SqliteStore::open_in_memory().unwrap()).await;
}

#[tokio::test]
async fn the_rows_of_a_key_are_grouped_by_what_decides_where_they_count() {
    inspect::the_rows_of_a_key_are_grouped_by_what_decides_where_they_count(&SqliteStore::open_in_memory().unwrap())
        .await;
}

#[tokio::test]
async fn clamped_rows_keep_their_own_time() {
    inspect::clamped_rows_keep_their_own_time(&SqliteStore::open_in_memory().unwrap()).await;
}

#[tokio::test]
async fn rows_below_the_committed_offsets_are_counted_by_partition_and_table() {
    inspect::rows_below_the_committed_offsets_are_counted_by_partition_and_table(
        &SqliteStore::open_in_memory().unwrap(),
    )
    .await;
}

#[tokio::test]
async fn settled_counts_are_sorted_and_cut_at_the_committed_offsets() {
    inspect::settled_counts_are_sorted_and_cut_at_the_committed_offsets(&SqliteStore::open_in_memory().unwrap()).await;
}
