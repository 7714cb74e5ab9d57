//! The numbered migrations of `sql/clickhouse`: forward-only, safe to repeat and to run twice at once.
//!
//! ClickHouse has no transactions over definitions, so each statement is written to be harmless when it was run before
//! (`IF NOT EXISTS`), and a version is recorded after its last statement.

use super::classify::permanent;
use super::connection::Connection;
use crate::StoreError;
use clickhouse::Row;
use clickhouse::sql::Identifier;
use serde::Deserialize;

/// What errors say was tried.
const ACTION: &str = "migrate";

struct Migration {
    version: u32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; 3] = [
    Migration { version: 1, name: "occurrences", sql: include_str!("../../../sql/clickhouse/V001__occurrences.sql") },
    Migration { version: 2, name: "dead_letters", sql: include_str!("../../../sql/clickhouse/V002__dead_letters.sql") },
    Migration { version: 3, name: "totals", sql: include_str!("../../../sql/clickhouse/V003__totals.sql") },
];

/// Applied versions. Two starts at once may both record one.
const SCHEMA_MIGRATIONS: &str = "CREATE TABLE IF NOT EXISTS schema_migrations \
    (version UInt32, name String, applied_at DateTime('UTC') DEFAULT now()) \
    ENGINE = ReplacingMergeTree ORDER BY version";

/// Creates the database if it is missing, applies what is not applied yet, and sets how long rows are kept.
pub(super) async fn migrate(connection: &Connection, retention_days: u16) -> Result<(), StoreError> {
    create_database(connection).await?;
    connection.execute(ACTION, connection.statement(SCHEMA_MIGRATIONS)).await?;
    let applied = connection.statement("SELECT max(version) FROM schema_migrations");
    let applied: u32 = connection.fetch(ACTION, applied).await?.into_iter().next().unwrap_or(0);
    let known = MIGRATIONS.len() as u32;
    if applied > known {
        let detail =
            format!("the database has schema version {applied}, this release knows up to {known}: use a newer one");
        return Err(permanent(ACTION, detail));
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > applied) {
        for statement in statements(migration.sql) {
            connection.execute(ACTION, connection.statement(&statement)).await?;
        }
        let record = connection
            .statement("INSERT INTO schema_migrations (version, name) SELECT {version:UInt32}, {name:String}")
            .param("version", migration.version)
            .param("name", migration.name);
        connection.execute(ACTION, record).await?;
    }
    set_retention(connection, retention_days).await
}

/// Only a database that is missing is created, so that the right to do so is not needed where it exists.
async fn create_database(connection: &Connection) -> Result<(), StoreError> {
    let exists = connection
        .server_statement("SELECT count() FROM system.databases WHERE name = {name:String}")
        .param("name", connection.database());
    if connection.fetch::<u64>(ACTION, exists).await? != [0] {
        return Ok(());
    }
    let create = connection.server_statement("CREATE DATABASE IF NOT EXISTS ?").bind(Identifier(connection.database()));
    connection.execute(ACTION, create).await
}

#[derive(Row, Deserialize)]
struct Definition {
    name: String,
    create_table_query: String,
}

/// Changes the TTL of the tables that have another one.
async fn set_retention(connection: &Connection, days: u16) -> Result<(), StoreError> {
    let definitions = connection
        .statement(
            "SELECT name, create_table_query FROM system.tables \
             WHERE database = currentDatabase() AND name IN {tables:Array(String)}",
        )
        .param("tables", &super::TABLES[..]);
    let wanted = format!("toIntervalDay({days})");
    for Definition { name, create_table_query } in connection.fetch(ACTION, definitions).await? {
        if create_table_query.contains(&wanted) {
            continue;
        }
        let change = connection
            .statement(&format!("ALTER TABLE {name} MODIFY TTL inserted_at + INTERVAL {days} DAY"))
            // Old parts get the new limit when they are merged or dropped, not by rewriting all of them now.
            .with_setting("materialize_ttl_after_modify", "0");
        connection.execute(ACTION, change).await?;
    }
    Ok(())
}

/// The statements of a file: separated by semicolons, comments on lines of their own.
fn statements(sql: &str) -> Vec<String> {
    let code: Vec<&str> = sql.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let code = code.join("\n");
    code.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_from_one_without_a_gap() {
        for (n, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version as usize, n + 1, "{}", migration.name);
        }
    }

    #[test]
    fn every_statement_may_be_repeated() {
        for migration in &MIGRATIONS {
            let statements = statements(migration.sql);
            assert!(!statements.is_empty(), "{}", migration.name);
            for statement in statements {
                assert!(statement.contains("IF NOT EXISTS"), "{statement}");
            }
        }
    }
}
