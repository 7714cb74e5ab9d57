//! A Postgres database of a test's own.

use super::runtime::block_on;
use super::{Service, unique_name};
use std::thread;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

/// An empty database; dropped with this value, whoever is still connected.
pub struct PostgresDatabase {
    name: String,
    url: String,
}

impl PostgresDatabase {
    /// Creates a database with a unique name that starts with `prefix`.
    ///
    /// # Panics
    /// There is no Postgres, or it refuses.
    #[must_use]
    pub fn create(prefix: &str) -> Self {
        let (server, name) = (Service::Postgres.address(), unique_name(prefix));
        execute(&server, format!("CREATE DATABASE {name}"));
        Self { url: with_database(&server, &name), name }
    }

    /// Its URL, with the password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements, separated by semicolons.
    ///
    /// # Panics
    /// One of them fails.
    pub fn execute(&self, sql: impl Into<String>) {
        execute(&self.url, sql.into());
    }

    /// The rows of a query without parameters.
    ///
    /// # Panics
    /// The query fails.
    #[must_use]
    pub fn query(&self, sql: impl Into<String>) -> Vec<Row> {
        let sql = sql.into();
        self.try_query(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// The rows of a query without parameters, for a table that may not be there yet.
    ///
    /// # Errors
    /// The query fails, or nobody answers.
    pub fn try_query(&self, sql: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
        let (url, sql) = (self.url.clone(), sql.to_owned());
        const NO_PARAMETERS: &[&(dyn ToSql + Sync)] = &[];
        block_on(async move { connect(&url).await?.query(&sql, NO_PARAMETERS).await })
    }

    /// The answer to a query of one `bigint`.
    ///
    /// # Panics
    /// The query fails or answers something else.
    #[must_use]
    pub fn number(&self, sql: impl Into<String>) -> i64 {
        let rows = self.query(sql);
        assert_eq!(rows.len(), 1, "want one row");
        rows[0].get(0)
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        if !thread::panicking() {
            execute(&Service::Postgres.address(), format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        }
    }
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn execute(url: &str, sql: String) {
    let url = url.to_owned();
    let done = block_on({
        let sql = sql.clone();
        async move { connect(&url).await?.batch_execute(&sql).await }
    });
    done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// The URL with another database: what stands between the authority and the parameters.
fn with_database(url: &str, name: &str) -> String {
    let (before, parameters) =
        url.split_once('?').map_or((url, String::new()), |(url, rest)| (url, format!("?{rest}")));
    let authority_at = before.find("://").map_or(0, |at| at + 3);
    let end = before[authority_at..].find('/').map_or(before.len(), |at| authority_at + at);
    format!("{}/{name}{parameters}", &before[..end])
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn a_url_gets_another_database() {
        assert_eq!(with_database("postgres://me:pw@db:5432/old", "new"), "postgres://me:pw@db:5432/new");
        assert_eq!(with_database("postgres://db", "new"), "postgres://db/new");
        assert_eq!(with_database("postgres://db/old?a=/b", "new"), "postgres://db/new?a=/b");
    }
}
