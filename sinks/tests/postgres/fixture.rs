//! A database per test.

use floodmark_sinks::IncidentStore;
use floodmark_sinks::postgres::PostgresStore;
use floodmark_testkit::services::postgres::PostgresDatabase;
use tokio_postgres::{Client, NoTls};

/// A store that holds nothing, in a database of its own.
pub(crate) async fn fresh() -> (PostgresStore, PostgresDatabase) {
    let database = PostgresDatabase::create("postgres_store");
    let store = store(&database, "main");
    store.migrate().await.unwrap();
    (store, database)
}

/// A store of this pipeline.
pub(crate) fn store(database: &PostgresDatabase, pipeline: &str) -> PostgresStore {
    PostgresStore::new(database.url(), pipeline).unwrap()
}

/// A connection that shares nothing with a store.
pub(crate) async fn connect(database: &PostgresDatabase) -> Client {
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until a session of the store waits for a lock. The server says when, and the test's time-out ends the wait.
pub(crate) async fn until_a_store_waits_for_a_lock(observer: &Client) {
    const WAITING: &str = "SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'floodmark' AND wait_event_type = 'Lock'";
    let waiting = async {
        while observer.query(WAITING, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("nobody waits for a lock");
}

/// Ends every session of stores in this database, as an administrator or a restart does.
pub(crate) async fn terminate_stores(observer: &Client) -> u64 {
    const TERMINATE: &str = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'floodmark'";
    observer.execute(TERMINATE, &[]).await.unwrap()
}
