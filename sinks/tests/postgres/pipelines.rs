//! Progress goes forwards, and each pipeline has its own.

use crate::fixture::{fresh, store};
use crate::incident_store::builders::*;
use crate::incident_store::promises;
use floodmark_model::EventTime;
use floodmark_model::progress::Progress;
use floodmark_sinks::{Generation, IncidentStore};

promises! {
    fresh:
    progress::a_pipeline_that_never_ran_has_no_progress_and_starts_at_generation_1,
    progress::progress_comes_back_as_it_was_committed,
    progress::progress_never_goes_back,
}

#[tokio::test]
async fn pipelines_in_one_database_do_not_see_each_other() {
    let (one, database) = fresh().await;
    let other = store(&database, "ma%n' --\u{7f}");
    let first = one.take_over().await.unwrap();
    one.take_over().await.unwrap();
    let second = one.take_over().await.unwrap();
    assert_eq!(other.take_over().await.unwrap(), Generation(1));
    one.commit(second, &Progress { closed: Some(EventTime(7)), settings_hash: 5, ..progress(9) }).await.unwrap();
    assert_eq!(other.progress().await.unwrap(), Progress::default());

    other.commit(Generation(1), &progress(3)).await.unwrap();
    other.heartbeat(Generation(1)).await.unwrap();
    assert_eq!(other.progress().await.unwrap(), progress(3));
    assert_eq!(one.progress().await.unwrap(), Progress { closed: Some(EventTime(7)), settings_hash: 5, ..progress(9) });
    assert!(one.heartbeat(first).await.is_err());
    one.heartbeat(second).await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM pipeline_heartbeat"), 2);
}

#[tokio::test]
async fn every_process_of_a_pipeline_reads_what_one_of_them_wrote() {
    let (one, database) = fresh().await;
    let generation = one.take_over().await.unwrap();
    one.commit(generation, &progress(9)).await.unwrap();
    one.write_incidents(generation, &[incident(0)]).await.unwrap();
    drop(one);
    let next = store(&database, "main");
    assert_eq!(next.progress().await.unwrap(), progress(9));
    assert_eq!(next.take_over().await.unwrap(), Generation(generation.0 + 1));
    assert_eq!(rows(&next).await.len(), 1);
}
