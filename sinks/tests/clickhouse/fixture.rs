//! A database per test, and records to put into it.

use crate::occurrence_store::records::occurrence;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::{
    Coordinates, EventTime, Fingerprint, Identity, IncidentKey, IncidentKind, Occurrence, RecordTime, Rule, TopicId,
    Window,
};
use floodmark_sinks::OccurrenceStore;
use floodmark_sinks::clickhouse::{ClickHouseSettings, ClickHouseStore};
use floodmark_sinks::rows::RowBlock;
use std::borrow::Cow;

/// 2026-03-01T00:00:00Z, the start of a window of every length used here.
pub(crate) const T0: i64 = 1_772_323_200_000;

pub(crate) const TOPIC: TopicId =
    TopicId([0x61, 0xf0, 0xc4, 4, 0x5c, 0xb3, 0x11, 0xe7, 0x90, 0x7b, 0xa6, 0, 0x6a, 0xd3, 0xdb, 0xa0]);

pub(crate) fn server() -> String {
    std::env::var("FLOODMARK_TEST_CLICKHOUSE")
        .expect("FLOODMARK_TEST_CLICKHOUSE names a ClickHouse server: eval \"$(dev/services env)\"")
}

/// A database with the schema, and the store that speaks to it.
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) settings: ClickHouseSettings,
    pub(crate) store: ClickHouseStore,
}

impl Database {
    /// A name that no other test and no other run has. Nothing is created yet.
    pub(crate) fn named(test: &str) -> Self {
        let name = format!("floodmark_test_{test}_{}", std::process::id());
        let settings = ClickHouseSettings::new(format!("{}/{name}", server().trim_end_matches('/')));
        let store = ClickHouseStore::new(&settings).unwrap();
        Self { name, settings, store }
    }

    pub(crate) async fn migrated(test: &str) -> Self {
        let database = Self::named(test);
        database.store.migrate().await.unwrap();
        database
    }

    /// A client that shares nothing with the store.
    pub(crate) fn client(&self) -> clickhouse::Client {
        clickhouse::Client::default()
            .with_url(server())
            .with_database(&self.name)
            .with_compression(clickhouse::Compression::None)
    }

    /// The answer to a query of one number.
    pub(crate) async fn number(&self, sql: &str) -> u64 {
        self.client().query_raw(sql).fetch_one().await.unwrap()
    }

    /// Called at the end of a test: what a failed one leaves can be looked at.
    pub(crate) async fn drop(self) {
        self.client().query_raw(&format!("DROP DATABASE {}", self.name)).execute().await.unwrap();
    }
}

/// The `n`-th record of partition 0: tenant `acme`, fingerprint 1, one a second from [`T0`] on.
pub(crate) fn record(n: i64) -> Occurrence<'static> {
    at_place(T0 + n * 1_000, 0, n)
}

/// A record at a time and a place in the log.
pub(crate) fn at_place(ts: i64, partition: i32, offset: i64) -> Occurrence<'static> {
    let at = Coordinates { topic_id: TOPIC, partition, offset };
    Occurrence {
        host: "host-1".into(),
        source: "app.log".into(),
        kind: "exception".into(),
        record_time: RecordTime(ts + 5),
        raw: Cow::Borrowed(b"{\"message\":\"boom\"}"),
        ..occurrence(at, ts)
    }
}

/// A record of a client that gives ids (I-2).
pub(crate) fn with_event_id(mut occurrence: Occurrence<'static>, event_id: &'static str) -> Occurrence<'static> {
    occurrence.identity = Identity::of_event(&occurrence.tenant, event_id);
    occurrence.event_id = event_id.into();
    occurrence
}

pub(crate) fn block<'a>(occurrences: impl IntoIterator<Item = &'a Occurrence<'static>>) -> RowBlock {
    let mut block = RowBlock::default();
    occurrences.into_iter().for_each(|occurrence| block.push_occurrence(occurrence));
    block
}

/// Progress with these next offsets of partitions of [`TOPIC`].
pub(crate) fn progress(next_offsets: impl IntoIterator<Item = (i32, i64)>) -> Progress {
    let mut progress = Progress::default();
    for (partition, next_offset) in next_offsets {
        let watermark = EventTime(T0);
        let at = PartitionProgress { next_offset, watermark, tallies: Tallies::default() };
        progress.partitions.insert(PartitionKey { topic_id: TOPIC, partition }, at);
    }
    progress
}

/// The key of tenant `acme` and this fingerprint in the window at a time.
pub(crate) fn key(rule: &Rule, fingerprint: u128, ts: i64) -> IncidentKey {
    IncidentKey {
        kind: IncidentKind::Burst,
        rule: rule.name.as_str().into(),
        tenant: "acme".into(),
        fingerprint: Fingerprint::from_bits(fingerprint),
        window: Window::containing(EventTime(ts), rule.window_ms),
    }
}

/// The total of tenant `acme`, fingerprint 1 in the window at a time.
pub(crate) async fn total(database: &Database, ts: i64) -> u64 {
    let rule = Rule::default();
    database.store.window_facts(&rule, &[key(&rule, 1, ts)]).await.unwrap()[0].total
}
