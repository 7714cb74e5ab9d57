//! A whole floodmark for `backfill`, `latency` and `restart`: the release binary as a child process, with a topic and databases of
//! its own, which go with it.

use anyhow::{Context, Result, ensure};
use floodmark_kafka::KafkaSettings;
use floodmark_model::{EventTime, Fingerprint, IncidentId, IncidentKey, IncidentKind, Window};
use floodmark_testkit::services::clickhouse::ClickHouseDatabase;
use floodmark_testkit::services::engine::Installation;
use floodmark_testkit::services::kafka::{LaterTopic, Topic};
use floodmark_testkit::services::postgres::PostgresDatabase;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};

/// Partitions of the topic.
pub(crate) const PARTITIONS: i32 = 4;
/// Records that make an incident.
pub(crate) const THRESHOLD: i32 = 10;
const WINDOW_MS: i64 = 300_000;

/// What a run needs, and what it leaves behind if it is not dropped.
pub(crate) struct Setup {
    /// Where the engine reads.
    pub(crate) topic: Topic,
    /// Where backfills go. Nobody has created it yet.
    pub(crate) backfill_topic: LaterTopic,
    /// Starts the engine.
    pub(crate) installation: Installation,
    /// Where incidents appear.
    pub(crate) postgres: PostgresDatabase,
    /// Where occurrences appear.
    pub(crate) clickhouse: ClickHouseDatabase,
}

impl Setup {
    /// Makes topic, databases and configuration. Without `binary` it is the one beside this binary.
    pub(crate) fn new(name: &str, binary: Option<PathBuf>, workers: usize) -> Result<Self> {
        let binary = match binary {
            Some(binary) => binary.canonicalize().with_context(|| binary.display().to_string())?,
            None => std::env::current_exe()?.with_file_name("floodmark"),
        };
        ensure!(binary.is_file(), "there is no {}: build it, or name another with --binary", binary.display());
        let topic = Topic::create(name, PARTITIONS);
        let backfill_topic = LaterTopic::new(&format!("{}.backfill", topic.name()));
        let (postgres, clickhouse) = (PostgresDatabase::create(name), ClickHouseDatabase::create(name));
        let configuration = format!(
            "workers = {workers}\n[kafka]\nbrokers = {:?}\ntopic = {:?}\nbackfill_topic = {:?}\n",
            topic.brokers(),
            topic.name(),
            backfill_topic.name()
        );
        let installation = Installation::new(binary, &configuration)
            .with_environment("FLOODMARK_POSTGRES", postgres.url())
            .with_environment("FLOODMARK_CLICKHOUSE", &clickhouse.url());
        Ok(Self { topic, backfill_topic, installation, postgres, clickhouse })
    }

    /// How to reach its topic, with further settings of librdkafka.
    pub(crate) fn kafka(&self, properties: &[(&str, &str)]) -> Result<KafkaSettings> {
        let properties = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Ok(KafkaSettings::new(self.topic.brokers(), "floodmark-bench", properties)?)
    }
}

/// The incident that [`THRESHOLD`] probes of one fingerprint make.
pub(crate) fn probe_incident(fingerprint: u128, ts: EventTime) -> IncidentId {
    let key = IncidentKey {
        kind: IncidentKind::Burst,
        rule: "default".into(),
        tenant: crate::records::PROBE_TENANT.into(),
        fingerprint: Fingerprint::from_bits(fingerprint),
        window: Window::containing(ts, WINDOW_MS),
    };
    key.id()
}

/// The system's clock.
pub(crate) fn now() -> EventTime {
    EventTime(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
}

/// Looks into Postgres over one connection, with prepared statements.
pub(crate) struct Look {
    runtime: Runtime,
    client: Client,
    found: Statement,
    durable: Statement,
    sent: Statement,
    closed: Statement,
}

impl Look {
    /// Connects. The engine must have made its tables.
    pub(crate) fn new(url: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, found, durable, sent, closed) = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let found = client.prepare("SELECT id FROM incidents WHERE id = ANY($1)").await?;
            let durable = client.prepare("SELECT coalesce(sum(next_offset), 0)::bigint FROM progress").await?;
            let sent = client.prepare("SELECT coalesce(max(next_offset), 0) FROM backfill_inputs").await?;
            let closed = "SELECT coalesce(min(extract(epoch FROM closed_watermark) * 1000), 0)::bigint FROM pipeline";
            let closed = client.prepare(closed).await?;
            Ok::<_, tokio_postgres::Error>((client, found, durable, sent, closed))
        })?;
        Ok(Self { runtime, client, found, durable, sent, closed })
    }

    /// Which of these incidents have a row.
    pub(crate) fn found(&self, ids: &[String]) -> Result<Vec<String>> {
        let rows = self.runtime.block_on(self.client.query(&self.found, &[&ids]))?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// How many records are durable, with all that they caused.
    pub(crate) fn durable(&self) -> Result<u64> {
        self.number(&self.durable)
    }

    /// All closing up to here is stored.
    pub(crate) fn closed_to(&self) -> Result<EventTime> {
        Ok(EventTime(self.number(&self.closed)? as i64))
    }

    /// How many bytes of a file the backfill topic holds, while its backfill runs.
    pub(crate) fn sent_bytes(&self) -> Result<u64> {
        self.number(&self.sent)
    }

    fn number(&self, query: &Statement) -> Result<u64> {
        let row = self.runtime.block_on(self.client.query_one(query, &[]))?;
        Ok(row.get::<_, i64>(0) as u64)
    }
}
