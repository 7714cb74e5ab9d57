//! Migrations.

use crate::fixture::{connect, fresh, store};
use crate::incident_store::builders::*;
use floodmark_model::incident::Status;
use floodmark_model::{Detection, EventTime, Reach, Verdict};
use floodmark_sinks::{Failure, IncidentStore, StoredIncident};
use floodmark_testkit::services::postgres::PostgresDatabase;
use tokio::task::JoinSet;

mod earlier {
    refinery::embed_migrations!("../sql/postgres");
}

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

#[tokio::test]
async fn a_schema_of_an_earlier_release_is_brought_up_to_date_with_what_it_holds() {
    let database = PostgresDatabase::create("postgres_earlier");
    let mut client = connect(&database).await;
    earlier::migrations::runner().set_target(refinery::Target::Version(1)).run_async(&mut client).await.unwrap();
    let id = key(0).id();
    database.execute(format!(
        "INSERT INTO incidents (id, tenant, rule, fingerprint, window_start, window_end, detection, status, count,
            opened_at, episode_id)
        VALUES ('{id}', 'acme', 'default', '{}', to_timestamp(0), to_timestamp(300), 'late', 'open', 10,
            to_timestamp(0), '{id}')",
        fingerprint(1)
    ));
    let store = store(&database, "main");
    store.migrate().await.unwrap();
    let row = StoredIncident {
        key: key(0),
        status: Status::Open,
        is_closed: false,
        reach: Reach::Own,
        detection: Detection::Late,
    };
    assert_eq!(store.stored_incidents(EventTime::MIN).await.unwrap(), [row]);
    let generation = store.take_over().await.unwrap();
    store.write_incidents(generation, &[judged_of(key(0), Verdict::Blocked)]).await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM incident_transitions WHERE transition = 'superseded'"), 1);
}
