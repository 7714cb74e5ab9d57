//! The harness against the real services: what it makes is there, says what was put into it, and goes away.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use floodmark_model::RecordTime;
use floodmark_testkit::services::clickhouse::ClickHouseDatabase;
use floodmark_testkit::services::kafka::Topic;
use floodmark_testkit::services::observed;
use floodmark_testkit::services::postgres::PostgresDatabase;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::time::Duration;

const T0: i64 = 1_767_225_600_000;

#[test]
fn a_postgres_database_comes_and_goes() {
    let database = PostgresDatabase::create("testkit");
    database.execute("CREATE TABLE t (n bigint); INSERT INTO t VALUES (3), (4)");
    assert_eq!(database.number("SELECT sum(n)::bigint FROM t"), 7);
    assert!(database.try_query("SELECT * FROM missing").is_err());
    let name = database.name().to_owned();
    drop(database);
    let other = PostgresDatabase::create("testkit");
    assert_eq!(other.number(format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'")), 0);
}

#[test]
fn a_clickhouse_database_comes_and_goes() {
    let database = ClickHouseDatabase::create("testkit");
    database.query("CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n");
    database.query("INSERT INTO t VALUES (3), (4)");
    assert_eq!(database.number("SELECT sum(n) FROM t"), 7);
    assert!(database.try_query("SELECT * FROM missing").unwrap_err().contains("UNKNOWN_TABLE"));
    let name = database.name().to_owned();
    drop(database);
    let other = ClickHouseDatabase::create("testkit");
    assert_eq!(other.number(&format!("SELECT count() FROM system.databases WHERE name = '{name}'")), 0);
}

#[test]
fn a_topic_holds_what_was_produced_and_a_new_one_begins_at_zero() {
    let topic = Topic::create("testkit", 2);
    let records = |n: i64| (0..n).map(|n| ((n % 2) as i32, RecordTime(T0 + n), format!("record {n}")));
    assert_eq!(topic.produce(records(10_001)), 10_001);
    assert_eq!(topic.end_offsets(), [5_001, 5_000]);

    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", topic.brokers()).set("group.id", topic.name()).create().unwrap();
    let mut at = TopicPartitionList::new();
    at.add_partition_offset(topic.name(), 1, Offset::Offset(4_999)).unwrap();
    consumer.assign(&at).unwrap();
    let last = consumer.poll(Duration::from_secs(60)).expect("a record").unwrap();
    assert_eq!(last.payload(), Some(&b"record 9999"[..]));
    assert_eq!(last.timestamp().to_millis(), Some(T0 + 9_999));
    drop(last);

    topic.recreate();
    assert_eq!(topic.end_offsets(), [0, 0]);
    assert_eq!(topic.produce(records(3)), 3);
    assert_eq!(topic.end_offsets(), [2, 1]);
}

#[test]
fn what_stands_in_the_stores_is_read_in_the_words_of_scenarios() {
    let (postgres, clickhouse) = (PostgresDatabase::create("testkit"), ClickHouseDatabase::create("testkit"));
    assert_eq!(observed::durable_records(&postgres), 0, "no table yet");
    postgres.execute(
        "CREATE TABLE progress (pipeline text, topic_id uuid, partition int, next_offset bigint, stored bigint, \
             retried bigint, unmatched bigint, dead bigint);
         INSERT INTO progress VALUES ('p', '00000000-0000-0000-0000-000000000001', 0, 7, 4, 1, 2, 0), \
             ('p', '00000000-0000-0000-0000-000000000001', 1, 3, 2, 0, 0, 1);
         CREATE TABLE incidents (id text, tenant text, fingerprint text, window_start timestamptz, count bigint, \
             status text, episode_id text);
         INSERT INTO incidents VALUES \
             ('a', 't|1', '000000000000000000000000000000ff', '1969-12-31T23:55:00Z', 10, 'closed', 'a'), \
             ('b', 't|1', '000000000000000000000000000000ff', '1970-01-01T00:00:00Z', 12, 'open', 'a'), \
             ('c', 't|1', '000000000000000000000000000000ff', '1970-01-01T00:05:00Z', 9, 'withdrawn', 'a'), \
             ('d', 't|2', '000000000000000000000000000000ff', '1970-01-01T00:05:00Z', 9, 'superseded', 'x'), \
             ('e', 't|3', '000000000000000000000000000000ff', '1970-01-01T00:05:00Z', 9, 'open', 'x')",
    );
    clickhouse.query(
        "CREATE TABLE occurrences (n Int64, ts_missing Bool, ts_clamped Bool) ENGINE = ReplacingMergeTree ORDER BY n",
    );
    clickhouse.query("INSERT INTO occurrences VALUES (1, true, false), (2, true, false), (3, false, true)");
    clickhouse.query(
        "CREATE VIEW totals AS SELECT 'a\"\\tb' AS tenant, '000000000000000000000000000000FF' AS fingerprint, \
         fromUnixTimestamp64Milli(toInt64(-300000), 'UTC') AS window_start, toUInt64(18446744073709551615) AS total",
    );

    assert_eq!(observed::durable_records(&postgres), 10);
    assert!(observed::progress(&postgres).iter().all(|row| row.read() == row.next_offset));
    let actual = observed::actual(&postgres, &clickhouse);
    let incidents: Vec<_> = actual
        .incidents
        .iter()
        .map(|found| (&*found.tenant, found.window_start.0, found.count, found.episode.map(|start| start.0)))
        .collect();
    assert_eq!(
        incidents,
        [("t|1", -300_000, 10, Some(-300_000)), ("t|1", 0, 12, Some(-300_000)), ("t|3", 300_000, 9, None)]
    );
    let counters = actual.counters;
    assert_eq!((counters.client_retry, counters.unmatched, counters.dead_letter), (1, 2, 1));
    assert_eq!((counters.ts_missing, counters.ts_clamped), (2, 1));
    let total = &actual.totals[0];
    assert_eq!((&*total.tenant, total.fingerprint.bits()), ("a\"\tb", 255));
    assert_eq!((total.window_start.0, total.total), (-300_000, u64::MAX));
}
