use crate::fixture::{Database, T0, TOPIC, at_place, block, record, total, with_event_id};
use floodmark_model::{Coordinates, DeadLetter, DeadReason, Occurrence, RecordTime};
use floodmark_sinks::OccurrenceStore;
use floodmark_sinks::rows::RowBlock;

#[tokio::test]
async fn i1_the_same_rows_again_change_nothing() {
    let database = Database::migrated("again").await;
    let records: Vec<_> = (0..10).map(record).collect();
    let blocks = [block(&records), block(&records[3..])];
    database.store.insert(&blocks).await.unwrap();
    database.store.insert(&blocks).await.unwrap();
    assert_eq!(total(&database, T0).await, 10);
    // Also inside one part, which is not replaced when it is written.
    let twice: Vec<_> = records.iter().chain(&records).cloned().collect();
    database.store.insert(&[block(&twice)]).await.unwrap();
    assert_eq!(total(&database, T0).await, 10);
    database.drop().await;
}

#[tokio::test]
async fn i2_of_one_identity_the_least_record_time_partition_and_offset_stays() {
    let database = Database::migrated("least_stays").await;
    let tried = |record_time: i64, partition: i32, offset: i64| {
        let mut occurrence = with_event_id(at_place(T0, partition, offset), "order-17");
        occurrence.record_time = RecordTime(T0 + record_time);
        occurrence
    };
    let stays = async || {
        let sql = "SELECT toString(tuple(toUnixTimestamp64Milli(record_time), `partition`, `offset`)) \
                   FROM occurrences FINAL";
        database.client().query_raw(sql).fetch_all::<String>().await.unwrap()
    };
    let is_least =
        |record_time: i64, partition: i32, offset: i64| vec![format!("({},{partition},{offset})", T0 + record_time)];
    database.store.insert(&[block([&tried(9, 0, 0)])]).await.unwrap();
    database.store.insert(&[block([&tried(7, 3, 5), &tried(8, 0, 0)])]).await.unwrap();
    assert_eq!(stays().await, is_least(7, 3, 5));
    database.store.insert(&[block([&tried(7, 2, 9)])]).await.unwrap();
    database.store.insert(&[block([&tried(7, 2, 8), &tried(7, 4, 1)])]).await.unwrap();
    database.store.insert(&[block([&tried(10, 0, 0)])]).await.unwrap();
    assert_eq!(stays().await, is_least(7, 2, 8));
    database.client().query_raw("OPTIMIZE TABLE occurrences FINAL").execute().await.unwrap();
    assert_eq!(stays().await, is_least(7, 2, 8), "merged like read");
    assert_eq!(total(&database, T0).await, 1);
    database.drop().await;
}

#[tokio::test]
async fn every_column_arrives_as_it_was_sent() {
    let database = Database::migrated("columns_arrive").await;
    let mut sent = with_event_id(at_place(-1, 7, 1 << 40), "e-1");
    sent.tenant = "a|b'\\ \u{0}\u{1F525}".into();
    sent.ts_missing = true;
    sent.ts_original = "yesterday".into();
    sent.message = "line\nline\ttab\u{0}".into();
    sent.exception_type = "java.io.IOException".into();
    sent.template_id = "t-1".into();
    sent.raw = vec![0u8, 0xff, b'\n', b'\'', b'\\'].into();
    database.store.insert(&[block([&sent])]).await.unwrap();

    let Occurrence { tenant, fingerprint, service, host, source, kind, .. } = sent.clone();
    let sql = "SELECT tenant = {tenant:String} AND fingerprint = {fingerprint:String} \
        AND toUnixTimestamp64Milli(ts) = -1 AND ts_missing AND NOT ts_clamped AND ts_original = 'yesterday' \
        AND level = 'error' AND service = {service:String} AND host = {host:String} AND source = {source:String} \
        AND type = {type:String} AND template_id = 't-1' AND event_id = 'e-1' \
        AND hex(message) = '6C696E650A6C696E650974616200' AND exception_type = 'java.io.IOException' \
        AND hex(raw) = '00FF0A275C' AND topic_id = {topic_id:UUID} AND `partition` = 7 \
        AND `offset` = 1099511627776 AND toUnixTimestamp64Milli(record_time) = 4 AND occurrence_count = 1 \
        AND identity = {identity:UInt128} FROM occurrences";
    let query = database.client().query_raw(sql);
    let query = query.param("tenant", &tenant).param("fingerprint", fingerprint.to_string());
    let query = query.param("service", &service).param("host", &host).param("source", &source).param("type", &kind);
    let query = query.param("topic_id", TOPIC.to_string()).param("identity", sent.identity.0);
    assert!(query.fetch_one::<bool>().await.unwrap());
    database.drop().await;
}

#[tokio::test]
async fn an_insert_over_many_days_keeps_within_the_partition_limit() {
    const DAY_MS: i64 = 86_400_000;
    let database = Database::migrated("many_days").await;
    let records: Vec<_> = (0..240).map(|n| at_place(T0 + (n / 2) * DAY_MS, 0, n)).collect();
    let blocks: Vec<RowBlock> = records.chunks(80).map(block).collect();
    database.store.insert(&blocks).await.unwrap();
    assert_eq!(database.number("SELECT count() FROM occurrences FINAL").await, 240);
    assert_eq!(database.number("SELECT uniqExact(_partition_id) FROM occurrences").await, 120);
    database.drop().await;
}

#[tokio::test]
async fn q48_unmatched_rows_are_kept_apart_and_in_no_total() {
    let database = Database::migrated("unmatched").await;
    let mut block = block([&record(0)]);
    block.push_unmatched(&record(1));
    block.push_unmatched(&record(1));
    database.store.insert(&[block]).await.unwrap();
    assert_eq!(database.number("SELECT count() FROM unmatched FINAL").await, 1);
    assert_eq!(total(&database, T0).await, 1);
    assert_eq!(database.number("SELECT sum(total) FROM totals").await, 1);
    database.drop().await;
}

#[tokio::test]
async fn g2_dead_letters_are_kept_once_with_reason_and_bytes() {
    let database = Database::migrated("dead_letters").await;
    let raw = vec![0xffu8; DeadLetter::RAW_BYTES_MAX + 10];
    let mut block = RowBlock::default();
    for (offset, reason) in (0i64..).zip(DeadReason::ALL) {
        block.push_dead_letter(&DeadLetter {
            at: Coordinates { topic_id: TOPIC, partition: 1, offset },
            record_time: RecordTime(T0),
            reason,
            detail: "at byte 7".into(),
            raw: &raw,
        });
    }
    let blocks = [block];
    database.store.insert(&blocks).await.unwrap();
    database.store.insert(&blocks).await.unwrap();
    let sql = "SELECT count() FROM dead_letters FINAL WHERE length(raw) = 65536 AND detail = 'at byte 7' \
               AND toUnixTimestamp64Milli(record_time) = 1772323200000";
    assert_eq!(database.number(sql).await, DeadReason::ALL.len() as u64);
    assert_eq!(database.number("SELECT uniqExact(reason) FROM dead_letters").await, DeadReason::ALL.len() as u64);
    database.drop().await;
}

#[tokio::test]
async fn nothing_to_insert_is_no_request() {
    let database = Database::named("nothing");
    database.store.insert(&[]).await.unwrap();
    database.store.insert(&[RowBlock::default()]).await.unwrap();
}
