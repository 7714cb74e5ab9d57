//! Migrations.

use crate::fixture::{fresh, store};
use floodmark_sinks::{Failure, IncidentStore};
use floodmark_testkit::services::postgres::PostgresDatabase;
use tokio::task::JoinSet;

#[tokio::test]
async fn ten_starts_at_once_and_one_later_make_one_schema() {
    let database = PostgresDatabase::create("postgres_migrate");
    let mut starts = JoinSet::new();
    for _ in 0..10 {
        let store = store(&database, "main");
        starts.spawn(async move { store.migrate().await });
    }
    for migrated in starts.join_all().await {
        migrated.unwrap();
    }
    store(&database, "main").migrate().await.unwrap();
    let (all, distinct) = ("SELECT count(*)", "SELECT count(DISTINCT version)");
    let count = |what: &str| database.number(format!("{what} FROM refinery_schema_history"));
    assert!(count(all) > 0);
    assert_eq!(count(all), count(distinct));
}

#[tokio::test]
async fn a_schema_of_a_later_release_is_refused() {
    let (store, database) = fresh().await;
    database.execute("INSERT INTO refinery_schema_history VALUES (999, 'later', '2030-01-01T00:00:00Z', '1')");
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.failure, Failure::Permanent, "{error}");
    assert!(error.to_string().contains("999"), "names the version: {error}");
}

#[tokio::test]
async fn a_missing_schema_is_permanent() {
    let database = PostgresDatabase::create("postgres_missing");
    let store = store(&database, "main");
    store.ping().await.unwrap();
    let error = store.take_over().await.unwrap_err();
    assert_eq!(error.failure, Failure::Permanent, "{error}");
    assert!(error.to_string().contains("pipeline"), "names the table: {error}");
}
