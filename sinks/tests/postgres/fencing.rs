//! Of two processes one writes (decision 8), wherever the other stands.

use crate::fixture::{connect, fresh, store, until_a_store_waits_for_a_lock};
use crate::incident_store::builders::*;
use floodmark_sinks::{Failure, Generation, IncidentStore};
use std::sync::Arc;

/// The runtime makes a task yield after some work, at any await: no statement may overtake the fence.
#[tokio::test]
async fn no_write_overtakes_its_fence_wherever_the_task_yields() {
    let (store, _database) = fresh().await;
    let old = store.take_over().await.unwrap();
    store.write_incidents(old, &[incident(0)]).await.unwrap();
    store.take_over().await.unwrap();
    const BUDGET: i64 = 128;
    for spent in 0..=BUDGET {
        tokio::task::yield_now().await;
        for _ in 0..spent {
            tokio::task::coop::consume_budget().await;
        }
        let error = store.write_incidents(old, &[incident((spent + 1) * WINDOW_MS)]).await.unwrap_err();
        assert_eq!(error.failure, Failure::Fenced, "{spent}: {error}");
        assert_eq!(rows(&store).await.len(), 1, "{spent} units of work before the call");
    }
}

#[tokio::test]
async fn a_take_over_waits_for_the_write_in_flight_and_the_next_one_is_fenced() {
    let (old, database) = fresh().await;
    let generation = old.take_over().await.unwrap();
    let observer = connect(&database).await;
    // A write is held up in the middle: the row that it inserts as well is not decided.
    let mut rival = connect(&database).await;
    let held = rival.transaction().await.unwrap();
    const INSERT: &str = "INSERT INTO incidents (id, tenant, rule, fingerprint, window_start, window_end, detection,
            status, count, opened_at, episode_id)
        VALUES ($1, '', '', repeat('0', 32), to_timestamp(0), to_timestamp(1), 'window', 'open', 1, to_timestamp(0),
            $1)";
    held.execute(INSERT, &[&key(0).id().to_string()]).await.unwrap();
    let old = Arc::new(old);
    let write = tokio::spawn({
        let old = Arc::clone(&old);
        async move { old.write_incidents(generation, &[incident(0)]).await }
    });
    until_a_store_waits_for_a_lock(&observer).await;

    let new = store(&database, "main");
    let mut take_over = tokio::spawn(async move { new.take_over().await });
    const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'floodmark' AND wait_event_type = 'Lock'";
    while observer.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        assert!(!take_over.is_finished(), "it did not wait: {:?}", (&mut take_over).await);
    }
    held.rollback().await.unwrap();
    assert_eq!(write.await.unwrap().unwrap(), [key(0).id()], "it was first");
    assert_eq!(take_over.await.unwrap().unwrap(), Generation(generation.0 + 1));
    let error = old.write_incidents(generation, &[incident(WINDOW_MS)]).await.unwrap_err();
    assert_eq!(error.failure, Failure::Fenced, "{error}");
    assert_eq!(rows(&*old).await.len(), 1);
}

#[tokio::test]
async fn the_heartbeat_does_not_wait_for_writers() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    let mut writer = connect(&database).await;
    let held = writer.transaction().await.unwrap();
    held.query("SELECT generation FROM pipeline FOR SHARE", &[]).await.unwrap();
    held.query("UPDATE pipeline SET settings_hash = repeat('1', 32)", &[]).await.unwrap();
    store.heartbeat(generation).await.unwrap();
    held.rollback().await.unwrap();
}

#[tokio::test]
async fn a_pipeline_whose_row_is_gone_is_fenced() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    database.execute("DELETE FROM pipeline");
    for error in
        [store.commit(generation, &progress(1)).await.unwrap_err(), store.heartbeat(generation).await.unwrap_err()]
    {
        assert_eq!(error.failure, Failure::Fenced, "{error}");
    }
    assert_eq!(database.number("SELECT count(*) FROM progress"), 0);
}
