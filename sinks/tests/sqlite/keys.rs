//! Counts of keys that memory does not hold.

use crate::occurrence_store::keys;
use floodmark_sinks::sqlite::SqliteStore;

#[tokio::test]
async fn w8_the_counts_of_a_key_are_those_of_its_own_spans() {
    keys::w8_the_counts_of_a_key_are_those_of_its_own_spans(&SqliteStore::open_in_memory().unwrap()).await;
}

#[tokio::test]
async fn w8_the_counts_of_a_key_are_what_the_rule_counts() {
    keys::w8_the_counts_of_a_key_are_what_the_rule_counts(&SqliteStore::open_in_memory().unwrap()).await;
}

#[tokio::test]
async fn w8_many_keys_and_long_spans_fit_into_one_call() {
    keys::w8_many_keys_and_long_spans_fit_into_one_call(&SqliteStore::open_in_memory().unwrap()).await;
}

#[tokio::test]
async fn q46_candidates_have_enough_in_the_window_and_the_one_before() {
    keys::q46_candidates_have_enough_in_the_window_and_the_one_before(&SqliteStore::open_in_memory().unwrap()).await;
}
