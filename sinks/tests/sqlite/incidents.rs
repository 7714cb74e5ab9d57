//! One row per incident, and what becomes of it.

use crate::builders::*;
use crate::incident_store::{incidents, promises};
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{Failure, IncidentStore};

promises! {
    fresh:
    incidents::w6_an_incident_is_stored_once_and_reported_as_new_once,
    incidents::calls_about_nothing_do_nothing,
    incidents::w9_closing_writes_the_total_and_repeating_it_corrects,
    incidents::w9_a_row_that_was_never_due_is_withdrawn_and_comes_back_when_it_is,
    incidents::decision_14_settling_writes_totals_and_leaves_windows_open,
    incidents::w10_samples_are_refreshed_while_the_window_is_open,
    incidents::incidents_are_selected_by_tenant_and_window_and_sorted_by_bytes,
    incidents::decision_8_an_older_generation_writes_nothing,
    incidents::control_characters_come_back_as_they_went_in,
    incidents::names_may_be_long_and_a_long_message_is_cut_between_characters,
    incidents::times_before_1970_and_after_2262_are_kept_to_the_millisecond,
    incidents::twenty_thousand_incidents_are_one_insert,
}

#[tokio::test]
async fn a16_every_change_is_in_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    incidents::w9_a_row_that_was_never_due_is_withdrawn_and_comes_back_when_it_is(&store).await;

    let file = rusqlite::Connection::open(&path).unwrap();
    let audit: Vec<(String, i64, Option<String>)> = file
        .prepare("SELECT transition, generation, reason FROM incident_transitions ORDER BY transition_id")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let transitions: Vec<_> = audit.iter().map(|(transition, _, reason)| (&**transition, reason.as_deref())).collect();
    assert_eq!(transitions, incidents::A16_TRANSITIONS, "one for each change");
    assert!(audit.iter().all(|(_, generation, _)| *generation == 1));
}

#[tokio::test]
async fn a_call_that_fails_leaves_nothing_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let generation = store.take_over().await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(
        "CREATE TRIGGER refuse BEFORE INSERT ON incidents WHEN NEW.window_start = 600000
        BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .unwrap();
    let error = store.write_incidents(generation, &[incident(0), incident(600_000)]).await.unwrap_err();
    assert_eq!(error.failure, Failure::Permanent);
    assert_eq!(rows(&store).await, []);
}
