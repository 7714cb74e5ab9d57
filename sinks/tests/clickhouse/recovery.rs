use crate::fixture::{Database, T0, TOPIC, at_place, block, progress, record, with_event_id};
use floodmark_model::progress::Progress;
use floodmark_model::{Coordinates, EventTime, Fingerprint, Level, Occurrence, RecordTime, Rule, TopicId};
use floodmark_sinks::{OccurrenceStore, StoredEvent};
use std::collections::BTreeMap;

type Counts = BTreeMap<(String, u128, i64), u64>;

async fn counts(database: &Database, rule: &Rule, since: i64, progress: &Progress) -> Counts {
    let mut counts = Counts::new();
    let each = |count: floodmark_sinks::BucketCount| {
        let key = (count.tenant.to_string(), count.fingerprint.bits(), count.bucket_start.0);
        assert!(counts.insert(key, count.count).is_none(), "a bucket is answered once");
    };
    database.store.bucket_counts(rule, EventTime(since), progress, each).await.unwrap();
    counts
}

fn of_acme(buckets: impl IntoIterator<Item = (i64, u64)>) -> Counts {
    buckets.into_iter().map(|(start, count)| (("acme".into(), 1, start), count)).collect()
}

#[tokio::test]
async fn buckets_before_1970_are_floored() {
    let database = Database::migrated("before_1970").await;
    let times = [-300_001, -300_000, -30_001, -30_000, -1, 0, 29_999, 30_000];
    let records: Vec<_> = (0..).zip(times).map(|(n, ts)| at_place(ts, 0, n)).collect();
    database.store.insert(&[block(&records)]).await.unwrap();
    let all = progress([(0, 100)]);
    let expected = of_acme([(-330_000, 1), (-300_000, 1), (-60_000, 1), (-30_000, 2), (0, 2), (30_000, 1)]);
    assert_eq!(counts(&database, &Rule::default(), i64::MIN, &all).await, expected);
    let expected = of_acme([(-30_000, 1), (0, 2), (30_000, 1)]);
    assert_eq!(counts(&database, &Rule::default(), -1, &all).await, expected, "ts >= since");
    // Buckets of 70 s: 1900 does not begin one.
    let odd = Rule { window_ms: 210_000, buckets: 3, ..Rule::default() };
    let expected = of_acme([(-350_000, 2), (-70_000, 3), (0, 3)]);
    assert_eq!(counts(&database, &odd, i64::MIN, &all).await, expected);
    database.drop().await;
}

#[tokio::test]
async fn counts_are_cut_at_the_committed_offsets() {
    let database = Database::migrated("cut").await;
    let mut records: Vec<_> = (0..6).flat_map(|offset| (0..3).map(move |p| at_place(T0 + offset, p, offset))).collect();
    let mut other_topic = at_place(T0, 0, 0);
    other_topic.at.topic_id = TopicId([9; 16]);
    other_topic.identity = floodmark_model::Identity::of_record(other_topic.at);
    records.push(other_topic);
    database.store.insert(&[block(&records)]).await.unwrap();
    let rule = Rule::default();
    let committed = |progress: Progress| {
        let (database, rule) = (&database, &rule);
        async move { counts(database, rule, T0, &progress).await.into_values().sum::<u64>() }
    };
    assert_eq!(committed(progress([(0, 2), (1, 6)])).await, 8, "partition 2 and the other topic are not covered");
    assert_eq!(committed(progress([(0, 0)])).await, 0);
    assert_eq!(committed(Progress::default()).await, 0);
    // More partitions than one parameter's text may hold.
    assert_eq!(committed(progress((0..2_500).map(|partition| (partition, 3)))).await, 9);
    database.drop().await;
}

#[tokio::test]
async fn the_cut_comes_after_replacing() {
    let database = Database::migrated("cut_after_final").await;
    // One occurrence, sent twice: the copy that stays is in partition 1 and not committed, the other one is.
    let mut loser = with_event_id(at_place(T0, 0, 0), "order-17");
    loser.record_time = RecordTime(T0 + 2);
    let mut winner = with_event_id(at_place(T0, 1, 50), "order-17");
    winner.record_time = RecordTime(T0 + 1);
    database.store.insert(&[block([&loser])]).await.unwrap();
    database.store.insert(&[block([&winner])]).await.unwrap();
    let cut = progress([(0, 10), (1, 10)]);
    let rule = Rule::default();
    assert_eq!(counts(&database, &rule, T0, &cut).await, Counts::new(), "it is counted when it is read again");
    let all = progress([(0, 10), (1, 51)]);
    assert_eq!(counts(&database, &rule, T0, &all).await, of_acme([(T0, 1)]));
    database.drop().await;
}

