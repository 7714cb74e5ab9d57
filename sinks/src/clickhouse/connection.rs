//! The client with its limits of time. What a statement says is decided elsewhere.

use super::classify::{failed, timed_out};
use super::settings::{ClickHouseSettings, Endpoint};
use crate::StoreError;
use clickhouse::query::Query;
use clickhouse::{Client, Compression, RowOwned, RowRead};
use hyper_tls::HttpsConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::future::Future;
use std::time::Duration;

/// How long an idle connection is kept: less than the 3 s (older releases) after which the server closes it, so that no
/// request meets a closed one.
const IDLE_CONNECTION: Duration = Duration::from_secs(2);

/// How long [`Connection::ping`] waits: health must answer soon.
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// A pool of connections to one server.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Speaks to the tables' database.
    client: Client,
    /// Names no database: one that does not exist yet cannot be named.
    server: Client,
    database: String,
    request_timeout: Duration,
    read_timeout: Duration,
}

impl Connection {
    pub(super) fn new(settings: &ClickHouseSettings) -> Result<Self, StoreError> {
        let at = Endpoint::parse(&settings.url)?;
        let compression = if settings.compression { Compression::Lz4 } else { Compression::None };
        let mut server = Client::with_http_client(
            HttpClient::builder(TokioExecutor::new())
                .pool_idle_timeout(IDLE_CONNECTION)
                .build(connector(settings.connect_timeout)),
        )
        .with_url(at.url)
        .with_compression(compression)
        .with_product_info("floodmark", env!("CARGO_PKG_VERSION"));
        if let Some(user) = at.user {
            server = server.with_user(user);
        }
        if let Some(password) = at.password {
            server = server.with_password(password);
        }
        Ok(Self {
            client: server.clone().with_database(&at.database),
            server,
            database: at.database,
            request_timeout: settings.request_timeout,
            read_timeout: settings.read_timeout,
        })
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// The client, for inserts.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        within(PING_TIMEOUT, "ping", self.server.query_raw("SELECT 1").execute()).await
    }

    /// A statement outside the tables' database. A `?` in it is bound by [`Query::bind`].
    pub(super) fn server_statement(&self, sql: &str) -> Query {
        self.server.query(sql)
    }

    /// A statement.
    pub(super) fn statement(&self, sql: &str) -> Query {
        self.client.query_raw(sql)
    }

    /// A query that reads occurrences as they stand after replacing.
    pub(super) fn select(&self, sql: &str) -> Query {
        self.client
            .query_raw(sql)
            // A row's day follows from its sort key: no duplicate lies in another partition.
            .with_setting("do_not_merge_across_partitions_select_final", "1")
            // Conditions on other columns than the sort key's come after FINAL: one on the offset must see the row that
            // stays, not the one it replaced.
            .with_setting("optimize_move_to_prewhere_if_final", "0")
            // The server stops what nobody waits for any more.
            .with_setting("max_execution_time", self.read_timeout.as_secs().max(1).to_string())
            .with_setting("cancel_http_readonly_queries_on_client_close", "1")
    }

    /// Runs a statement.
    pub(super) async fn execute(&self, action: &'static str, statement: Query) -> Result<(), StoreError> {
        within(self.request_timeout, action, statement.execute()).await
    }

    /// Reads all rows of a small answer.
    pub(super) async fn fetch<T>(&self, action: &'static str, query: Query) -> Result<Vec<T>, StoreError>
    where
        T: RowOwned + RowRead,
    {
        within(self.read_timeout, action, query.fetch_all()).await
    }

    /// Waits for a reader of many rows.
    pub(super) async fn reading(
        &self,
        action: &'static str,
        reader: impl Future<Output = clickhouse::error::Result<()>>,
    ) -> Result<(), StoreError> {
        within(self.read_timeout, action, reader).await
    }

    /// Waits for an insert.
    pub(super) async fn inserting(
        &self,
        action: &'static str,
        insert: impl Future<Output = clickhouse::error::Result<()>>,
    ) -> Result<(), StoreError> {
        within(self.request_timeout, action, insert).await
    }
}

fn connector(connect_timeout: Duration) -> HttpsConnector<HttpConnector> {
    let mut http = HttpConnector::new();
    http.set_connect_timeout(Some(connect_timeout));
    // Requests are written whole: waiting for more to send only adds the peer's delayed acknowledgement (40 ms).
    http.set_nodelay(true);
    http.set_keepalive(Some(Duration::from_secs(60)));
    http.enforce_http(false);
    HttpsConnector::new_with_connector(http)
}

async fn within<T>(
    limit: Duration,
    action: &'static str,
    call: impl Future<Output = clickhouse::error::Result<T>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(|error| failed(action, &error)),
        Err(_) => Err(timed_out(action, limit)),
    }
}
