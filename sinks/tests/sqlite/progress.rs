//! Progress goes forwards, and survives.

use crate::builders::*;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::{EventTime, TopicId};
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{Generation, IncidentStore};

fn at(next_offset: i64, watermark: i64, stored: u64) -> PartitionProgress {
    let tallies = Tallies { stored, retried: 1, unmatched: 2, dead: 3 };
    PartitionProgress { next_offset, watermark: EventTime(watermark), tallies }
}

fn of(partitions: &[(i32, PartitionProgress)], closed: Option<i64>, settings_hash: u128) -> Progress {
    let partitions =
        partitions.iter().map(|&(partition, at)| (PartitionKey { topic_id: TOPIC, partition }, at)).collect();
    Progress { partitions, closed: closed.map(EventTime), settings_hash }
}

#[tokio::test]
async fn a_pipeline_that_never_ran_has_no_progress_and_starts_at_generation_1() {
    let store = SqliteStore::open_in_memory().unwrap();
    assert_eq!(store.progress().await.unwrap(), Progress::default());
    assert_eq!(store.take_over().await.unwrap(), Generation(1));
    assert_eq!(store.progress().await.unwrap(), Progress::default());
    assert_eq!(store.take_over().await.unwrap(), Generation(2));
}

#[tokio::test]
async fn progress_comes_back_as_it_was_committed() {
    let store = SqliteStore::open_in_memory().unwrap();
    let generation = store.take_over().await.unwrap();
    let mut progress = of(&[(0, at(5, -70, 4)), (1, at(9, 30, 8))], Some(-100), u128::MAX - 1);
    progress.partitions.insert(PartitionKey { topic_id: TopicId([1; 16]), partition: 0 }, at(1, i64::MIN, 0));
    store.commit(generation, &progress).await.unwrap();
    assert_eq!(store.progress().await.unwrap(), progress);
}

#[tokio::test]
async fn progress_never_goes_back() {
    let store = SqliteStore::open_in_memory().unwrap();
    let generation = store.take_over().await.unwrap();
    store.commit(generation, &of(&[(0, at(5, 70, 4)), (1, at(9, 30, 8))], Some(50), 1)).await.unwrap();
    store.commit(generation, &of(&[(0, at(4, 80, 3))], None, 2)).await.unwrap();
    store.commit(generation, &of(&[(1, at(10, 20, 9))], Some(40), 2)).await.unwrap();
    let expected = of(&[(0, at(5, 80, 4)), (1, at(10, 30, 9))], Some(50), 2);
    assert_eq!(store.progress().await.unwrap(), expected);
}

#[tokio::test]
async fn g4_what_was_acknowledged_is_there_after_a_kill_and_a_half_done_call_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let generation = store.take_over().await.unwrap();
    insert(&store, &[occurrence(0, 0), occurrence(1, 0)]).await;
    store.insert_incidents(generation, &[incident(0)]).await.unwrap();
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
