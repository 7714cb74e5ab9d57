//! A ClickHouse database of a test's own, over plain HTTP.

use super::http::{HttpUrl, percent_encoded, request};
use super::{Service, unique_name};
use std::thread;

/// An empty database; dropped with this value.
pub struct ClickHouseDatabase {
    name: String,
    server: String,
}

impl ClickHouseDatabase {
    /// Creates a database with a unique name that starts with `prefix`.
    ///
    /// # Panics
    /// There is no ClickHouse, or it refuses.
    #[must_use]
    pub fn create(prefix: &str) -> Self {
        let database = Self { name: unique_name(prefix), server: Service::ClickHouse.address() };
        let created = post(&database.server, "default", &format!("CREATE DATABASE {}", database.name));
        created.unwrap_or_else(|error| panic!("{error}"));
        database
    }

    /// Its URL, with the login and the database as the path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/{}", self.server.trim_end_matches('/'), self.name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one statement or query; the answer in the format it names (`TabSeparated` by default).
    ///
    /// # Panics
    /// It fails.
    pub fn query(&self, sql: &str) -> String {
        self.try_query(sql).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Self::query`], for a table that may not be there yet.
    ///
    /// # Errors
    /// The statement and what ClickHouse says, or that nobody answers.
    pub fn try_query(&self, sql: &str) -> Result<String, String> {
        post(&self.server, &self.name, sql)
    }

    /// The answer to a query of one number.
    ///
    /// # Panics
    /// The query fails or answers something else.
    #[must_use]
    pub fn number(&self, sql: &str) -> u64 {
        let answer = self.query(sql);
        answer.trim().parse().unwrap_or_else(|_| panic!("{sql}: {answer:?} is not a number"))
    }
}

impl Drop for ClickHouseDatabase {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.query(&format!("DROP DATABASE IF EXISTS {}", self.name));
        }
    }
}

fn post(server: &str, database: &str, sql: &str) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{sql}: {error}");
    let url = HttpUrl::parse(server).ok_or_else(|| failed(&"FLOODMARK_TEST_CLICKHOUSE is no http:// URL"))?;
    let login: Vec<(&str, &str)> = match &url.login {
        Some((user, password)) => vec![("X-ClickHouse-User", user), ("X-ClickHouse-Key", password)],
        None => Vec::new(),
    };
    let path = format!("/?database={}", percent_encoded(database));
    let answer = request(&url.address, "POST", &path, &login, sql.as_bytes()).map_err(|error| failed(&error))?;
    if answer.status == 200 { Ok(answer.body) } else { Err(failed(&answer.body)) }
}
