//! Three connections: for incidents, which must not wait, for closings, and for progress.

use super::{STORE, classify, fenced};
use crate::{Failure, Generation, StoreError};
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use postgres_openssl::MakeTlsConnector;
use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

/// How long connecting to each host may take, and then logging in, unless the URL says it (`connect_timeout`, in
/// seconds).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one call may take: behind it the connection counts as broken.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Each session's settings. A zombie that stops in the middle of a transaction loses its locks after two seconds
/// (decision 8). Every statement finds its rows by an index, in nested loops: a plan is kept for the life of a connection,
/// and one that was made while the table was small would go on to scan the whole of it.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '2s'; SET statement_timeout = '60s'; \
                       SET lock_timeout = '10s'; SET TIME ZONE 'UTC'; SET enable_seqscan = off; \
                       SET enable_mergejoin = off";

/// The first statement of every transaction.
const FENCE: &str = "SELECT generation FROM pipeline WHERE name = $1 FOR SHARE";

/// Which of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Incidents,
    Closings,
    Progress,
}

/// Connections that are opened when they are needed, and again when they broke.
pub(super) struct Connections {
    config: Config,
    tls: MakeTlsConnector,
    lanes: [Mutex<Option<Session>>; 3],
}

/// What one lane works with.
pub(super) struct Session {
    pub(super) client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

impl Connections {
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let wrong =
            |detail: String| StoreError { store: STORE, action: "read the URL", failure: Failure::Permanent, detail };
        let mut config = Config::from_str(url).map_err(|_| {
            wrong(
                "not a URL like postgres://user@host:5432/database (its text is not shown: it may hold a password)"
                    .into(),
            )
        })?;
        let connect_timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        config
            .application_name("floodmark")
            .connect_timeout(connect_timeout)
            .tcp_user_timeout(Duration::from_secs(10))
            .keepalives_idle(Duration::from_secs(10));
        let mut tls = SslConnector::builder(SslMethod::tls()).map_err(|error| wrong(error.to_string()))?;
        if config.get_ssl_mode() != SslMode::Require {
            tls.set_verify(SslVerifyMode::NONE);
        }
        Ok(Self { config, tls: MakeTlsConnector::new(tls.build()), lanes: Default::default() })
    }

    /// A call that is about to be made.
    pub(super) fn call(&self, lane: Lane, action: &'static str) -> Call<'_> {
        Call { connections: self, lane, action }
    }

    /// A connection of the caller's own.
    pub(super) async fn connect(&self) -> Result<Client, StoreError> {
        let connecting = async {
            let (client, connection) = self.config.connect(self.tls.clone()).await?;
            // It ends with its client, and every call on it then fails.
            tokio::spawn(connection);
            client.batch_execute(SESSION).await?;
            Ok(client)
        };
        // The client's own time-out is for the socket to each host: behind it somebody may be silent.
        let each = self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let wait = each.saturating_mul(1 + u32::try_from(self.config.get_hosts().len()).unwrap_or(u32::MAX - 1));
        let connected = tokio::time::timeout(wait, connecting).await.map_err(|_| no_answer("connect", wait))?;
        connected.map_err(|error| classify::error("connect", &error))
    }
}

fn no_answer(action: &'static str, within: Duration) -> StoreError {
    let detail = format!("no answer within {} s", within.as_secs());
    StoreError { store: STORE, action, failure: Failure::Transient, detail }
}

/// One call: which connection, and what for.
pub(super) struct Call<'a> {
    connections: &'a Connections,
    lane: Lane,
    action: &'static str,
}

/// A parameter of a statement.
pub(super) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// What the first statement of a transaction found: the stored generation.
pub(super) type Fence = Option<i64>;

impl Call<'_> {
    /// Runs `work` on the lane's connection.
    pub(super) async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Session) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let mut lane = self.connections.lanes[self.lane as usize].lock().await;
        // Taken out while it is used: a call that is dropped in the middle leaves no half-used connection.
        let session = match lane.take().filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => {
                let client = self.connections.connect().await?;
                Session { client, statements: Mutex::default() }
            }
        };
        let result = tokio::time::timeout(CALL_TIMEOUT, work(&session)).await;
        let result = result.map_err(|_| no_answer(self.action, CALL_TIMEOUT))?;
        if result.is_ok() {
            *lane = Some(session);
        }
        result.map_err(|error| classify::error(self.action, &error))
    }

    /// Runs `work` in a transaction whose fence is compared before it commits: with another generation nothing of it
    /// stays. A failed transaction takes its connection along.
    pub(super) async fn fenced<T>(
        &self,
        pipeline: &str,
        generation: Generation,
        work: impl AsyncFnOnce(&Session, &str) -> Result<(Fence, T), tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let (held, value) = self
            .run(async |session| {
                let (held, value) = work(session, pipeline).await?;
                let end = if held == Some(generation.0) { "COMMIT" } else { "ROLLBACK" };
                session.client.batch_execute(end).await?;
                Ok((held, value))
            })
            .await?;
        if held == Some(generation.0) { Ok(value) } else { Err(fenced(self.action, generation, held)) }
    }
}

impl Session {
    /// A query by its text, prepared once for each connection.
    pub(super) async fn query(
        &self,
        text: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepared(text).await?;
        self.client.query(&statement, parameters).await
    }

    /// The statement for [`Session::begin_with`].
    pub(super) async fn prepare_fence(&self) -> Result<Statement, tokio_postgres::Error> {
        self.prepared(FENCE).await
    }

    /// Begins a transaction and locks the generation row. Sends both when it is first polled, and waits for nothing
    /// before: statements that are polled after it, in one task, are fenced by it in the same round trip.
    pub(super) async fn begin_with(&self, fence: &Statement, pipeline: &str) -> Result<Fence, tokio_postgres::Error> {
        let parameters: [Parameter<'_>; 1] = [&pipeline];
        let (_, rows) =
            tokio::try_join!(biased; self.client.batch_execute("BEGIN"), self.client.query(fence, &parameters))?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    /// The same for statements that are sent when it has answered.
    pub(super) async fn begin(&self, pipeline: &str) -> Result<Fence, tokio_postgres::Error> {
        let fence = self.prepare_fence().await?;
        self.begin_with(&fence, pipeline).await
    }

    /// Runs the last statements of a transaction and commits it in the same round trip. `last` must send all that it
    /// has when it is first polled. Where a statement fails nothing is committed.
    pub(super) async fn commit_with<T>(
        &self,
        last: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        let (value, ()) = tokio::try_join!(biased; last, self.client.batch_execute("COMMIT"))?;
        Ok(value)
    }

    /// The prepared statement of a text.
    pub(super) async fn prepared(&self, text: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let mut statements = self.statements.lock().await;
        if let Some(statement) = statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        statements.insert(text, statement.clone());
        Ok(statement)
    }
}
