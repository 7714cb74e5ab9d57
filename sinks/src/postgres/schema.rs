//! Migrations: numbered, forward only, one process at a time.

use super::connection::Connections;
use super::{STORE, classify};
use crate::{Failure, StoreError};

mod embedded {
    refinery::embed_migrations!("../sql/postgres");
}

/// A number for the lock under which schemas change; any that nobody else uses ("floodmrk").
const LOCK: i64 = 0x666c_6f6f_646d_726b;

/// Brings the schema up to date.
pub(super) async fn migrate(connections: &Connections) -> Result<(), StoreError> {
    let mut client = connections.connect().await?;
    let lock = async {
        // Another process may be migrating for longer than a call usually takes.
        client.batch_execute("SET lock_timeout = 0; SET statement_timeout = 0").await?;
        client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await
    };
    lock.await.map_err(|error| classify::error("migrate", &error))?;
    let migrated = embedded::migrations::runner().run_async(&mut client).await;
    // The lock ends with the connection.
    migrated.map(drop).map_err(|error| {
        let failure = if client.is_closed() { Failure::Transient } else { Failure::Permanent };
        StoreError { store: STORE, action: "migrate", failure, detail: error.to_string() }
    })
}
