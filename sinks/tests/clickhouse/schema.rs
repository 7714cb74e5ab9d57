use crate::fixture::{Database, block, record};
use floodmark_sinks::OccurrenceStore;
use floodmark_sinks::clickhouse::{ClickHouseSettings, ClickHouseStore};
use std::collections::BTreeSet;

#[tokio::test]
async fn two_starts_at_once_and_a_third_later_make_one_schema() {
    let database = Database::named("two_starts");
    let other = ClickHouseStore::new(&database.settings).unwrap();
    let (first, second) = tokio::join!(database.store.migrate(), other.migrate());
    first.unwrap();
    second.unwrap();
    database.store.insert(&[block([&record(0)])]).await.unwrap();
    other.migrate().await.unwrap();
    assert_eq!(database.number("SELECT count() FROM occurrences FINAL").await, 1, "a migration deletes nothing");
    assert_eq!(database.number("SELECT count() FROM schema_migrations FINAL").await, 3);
    database.drop().await;
}

#[tokio::test]
async fn a_schema_of_a_later_release_is_refused() {
    let database = Database::migrated("later_release").await;
    let later = "INSERT INTO schema_migrations (version, name) SELECT 1000, 'later'";
    database.client().query_raw(later).execute().await.unwrap();
    let error = database.store.migrate().await.unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("1000"), "{error}");
    database.drop().await;
}

#[tokio::test]
async fn retention_counts_from_the_insertion_and_follows_the_setting() {
    let database = Database::migrated("retention").await;
    let with_ttl = |days: u16| {
        format!(
            "SELECT count() FROM system.tables WHERE database = currentDatabase() \
             AND position(create_table_query, 'TTL inserted_at + toIntervalDay({days})') > 0"
        )
    };
    assert_eq!(database.number(&with_ttl(90)).await, 3);
    let settings = ClickHouseSettings { retention_days: 14, ..database.settings.clone() };
    ClickHouseStore::new(&settings).unwrap().migrate().await.unwrap();
    assert_eq!(database.number(&with_ttl(14)).await, 3);

    let mut old = record(0);
    old.ts.0 = 1_464_000_000_000;
    old.record_time.0 = old.ts.0;
    database.store.insert(&[block([&old])]).await.unwrap();
    database.client().query_raw("OPTIMIZE TABLE occurrences FINAL").execute().await.unwrap();
    assert_eq!(database.number("SELECT count() FROM occurrences FINAL").await, 1, "a replay of 2016 stays");
    database.drop().await;
}

#[tokio::test]
async fn outsiders_find_the_columns_they_rely_on() {
    let database = Database::migrated("columns").await;
    let columns = async |table: &str| -> BTreeSet<String> {
        let sql = format!("SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '{table}'");
        database.client().query_raw(&sql).fetch_all::<String>().await.unwrap().into_iter().collect()
    };
    for (table, relied_on) in [
        (
            "occurrences",
            "tenant ts message level service host source type template_id fingerprint event_id exception_type raw \
             topic_id partition offset record_time occurrence_count ts_missing ts_clamped ts_original",
        ),
        ("dead_letters", "topic_id partition offset record_time reason detail raw"),
        ("totals", "tenant fingerprint window_start total"),
        ("totals_by_minute", "tenant fingerprint minute_start total"),
    ] {
        let columns = columns(table).await;
        for column in relied_on.split_whitespace() {
            assert!(columns.contains(column), "{table} has no {column}");
        }
    }
    assert_eq!(columns("unmatched").await, columns("occurrences").await);
    database.drop().await;
}
