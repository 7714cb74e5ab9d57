//! Progress goes forwards, and survives.

use crate::builders::*;
use crate::incident_store::promises;
use floodmark_model::EventTime;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{Generation, IncidentStore};

promises! {
    fresh:
    progress::a_pipeline_that_never_ran_has_no_progress_and_starts_at_generation_1,
    progress::progress_comes_back_as_it_was_committed,
    progress::progress_never_goes_back,
}

#[tokio::test]
async fn g4_what_was_acknowledged_is_there_after_a_kill_and_a_half_done_call_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let generation = store.take_over().await.unwrap();
    insert(&store, &[occurrence(0, 0), occurrence(1, 0)]).await;
    store.write_incidents(generation, &[incident(0)]).await.unwrap();
    store.commit(generation, &progress(2)).await.unwrap();

    // What a kill leaves is the file and its log as they stand, with a transaction of another connection in flight.
    let half = rusqlite::Connection::open(&path).unwrap();
    half.execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM incidents; DELETE FROM occurrences")
        .unwrap();
    let copy = folder.path().join("after.db");
    for suffix in ["", "-wal"] {
        let with = |path: &std::path::Path| format!("{}{suffix}", path.display());
        std::fs::copy(with(&path), with(&copy)).unwrap();
    }

    let after = SqliteStore::open(&copy).unwrap();
    assert_eq!(totals(&after).await, [(0, 2)]);
    assert_eq!(after.stored_incidents(EventTime::MIN).await.unwrap().len(), 1);
    assert_eq!(after.progress().await.unwrap(), progress(2));
    assert_eq!(after.take_over().await.unwrap(), Generation(generation.0 + 1));
}
