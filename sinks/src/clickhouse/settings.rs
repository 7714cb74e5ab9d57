//! Where the server is, and how long to wait for it.

use super::STORE;
use crate::{Failure, StoreError};
use percent_encoding::percent_decode_str;
use std::fmt;
use std::time::Duration;
use url::Url;

/// How to reach ClickHouse. `Debug` shows no password.
#[derive(Clone)]
pub struct ClickHouseSettings {
    /// `http://` or `https://`, with user and password if there are any. The database is the path
    /// (`http://host:8123/floodmark`) or, behind a proxy that needs a path of its own, `?database=`; without either it
    /// is `default`.
    pub url: String,
    /// Whether requests and answers are compressed (LZ4): worth it over a network, not on one machine.
    pub compression: bool,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a statement, an insert or a small query may take, connecting included.
    pub request_timeout: Duration,
    /// How long a query may take that reads what a start or a person asks for.
    pub read_timeout: Duration,
    /// How many days a row is kept, counted from its insertion.
    pub retention_days: u16,
}

impl ClickHouseSettings {
    /// The defaults for this address.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            compression: false,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(600),
            retention_days: 90,
        }
    }
}

impl fmt::Debug for ClickHouseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClickHouseSettings")
            .field("url", &Endpoint::parse(&self.url).map_or_else(|_| "<not an address>".into(), |at| at.url))
            .field("compression", &self.compression)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("read_timeout", &self.read_timeout)
            .field("retention_days", &self.retention_days)
            .finish()
    }
}

/// An address, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Without user, password and database.
    pub(super) url: String,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: String,
}

impl Endpoint {
    /// Takes an address apart. Messages about it never repeat it: it may hold a password.
    pub(super) fn parse(text: &str) -> Result<Self, StoreError> {
        let mut url = Url::parse(text).map_err(|error| refused(&format!("the address is not a URL ({error})")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(refused("the address must begin with http:// or https:// and name a host"));
        }
        let database = match database_parameter(&url)? {
            Some(database) => database,
            None => {
                let path = decoded(url.path().trim_matches('/'))?;
                url.set_path("");
                path
            }
        };
        if database.contains('/') {
            return Err(refused("the address has a path of several parts: name the database with ?database="));
        }
        let user = Some(decoded(url.username())?).filter(|user| !user.is_empty());
        let password = url.password().map(decoded).transpose()?;
        url.set_query(None);
        url.set_fragment(None);
        // Cannot fail: the URL has a host.
        let _ = url.set_password(None);
        let _ = url.set_username("");
        let database = if database.is_empty() { "default".into() } else { database };
        Ok(Self { url: url.into(), user, password, database })
    }
}

fn database_parameter(url: &Url) -> Result<Option<String>, StoreError> {
    let mut database = None;
    for (name, value) in url.query_pairs() {
        match &*name {
            "database" => database = Some(value.into_owned()),
            _ => return Err(refused(&format!("the address has an unknown parameter {name:?}; known is `database`"))),
        }
    }
    Ok(database)
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| refused("the address has percent-encoded bytes that are not UTF-8"))
}

fn refused(detail: &str) -> StoreError {
    StoreError { store: STORE, action: "read the address", failure: Failure::Permanent, detail: detail.into() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn database(url: &str) -> String {
        Endpoint::parse(url).ok().unwrap().database
    }

    #[test]
    fn the_database_is_the_path_or_the_parameter() {
        assert_eq!(database("http://host:8123"), "default");
        assert_eq!(database("http://host:8123/"), "default");
        assert_eq!(database("http://host:8123/flood"), "flood");
        assert_eq!(database("http://host:8123/?database=flood"), "flood");
        let behind_a_proxy = Endpoint::parse("https://host/clickhouse?database=flood").ok().unwrap();
        assert_eq!(behind_a_proxy.url, "https://host/clickhouse");
        assert_eq!(behind_a_proxy.database, "flood");
    }

    #[test]
    fn user_and_password_are_decoded_and_leave_the_address() {
        let at = Endpoint::parse("http://me:p%40ss%2Fword@host:8123/flood").ok().unwrap();
        assert_eq!(at.user.as_deref(), Some("me"));
        assert_eq!(at.password.as_deref(), Some("p@ss/word"));
        assert_eq!(at.url, "http://host:8123/");
    }

    #[test]
    fn no_message_holds_the_password() {
        for url in [
            "http://me:secret@host:99999/",
            "ftp://me:secret@host/",
            "http://me:secret@host/?user=me",
            "http://me:secret@host/a/b",
            "me:secret@host",
        ] {
            let error = Endpoint::parse(url).err().unwrap();
            assert!(!error.is_transient());
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        let settings = ClickHouseSettings::new("http://me:secret@host:8123/flood");
        let shown = format!("{settings:?}");
        assert!(!shown.contains("secret") && shown.contains("host:8123"), "{shown}");
    }
}
