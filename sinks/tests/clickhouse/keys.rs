//! Counts of keys that memory does not hold.

use crate::fixture::Database;
use crate::occurrence_store::keys;

#[tokio::test]
async fn w8_the_counts_of_a_key_are_those_of_its_own_spans() {
    let database = Database::migrated("key_spans").await;
    keys::w8_the_counts_of_a_key_are_those_of_its_own_spans(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn w8_the_counts_of_a_key_are_what_the_rule_counts() {
    let database = Database::migrated("key_rules").await;
    keys::w8_the_counts_of_a_key_are_what_the_rule_counts(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn w8_many_keys_and_long_spans_fit_into_one_call() {
    let database = Database::migrated("key_many").await;
    keys::w8_many_keys_and_long_spans_fit_into_one_call(&database.store).await;
    database.drop().await;
}

#[tokio::test]
async fn q46_candidates_have_enough_in_the_window_and_the_one_before() {
    let database = Database::migrated("candidates").await;
    keys::q46_candidates_have_enough_in_the_window_and_the_one_before(&database.store).await;
    database.drop().await;
}
