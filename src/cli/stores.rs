//! Opening the stores that the configuration names.

use super::Failure;
use super::arguments::StoreArguments;
use crate::config::Config;
use floodmark_sinks::clickhouse::{ClickHouseSettings, ClickHouseStore};
use floodmark_sinks::postgres::PostgresStore;
use floodmark_sinks::sqlite::SqliteStore;

/// Postgres, as configured.
pub(super) fn postgres(config: &Config) -> Result<PostgresStore, Failure> {
    let url = config.postgres.reveal();
    if url.is_empty() {
        return Err(missing("postgres", "--postgres postgres://user@host/database"));
    }
    PostgresStore::new(url, &config.pipeline).map_err(Failure::usage)
}

/// ClickHouse, as configured.
pub(super) fn clickhouse(config: &Config) -> Result<ClickHouseStore, Failure> {
    let url = config.clickhouse.reveal();
    if url.is_empty() {
        return Err(missing("clickhouse", "--clickhouse http://host:8123/database"));
    }
    ClickHouseStore::new(&ClickHouseSettings::new(url)).map_err(Failure::usage)
}

/// The embedded store, for reading.
pub(super) fn sqlite_for_reading(arguments: &StoreArguments) -> Result<SqliteStore, Failure> {
    SqliteStore::open_read_only(&arguments.store).map_err(Failure::dependency)
}

fn missing(key: &str, flag: &str) -> Failure {
    Failure::usage(format!(
        "{key} is not configured: give {flag}, set FLOODMARK_{}, or write `{key}` into the file of --config \
         (or use --embedded, which needs no server)",
        key.to_uppercase()
    ))
}
