//! The harness against the real services: what it makes is there, says what was put into it, and goes away.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use floodmark_model::RecordTime;
use floodmark_testkit::services::clickhouse::ClickHouseDatabase;
use floodmark_testkit::services::kafka::Topic;
use floodmark_testkit::services::observed;
use floodmark_testkit::services::postgres::PostgresDatabase;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::fs;
use std::path::Path;
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

/// The statements of `sql/<folder>`, in order.
fn migrations(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn what_stands_in_the_stores_is_read_in_the_words_of_scenarios() {
    let (postgres, clickhouse) = (PostgresDatabase::create("testkit"), ClickHouseDatabase::create("testkit"));
    assert_eq!(observed::durable_records(&postgres), 0, "no table yet");
    migrations("postgres").into_iter().for_each(|sql| postgres.execute(sql));
    postgres.execute(
        "INSERT INTO progress (pipeline, topic_id, partition, next_offset, stored, retried, unmatched, dead) VALUES
            ('p', '00000000-0000-0000-0000-000000000001', 0, 7, 4, 1, 2, 0),
            ('p', '00000000-0000-0000-0000-000000000001', 1, 3, 2, 0, 0, 1);
        INSERT INTO incidents (id, tenant, fingerprint, window_start, count, status, episode_id, total, rule,
            window_end, detection, opened_at)
        SELECT repeat(id, 32), tenant, repeat('0', 30) || 'ff', at, count, status, repeat(episode, 32), total,
            'default', at + interval '5 minutes', 'window', at
        FROM (VALUES
            ('a', 't|1', '1969-12-31T23:55:00Z'::timestamptz, 10, 'closed', 'a', 11),
            ('b', 't|1', '1970-01-01T00:00:00Z', 12, 'open', 'a', NULL),
            ('c', 't|1', '1970-01-01T00:05:00Z', 9, 'withdrawn', 'a', NULL),
            ('d', 't|2', '1970-01-01T00:05:00Z', 9, 'superseded', 'f', NULL),
            ('e', 't|3', '1970-01-01T00:05:00Z', 9, 'open', 'f', NULL))
            AS t (id, tenant, at, count, status, episode, total)",
    );
    for sql in migrations("clickhouse") {
        let lines: String =
            sql.lines().filter(|line| !line.starts_with("--")).map(|line| format!("{line}\n")).collect();
        lines.split(';').filter(|sql| !sql.trim().is_empty()).for_each(|sql| drop(clickhouse.query(sql)));
    }
    clickhouse.query(
        "INSERT INTO occurrences (tenant, fingerprint_bits, ts, ts_missing, ts_clamped, level, occurrence_count,
            identity)
        SELECT 'a\"\\tb', 255, fromUnixTimestamp64Milli(toInt64(-1), 'UTC'), identity < 3, identity = 3, 'error',
            if(identity = 3, 4294967295, 1), identity
        FROM (SELECT arrayJoin([1, 2, 3, 3]) AS identity)",
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
        [("t|1", -300_000, 11, Some(-300_000)), ("t|1", 0, 12, Some(-300_000)), ("t|3", 300_000, 9, None)]
    );
    let counters = actual.counters;
    assert_eq!((counters.client_retry, counters.unmatched, counters.dead_letter), (1, 2, 1));
    assert_eq!((counters.ts_missing, counters.ts_clamped), (2, 1));
    let total = &actual.totals[0];
    assert_eq!((&*total.tenant, total.fingerprint.bits()), ("a\"\tb", 255));
    assert_eq!((total.window_start.0, total.total), (-300_000, 4_294_967_297));
    assert_eq!(actual.totals.len(), 1);
}
