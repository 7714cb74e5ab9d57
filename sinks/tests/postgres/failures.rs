//! What goes wrong on the way to the server, and what a repeat then finds.

use crate::fixture::{connect, fresh, terminate_stores, until_a_store_waits_for_a_lock};
use crate::incident_store::builders::*;
use crate::proxy::Proxy;
use floodmark_sinks::postgres::PostgresStore;
use floodmark_sinks::{Failure, IncidentStore, StoreError};
use floodmark_testkit::services::postgres::PostgresDatabase;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use url::Url;

/// The database's URL with some of it changed.
fn url(database: &PostgresDatabase, change: impl FnOnce(&mut Url)) -> String {
    let mut url = Url::parse(database.url()).unwrap();
    change(&mut url);
    url.into()
}

async fn ping(url: &str) -> StoreError {
    let store = PostgresStore::new(url, "main").unwrap();
    let error = store.ping().await.unwrap_err();
    assert!(!format!("{error} {error:?} {store:?}").contains("s3cret"), "shows the password: {error:?}");
    error
}

#[tokio::test]
async fn g4_a_write_that_was_applied_but_reported_as_failed_is_repeated() {
    let (direct, database) = fresh().await;
    let server = Url::parse(database.url()).unwrap();
    let proxy = Proxy::to(format!("{}:{}", server.host_str().unwrap(), server.port().unwrap_or(5432)));
    let through = url(&database, |url| {
        url.set_ip_host(proxy.address.ip()).unwrap();
        url.set_port(Some(proxy.address.port())).unwrap();
        url.set_query(Some("sslmode=disable"));
    });
    let store = PostgresStore::new(&through, "main").unwrap();
    let generation = store.take_over().await.unwrap();

    proxy.lose_commit.store(true, Ordering::SeqCst);
    let error = store.write_incidents(generation, &[incident(0)]).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert_eq!(rows(&direct).await.len(), 1, "it was applied");
    assert_eq!(store.write_incidents(generation, &[incident(0)]).await.unwrap(), []);
    assert_eq!(rows(&direct).await.len(), 1, "once");

    proxy.lose_commit.store(true, Ordering::SeqCst);
    let error = store.close_incidents(generation, &[closed(0, 12)], false).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let after = row(&direct).await;
    assert_eq!(after.total, Some(12), "it was applied");
    store.close_incidents(generation, &[closed(0, 12)], false).await.unwrap();
    assert_eq!(row(&direct).await, after);

    proxy.lose_commit.store(true, Ordering::SeqCst);
    let error = store.commit(generation, &progress(5)).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert_eq!(direct.progress().await.unwrap(), progress(5), "it was applied");
    store.commit(generation, &progress(5)).await.unwrap();
    assert_eq!(direct.progress().await.unwrap(), progress(5));
    let audited = "SELECT count(*) FROM incident_transitions";
    assert_eq!(database.number(audited), 2, "opened and closed once each");
}

#[tokio::test]
async fn a_connection_that_ends_in_the_middle_is_transient_and_the_next_call_connects_anew() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    let (observer, mut rival) = (connect(&database).await, connect(&database).await);
    let held = rival.transaction().await.unwrap();
    held.query("SELECT generation FROM pipeline FOR UPDATE", &[]).await.unwrap();
    let store = Arc::new(store);
    let write = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.write_incidents(generation, &[incident(0)]).await }
    });
    until_a_store_waits_for_a_lock(&observer).await;
    assert!(terminate_stores(&observer).await >= 1);
    let error = write.await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error}");
    held.rollback().await.unwrap();
    assert_eq!(store.write_incidents(generation, &[incident(0)]).await.unwrap(), [key(0).id()]);
}

#[tokio::test]
async fn a_connection_that_ended_between_calls_costs_one_transient_error_at_most() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    let observer = connect(&database).await;
    for round in 0..5 {
        store.write_incidents(generation, &[incident(round * WINDOW_MS)]).await.unwrap();
        assert!(terminate_stores(&observer).await >= 1);
        if let Err(error) = store.write_incidents(generation, &[]).await {
            assert!(error.is_transient(), "{error}");
        }
    }
    store.commit(generation, &progress(1)).await.unwrap_or_else(|error| assert!(error.is_transient(), "{error}"));
    store.commit(generation, &progress(1)).await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_dropped_in_the_middle_leaves_nothing_and_no_lock() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    let (observer, mut rival) = (connect(&database).await, connect(&database).await);
    let held = rival.transaction().await.unwrap();
    held.query("SELECT generation FROM pipeline FOR UPDATE", &[]).await.unwrap();
    {
        let mut write = std::pin::pin!(store.write_incidents(generation, std::slice::from_ref(&*INCIDENT)));
        tokio::select! {
            done = &mut write => panic!("it did not wait: {done:?}"),
            () = until_a_store_waits_for_a_lock(&observer) => {}
        }
    }
    held.rollback().await.unwrap();
    assert_eq!(store.write_incidents(generation, &[incident(WINDOW_MS)]).await.unwrap().len(), 1);
    store.take_over().await.unwrap();
    assert_eq!(rows(&store).await.len(), 1);
}

static INCIDENT: std::sync::LazyLock<floodmark_model::incident::JudgedIncident> =
    std::sync::LazyLock::new(|| incident(0));

#[tokio::test]
async fn what_no_waiting_cures_is_permanent_and_shows_no_password() {
    let database = PostgresDatabase::create("postgres_wrong");
    let wrong_password = url(&database, |url| url.set_password(Some("s3cret")).unwrap());
    let no_password = url(&database, |url| url.set_password(None).unwrap());
    let no_database = url(&database, |url| url.set_path("/s3cret_is_not_here_but_missing"));
    let error = ping(&wrong_password).await;
    assert_eq!(error.failure, Failure::Permanent, "{error}");
    assert!(error.to_string().contains("28P01"), "{error}");
    let error = ping(&no_password).await;
    assert_eq!(error.failure, Failure::Permanent, "{error}");
    assert!(error.to_string().contains("password missing"), "says what is wrong: {error}");
    let error = PostgresStore::new(&no_database, "main").unwrap().ping().await.unwrap_err();
    assert_eq!(error.failure, Failure::Permanent, "{error}");
    assert!(error.to_string().contains("3D000"), "{error}");
    let error = PostgresStore::new("postgres://me:s3cret@host:port/flood", "main").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"));
    assert_eq!(error.failure, Failure::Permanent, "{error}");
}

#[tokio::test]
async fn a_server_that_is_away_or_silent_is_transient_and_the_call_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("postgres://me:s3cret@{}/flood?connect_timeout=1", listener.local_addr().unwrap());
    let error = ping(&silent).await;
    assert!(error.is_transient(), "{error}");
    drop(listener);
    let error = ping(&silent).await;
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("refused"), "says why: {error}");
}
