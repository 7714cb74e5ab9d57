//! The binary with a Kafka topic and with databases in Postgres and ClickHouse of the scenario's own.
//!
//! Partitions are idle only after ten minutes here, so that no wall clock closes a window. Time passes by records: one
//! that no rule matches moves its partition's watermark like any other (Q48), and is in no total.

use super::place::{Log, Place, Plan, Survives, partitions, take_steps};
use super::stored::max_fingerprints;
use floodmark_model::{EventTime, RecordTime, Rule, Window};
use floodmark_testkit::scenario::{Actual, FingerprintLabels, Record, Scenario, labels};
use floodmark_testkit::services::clickhouse::ClickHouseDatabase;
use floodmark_testkit::services::engine::{Engine, Installation};
use floodmark_testkit::services::kafka::Topic;
use floodmark_testkit::services::observed;
use floodmark_testkit::services::postgres::PostgresDatabase;
use floodmark_testkit::wait::{DEADLINE, wait_until};
use std::collections::BTreeSet;

/// T-3, the default.
const LATENESS_MS: i64 = 60_000;

/// Runs a scenario, and says what differs from what it expects.
pub(crate) fn run(scenario: &Scenario, plan: Plan) -> Result<(), String> {
    let steps = scenario.steps(FingerprintLabels::Message);
    let labels =
        labels::decoded(&scenario.params.rule(), &steps).map_err(|error| format!("{}: {error:#}", scenario.id))?;
    let mut services = Services::new(scenario, partitions(&steps));
    let actual = take_steps(scenario, &steps, plan, &mut services);
    scenario.compare(&labels, &actual)
}

struct Services {
    /// First of all: it is dropped before what it works with.
    engine: Option<Engine>,
    topic: Topic,
    postgres: PostgresDatabase,
    clickhouse: ClickHouseDatabase,
    installation: Installation,
    rule: Rule,
    unsent: Vec<Record>,
    /// Records in the topic and in those that it has replaced.
    sent: i64,
    /// Partitions of the topic that hold a record.
    filled: BTreeSet<i32>,
    /// Records that only let time pass.
    ticks: u64,
    /// All records are read again since the latest start.
    has_read_again: bool,
    is_recreated: bool,
}

impl Services {
    fn new(scenario: &Scenario, partitions: i32) -> Self {
        let name = format!("scenario_{}", scenario.id);
        let topic = Topic::create(&name, partitions);
        let (postgres, clickhouse) = (PostgresDatabase::create(&name), ClickHouseDatabase::create(&name));
        let rule = scenario.params.rule();
        let configuration = format!(
            "workers = 2\npostgres = \"{}\"\nclickhouse = \"{}\"\n\
             [kafka]\nbrokers = \"{}\"\ntopic = \"{}\"\ngroup = \"{}\"\n\
             [time]\nidle_after = \"10m\"\n\
             [limits]\nmax_fingerprints = {}\n\
             [[rules]]\nthreshold = {}\nstraddle = {}\nwindow = \"{}ms\"\nstraddle_buckets = {}\n",
            postgres.url(),
            clickhouse.url(),
            topic.brokers(),
            topic.name(),
            topic.name(),
            max_fingerprints(scenario),
            rule.threshold,
            rule.straddle,
            rule.window_ms,
            rule.buckets,
        );
        Self {
            installation: Installation::new(env!("CARGO_BIN_EXE_floodmark"), &configuration),
            topic,
            postgres,
            clickhouse,
            engine: None,
            rule,
            unsent: Vec::new(),
            sent: 0,
            filled: BTreeSet::new(),
            ticks: 0,
            has_read_again: false,
            is_recreated: false,
        }
    }

    fn send(&mut self, records: impl IntoIterator<Item = (i32, RecordTime, Vec<u8>)>) {
        let records: Vec<_> = records.into_iter().collect();
        self.filled.extend(records.iter().map(|(partition, ..)| *partition));
        self.sent += records.len() as i64;
        self.topic.produce(records);
        wait_until(format!("{} durable records", self.sent), DEADLINE, || {
            observed::durable_records(&self.postgres) == self.sent
        });
    }

    fn closed_ms(&self) -> i64 {
        self.postgres.number(
            "SELECT coalesce(max(extract(epoch FROM closed_watermark) * 1000)::bigint, -9223372036854775808) \
             FROM pipeline",
        )
    }

    /// As after a crash that came before the first commit: a topic that is gone cannot be read again.
    fn take_progress_back(&mut self) {
        assert!(!self.is_recreated, "the records of the first topic are gone");
        self.postgres.execute("DELETE FROM progress; UPDATE pipeline SET closed_watermark = NULL");
        self.has_read_again = true;
    }
}

impl Place for Services {
    fn start(&mut self, _log: &Log) {
        self.engine = Some(self.installation.start::<&str>([]));
    }

    fn read(&mut self, record: &Record) {
        self.has_read_again = false;
        self.unsent.push(record.clone());
    }

    fn read_again(&mut self, _record: &Record) {
        if !self.has_read_again {
            self.end(Survives::ALL_BUT_PROGRESS);
            self.engine = Some(self.installation.start::<&str>([]));
        }
    }

    fn settle(&mut self) {
        let unsent = std::mem::take(&mut self.unsent);
        self.send(unsent.into_iter().map(|record| (record.at.partition, record.record_time, record.payload)));
    }

    fn pass(&mut self, time: EventTime) {
        self.settle();
        let now_ms = time.0 + LATENESS_MS;
        let tick = format!("{{\"tenant\":\"clock\",\"level\":\"trace\",\"message\":\"tick\",\"ts\":{now_ms}}}");
        let ticks =
            self.filled.clone().into_iter().map(|partition| (partition, RecordTime(now_ms), tick.clone().into()));
        self.ticks += self.filled.len() as u64;
        self.send(ticks);
        let end = Window::containing(time, self.rule.window_ms).start;
        wait_until("the closing", DEADLINE, || self.closed_ms() >= end.0);
    }

    fn end(&mut self, survives: Survives) {
        self.settle();
        let engine = self.engine.take().expect("started");
        if survives == Survives::EVERYTHING {
            assert_eq!(engine.stop(), Some(0), "an orderly stop");
        } else {
            engine.kill();
            self.take_progress_back();
        }
    }

    /// The engine notices by itself.
    fn recreate_topic(&mut self, _log: &Log) {
        self.topic.recreate();
        self.is_recreated = true;
        self.filled.clear();
    }

    fn actual(&mut self) -> Actual {
        let mut actual = observed::actual(&self.postgres, &self.clickhouse);
        actual.counters.unmatched -= self.ticks;
        actual
    }
}
