//! A topic, two databases and an installation of a test's own.

use floodmark_testkit::services::clickhouse::ClickHouseDatabase;
use floodmark_testkit::services::engine::{Engine, Installation};
use floodmark_testkit::services::kafka::{LaterTopic, Topic};
use floodmark_testkit::services::observed;
use floodmark_testkit::services::postgres::PostgresDatabase;
use floodmark_testkit::wait::wait_until_equal;
use std::time::Duration;

/// How long the engine may take over what a test gives it, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Bed {
    pub(crate) topic: Topic,
    pub(crate) postgres: PostgresDatabase,
    pub(crate) clickhouse: ClickHouseDatabase,
    pub(crate) installation: Installation,
    #[allow(dead_code, reason = "dropped with the rest; the tests of outages ask for no more")]
    backfill_topic: LaterTopic,
}

impl Bed {
    /// `settings` is more of the configuration, from its `[time]` section on.
    pub(crate) fn new(name: &str, partitions: i32, settings: &str) -> Self {
        let topic = Topic::create(name, partitions);
        let backfill_topic = LaterTopic::new(&format!("{}.backfill", topic.name()));
        let (postgres, clickhouse) = (PostgresDatabase::create(name), ClickHouseDatabase::create(name));
        let configuration = format!(
            "clickhouse = {:?}\n[kafka]\nbrokers = {:?}\ntopic = {:?}\nbackfill_topic = {:?}\n{settings}",
            clickhouse.url(),
            topic.brokers(),
            topic.name(),
            backfill_topic.name()
        );
        let installation = Installation::new(env!("CARGO_BIN_EXE_floodmark"), &configuration)
            .with_environment("FLOODMARK_POSTGRES", postgres.url());
        Self { topic, postgres, clickhouse, installation, backfill_topic }
    }

    /// The topic of backfilled records, which nobody has created yet.
    #[allow(dead_code, reason = "the tests of outages backfill nothing")]
    pub(crate) fn backfill_topic(&self) -> &str {
        self.backfill_topic.name()
    }

    /// Starts the engine; does not wait for it.
    pub(crate) fn start(&self, workers: usize) -> Engine {
        self.installation.start(["--workers", &workers.to_string()])
    }

    /// Starts the engine and waits until it is ready.
    pub(crate) fn start_ready(&self, workers: usize) -> Engine {
        let mut engine = self.start(workers);
        engine.wait_until_ready();
        engine
    }

    /// Records that are durable with all that they caused.
    pub(crate) fn durable(&self) -> i64 {
        observed::durable_records(&self.postgres)
    }

    /// Waits until so many are.
    pub(crate) fn wait_until_durable(&self, records: i64) {
        wait_until_equal(
            "all records to be durable",
            PATIENCE,
            || self.durable(),
            |durable| {
                if *durable == records { Ok(()) } else { Err(format!("{durable} of {records}")) }
            },
        );
    }

    /// G-2: every record that was produced is in exactly one tally, at its own partition.
    pub(crate) fn assert_tallies_balance(&self) {
        let rows = observed::progress(&self.postgres);
        let offsets: Vec<i64> = rows.iter().map(|row| row.next_offset).collect();
        assert_eq!(offsets, self.topic.end_offsets(), "progress stands at the end of each partition");
        for row in rows {
            assert_eq!(row.read(), row.next_offset, "every record has one outcome: {row:?}");
        }
    }
}