#[tokio::test]
async fn a_rule_counts_its_tenants_services_and_levels() {
    let database = Database::migrated("rule_filter").await;
    let hostile = "a'); DROP TABLE occurrences; -- \\";
    let mut records = Vec::new();
    for (tenant, service, level) in [
        ("acme", "checkout", Level::Warn),
        ("acme", "cart", Level::Fatal),
        (hostile, "checkout", Level::Error),
        ("acme", "checkout", Level::Info),
        ("other", "it's", Level::Error),
    ] {
        let mut occurrence = at_place(T0, 0, records.len() as i64);
        (occurrence.tenant, occurrence.service, occurrence.level) = (tenant.into(), service.into(), level);
        records.push(occurrence);
    }
    database.store.insert(&[block(&records)]).await.unwrap();
    let all = progress([(0, 100)]);
    for (tenants, services, level) in [
        (vec![], vec![], Level::Warn),
        (vec![], vec![], Level::Trace),
        (vec!["acme"], vec![], Level::Warn),
        (vec![hostile, "other"], vec![], Level::Warn),
        (vec![], vec!["it's", "cart"], Level::Warn),
        (vec!["acme"], vec!["checkout"], Level::Error),
        (vec!["nobody"], vec![], Level::Trace),
    ] {
        let mut rule = Rule::default();
        rule.matches.tenants = tenants.into_iter().map(String::from).collect();
        rule.matches.services = services.into_iter().map(String::from).collect();
        rule.matches.level = level;
        let expected = model_counts(&rule, &records, &all);
        assert_eq!(counts(&database, &rule, T0, &all).await, expected, "{rule:?}");
    }
    database.drop().await;
}

#[tokio::test]
async fn counts_agree_with_a_plain_model_over_many_records_and_repeats() {
    let database = Database::migrated("model").await;
    let mut state = 17u64;
    let mut next = |bound: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as i64).rem_euclid(bound)
    };
    let mut records = Vec::new();
    for n in 0..3_000 {
        let mut occurrence = at_place(next(2_000_000) - 1_000_000, next(4) as i32, n);
        occurrence.tenant = format!("tenant-{}", next(3)).into();
        occurrence.fingerprint = Fingerprint::from_bits(next(20) as u128);
        occurrence.level = Level::from_number(next(6) as u8 + 1).unwrap();
        records.push(occurrence);
    }
    for chunk in records.chunks(700) {
        database.store.insert(&[block(chunk)]).await.unwrap();
        database.store.insert(&[block(chunk.iter().step_by(3))]).await.unwrap();
    }
    let rule = Rule { window_ms: 420_000, buckets: 6, ..Rule::default() };
    let cut = progress([(0, 3_000), (1, 1_500), (3, 10)]);
    let expected = model_counts(&rule, &records, &cut);
    assert!(expected.len() > 300);
    assert_eq!(counts(&database, &rule, i64::MIN, &cut).await, expected);
    database.drop().await;
}

fn model_counts(rule: &Rule, records: &[Occurrence<'_>], progress: &Progress) -> Counts {
    let mut counts = Counts::new();
    for record in records {
        let at = floodmark_model::progress::PartitionKey { topic_id: TOPIC, partition: record.at.partition };
        if rule.counts(record) && progress.covers(at, record.at.offset) {
            let bucket = record.ts.0.div_euclid(rule.bucket_ms()) * rule.bucket_ms();
            *counts.entry((record.tenant.to_string(), record.fingerprint.bits(), bucket)).or_default() += 1;
        }
    }
    counts
}

#[tokio::test]
async fn i4_events_name_the_owner_that_stays() {
    let database = Database::migrated("events").await;
    let owner = with_event_id(at_place(T0 + 1, 0, 3), "order-1");
    let mut retry = with_event_id(at_place(T0 + 1, 2, 9), "order-1");
    retry.record_time = RecordTime(owner.record_time.0 + 1);
    let before = with_event_id(at_place(T0 - 1, 0, 1), "order-0");
    let uncommitted = with_event_id(at_place(T0 + 2, 0, 7), "order-2");
    database.store.insert(&[block([&record(5), &retry, &owner, &before, &uncommitted])]).await.unwrap();
    let mut events = Vec::new();
    let cut = progress([(0, 7), (2, 100)]);
    database.store.events(EventTime(T0), &cut, |event| events.push(event)).await.unwrap();
    let owner_at = Coordinates { topic_id: TOPIC, partition: 0, offset: 3 };
    assert_eq!(events, [StoredEvent { identity: owner.identity, ts: owner.ts, owner: owner_at }]);
    database.drop().await;
}

#[tokio::test]
async fn delete_uncommitted_leaves_what_progress_covers() {
    let database = Database::migrated("delete").await;
    let mut block = block((0..10).map(record).collect::<Vec<_>>().iter());
    block.push_unmatched(&at_place(T0, 1, 4));
    block.push_unmatched(&at_place(T0, 1, 5));
    for offset in [10, 30] {
        block.push_dead_letter(&floodmark_model::DeadLetter {
            at: Coordinates { topic_id: TOPIC, partition: 0, offset },
            record_time: RecordTime(T0),
            reason: floodmark_model::DeadReason::MalformedJson,
            detail: "".into(),
            raw: b"{",
        });
    }
    let blocks = [block];
    database.store.insert(&blocks).await.unwrap();
    database.store.delete_uncommitted(&progress([(0, 20), (1, 5)])).await.unwrap();
    let rows = async |table: &str| database.number(&format!("SELECT count() FROM {table} FINAL")).await;
    assert_eq!((rows("occurrences").await, rows("unmatched").await, rows("dead_letters").await), (10, 1, 1));
    database.store.delete_uncommitted(&progress([(0, 4)])).await.unwrap();
    assert_eq!((rows("occurrences").await, rows("unmatched").await, rows("dead_letters").await), (4, 0, 0));
    // The same rows are read again and stored again.
    database.store.insert(&blocks).await.unwrap();
    assert_eq!((rows("occurrences").await, rows("unmatched").await, rows("dead_letters").await), (10, 2, 2));
    database.store.delete_uncommitted(&Progress::default()).await.unwrap();
    assert_eq!(rows("occurrences").await, 0);
    database.drop().await;
}
