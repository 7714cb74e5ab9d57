//! Every occurrence once, and what is counted of it.

use crate::builders::*;
use floodmark_model::progress::Progress;
use floodmark_model::rule::RuleMatch;
use floodmark_model::{DeadLetter, DeadReason, EventTime, Level, Occurrence, RecordTime, Rule};
use floodmark_sinks::rows::RowBlock;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{BucketCount, KeySpan, OccurrenceStore, Selection, StoredEvent};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

async fn buckets(store: &SqliteStore, rule: &Rule, since: i64, progress: &Progress) -> Vec<(i64, u64)> {
    let mut found = Vec::new();
    let each = |bucket: BucketCount| found.push((bucket.bucket_start.0, bucket.count));
    store.bucket_counts(rule, EventTime(since), progress, each).await.unwrap();
    found.sort_unstable();
    found
}

async fn events(store: &SqliteStore, since: i64, progress: &Progress) -> Vec<StoredEvent> {
    let mut found = Vec::new();
    store.events(EventTime(since), progress, |event| found.push(event)).await.unwrap();
    found.sort_by_key(|event| event.owner);
    found
}

#[tokio::test]
async fn i1_a_record_that_is_read_again_is_stored_once() {
    let store = SqliteStore::open_in_memory().unwrap();
    let rows = block(&[occurrence(0, 0), occurrence(1, 0), occurrence(2, 0)]);
    store.insert(std::slice::from_ref(&rows)).await.unwrap();
    store.insert(&[rows.clone(), rows]).await.unwrap();
    assert_eq!(totals(&store).await, [(0, 3)]);
}

#[tokio::test]
async fn i2_q35_an_event_is_stored_once_whatever_its_time() {
    let store = SqliteStore::open_in_memory().unwrap();
    insert(&store, &[event(5, 700_000, "a"), event(9, 10, "a"), event(7, 10, "b"), occurrence(8, 10)]).await;
    assert_eq!(totals(&store).await, [(0, 2), (600_000, 1)]);
}

#[tokio::test]
async fn the_record_with_the_least_time_partition_and_offset_stays_in_whatever_order_they_come() {
    let named = |occurrence: Occurrence<'static>, host: &'static str| Occurrence { host: host.into(), ..occurrence };
    let mut other_partition = event(0, 20, "a");
    other_partition.at.partition = 1;
    let later = Occurrence { record_time: RecordTime(1_000_001), ..event(1, 40, "a") };
    let records = [
        named(event(4, 10, "a"), "least"),
        named(event(5, 30, "a"), "offset"),
        named(other_partition, "partition"),
        named(later, "time"),
    ];
    for first in 0..records.len() {
        let store = SqliteStore::open_in_memory().unwrap();
        let mut order = records.to_vec();
        order.rotate_left(first);
        for record in &order {
            insert(&store, std::slice::from_ref(record)).await;
        }
        let mut progress = progress(100);
        progress.partitions.extend(progress.partitions.clone().into_iter().map(|(mut key, at)| {
            key.partition = 1;
            (key, at)
        }));
        let found = events(&store, i64::MIN, &progress).await;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].ts, found[0].owner), (EventTime(10), records[0].at), "rotated by {first}");
        assert_eq!(found[0].identity, records[0].identity);
    }
}

#[tokio::test]
async fn what_is_stored_is_what_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let record = Occurrence {
        ts_missing: true,
        ts_original: "tomorrow".into(),
        message: "a\0b é".into(),
        kind: "Timeout".into(),
        raw: b"\xff\x00raw".as_slice().into(),
        ..event(3, -1, "a")
    };
    insert(&store, std::slice::from_ref(&record)).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    let found: (String, i64, bool, String, String, String, Vec<u8>, i64) = file
        .query_row(
            "SELECT fingerprint, ts, ts_missing, ts_original, message, type, raw, ten_seconds FROM occurrences",
            [],
            |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?, r.get(6)?, r.get(7)?)),
        )
        .unwrap();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        found,
        (
            text("00000000000000000000000000000001"),
            -1,
            true,
            text("tomorrow"),
            text("a\0b é"),
            text("Timeout"),
            b"\xff\x00raw".to_vec(),
            -1
        )
    );
}

#[tokio::test]
async fn g2_dead_letters_and_unmatched_records_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut rows = RowBlock::default();
    rows.push_unmatched(&occurrence(0, 0));
    let (at, record_time) = (occurrence(1, 0).at, RecordTime(5));
    let (reason, detail) = (DeadReason::MalformedJson, "at byte 3".into());
    rows.push_dead_letter(&DeadLetter { at, record_time, reason, detail, raw: b"{x" });
    store.insert(&[rows.clone()]).await.unwrap();
    store.insert(&[rows]).await.unwrap();

    assert_eq!(totals(&store).await, []);
    let file = rusqlite::Connection::open(&path).unwrap();
    let unmatched: i64 = file.query_row("SELECT count(*) FROM unmatched", [], |row| row.get(0)).unwrap();
    assert_eq!(unmatched, 1);
    let dead: Vec<(String, String, Vec<u8>)> = file
        .prepare("SELECT reason, detail, raw FROM dead_letters")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(dead, [("malformed_json".into(), "at byte 3".into(), b"{x".to_vec())]);
}

#[tokio::test]
async fn times_before_1970_are_floored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let times = [-1, -60_000, -60_001, -300_000, -300_001, 0];
    let rows: Vec<_> = (0..).zip(times).map(|(offset, ts)| occurrence(offset, ts)).collect();
    insert(&store, &rows).await;
    assert_eq!(totals(&store).await, [(-600_000, 1), (-300_000, 4), (0, 1)]);
    assert_eq!(
        buckets(&store, &Rule::default(), i64::MIN, &progress(100)).await,
        [(-330_000, 1), (-300_000, 1), (-90_000, 1), (-60_000, 1), (-30_000, 1), (0, 1)]
    );
    let file = rusqlite::Connection::open(&path).unwrap();
    let view = |name: &str, start: &str| -> Vec<(String, String, i64, i64)> {
        file.prepare(&format!("SELECT tenant, fingerprint, {start}, total FROM {name} ORDER BY {start}"))
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    let row = |start, total| ("acme".to_owned(), fingerprint(1).to_string(), start, total);
    assert_eq!(view("totals", "window_start"), [row(-600_000, 1), row(-300_000, 4), row(0, 1)]);
    assert_eq!(
        view("totals_by_minute", "minute_start"),
        [row(-360_000, 1), row(-300_000, 1), row(-120_000, 1), row(-60_000, 2), row(0, 1)]
    );
}

#[tokio::test]
async fn a_start_reads_nothing_above_the_committed_offsets() {
    let store = SqliteStore::open_in_memory().unwrap();
    insert(&store, &[occurrence(0, 10), event(1, 10, "a"), occurrence(2, 10), event(3, 10, "b")]).await;
    let rule = Rule::default();
    for (next_offset, count, covered) in [(0, 0, 0), (1, 1, 0), (2, 2, 1), (3, 3, 1), (4, 4, 2)] {
        let progress = progress(next_offset);
        let counted: u64 = buckets(&store, &rule, 0, &progress).await.iter().map(|bucket| bucket.1).sum();
        assert_eq!(counted, count, "next offset {next_offset}");
        assert_eq!(events(&store, 0, &progress).await.len(), covered, "next offset {next_offset}");
    }
    assert_eq!(buckets(&store, &rule, 0, &Progress::default()).await, []);
    assert_eq!(events(&store, 11, &progress(4)).await, [], "before `since`");
    assert_eq!(buckets(&store, &rule, 11, &progress(4)).await, [], "before `since`");
}

#[tokio::test]
async fn deleting_what_is_uncommitted_leaves_what_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut other = occurrence(0, 10);
    other.at.partition = 1;
    let mut rows = block(&[occurrence(0, 10), event(1, 10, "a"), occurrence(2, 10), event(3, 10, "b"), other]);
    for offset in [0, 3] {
        rows.push_unmatched(&occurrence(offset, 10));
        let at = occurrence(offset, 0).at;
        let (reason, record_time) = (DeadReason::EmptyRecord, RecordTime(0));
        rows.push_dead_letter(&DeadLetter { at, record_time, reason, detail: "".into(), raw: b"" });
    }
    store.insert(&[rows]).await.unwrap();
    store.delete_uncommitted(&progress(2)).await.unwrap();
    store.delete_uncommitted(&progress(2)).await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    for (table, left) in [("occurrences", 2), ("unmatched", 1), ("dead_letters", 1)] {
        let sql = format!("SELECT count(*), max(\"offset\") FROM {table}");
        let (count, last): (i64, i64) = file.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(count, left, "{table}");
        assert!(last < 2, "{table}");
    }
}

#[tokio::test]
async fn a_rule_counts_what_it_matches_and_nothing_else() {
    let store = SqliteStore::open_in_memory().unwrap();
    let mut offset = 0;
    let mut rows = Vec::new();
    for tenant in ["acme", "it's \"two\""] {
        for service in ["checkout", ""] {
            for level in [Level::Info, Level::Warn, Level::Fatal] {
                rows.push(Occurrence {
                    tenant: tenant.into(),
                    service: service.into(),
                    level,
                    ..occurrence(offset, 0)
                });
                offset += 1;
            }
        }
    }
    insert(&store, &rows).await;
    for tenants in [vec![], vec!["acme"], vec!["it's \"two\"", "none"], vec!["none"]] {
        for services in [vec![], vec!["checkout"], vec![""]] {
            for level in [Level::Trace, Level::Warn, Level::Fatal] {
                let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
                let matches = RuleMatch { tenants: list(&tenants), services: list(&services), level };
                let rule = Rule { matches, threshold: 1, ..Rule::default() };
                let expected = rows.iter().filter(|row| rule.counts(row)).count() as u64;
                let counted = |counts: Vec<u64>| counts.iter().sum::<u64>();
                let totals = store.totals(&rule, &Selection::default()).await.unwrap();
                assert_eq!(counted(totals.iter().map(|row| row.total).collect()), expected, "{rule:?}");
                let buckets = buckets(&store, &rule, 0, &progress(100)).await;
                assert_eq!(counted(buckets.iter().map(|bucket| bucket.1).collect()), expected, "{rule:?}");
                let keys: BTreeSet<_> = rows.iter().filter(|row| rule.counts(row)).map(|row| &*row.tenant).collect();
                let candidates = store.candidates(&rule, EventTime(0)).await.unwrap();
                assert!(candidates.iter().map(|key| &*key.0).eq(keys), "{rule:?}");
                let facts = store.window_facts(&rule, &[key(0)]).await.unwrap();
                let of_acme = rows.iter().filter(|row| row.tenant == "acme" && rule.counts(row)).count() as u64;
                assert_eq!(facts[0].total, of_acme, "{rule:?}");
            }
        }
    }
}

#[tokio::test]
async fn totals_are_selected_by_tenant_and_window_and_sorted() {
    let store = SqliteStore::open_in_memory().unwrap();
    let mut rows = Vec::new();
    for (offset, (tenant, bits, ts)) in
        (0..).zip([("b", 2, 0), ("b", 1, 600_000), ("a", 1, 299_999), ("a", 1, 300_000), ("b", 1, 0)])
    {
        let fingerprint = fingerprint(bits);
        rows.push(Occurrence { tenant: tenant.into(), fingerprint, ..occurrence(offset, ts) });
    }
    insert(&store, &rows).await;
    let select = async |tenant: Option<&str>, since: Option<i64>, until: Option<i64>| {
        let tenant = tenant.map(str::to_owned);
        let selection = Selection { tenant, since: since.map(EventTime), until: until.map(EventTime) };
        let rows = store.totals(&Rule::default(), &selection).await.unwrap();
        let short = |hex: &str| u128::from_str_radix(hex, 16).unwrap();
        rows.iter().map(|row| (row.tenant.clone(), short(&row.fingerprint), row.window_start.0)).collect::<Vec<_>>()
    };
    let row = |tenant: &str, bits: u128, start: i64| (tenant.to_owned(), bits, start);
    assert_eq!(
        select(None, None, None).await,
        [row("a", 1, 0), row("a", 1, 300_000), row("b", 1, 0), row("b", 1, 600_000), row("b", 2, 0)]
    );
    assert_eq!(select(Some("a"), None, Some(300_000)).await, [row("a", 1, 0)]);
    assert_eq!(select(None, Some(1), None).await, [row("a", 1, 300_000), row("b", 1, 600_000)]);
}

#[tokio::test]
async fn w10_facts_are_of_one_window_and_its_samples_the_most_frequent_messages() {
    let store = SqliteStore::open_in_memory().unwrap();
    let mut rows = vec![occurrence(1_000, -1), occurrence(1_001, 300_000)];
    let mut offset = 0;
    for message in 0..12 {
        for _ in 0..=message {
            let message = format!("message {message}").into();
            rows.push(Occurrence { message, ..occurrence(offset, 10 * offset) });
            offset += 1;
        }
    }
    insert(&store, &rows).await;
    let unknown = key(900_000);
    let facts = store.window_facts(&Rule::default(), &[unknown.clone(), key(0)]).await.unwrap();
    assert_eq!((facts[0].key.clone(), facts[0].total, facts[0].samples.len()), (unknown, 0, 0));
    assert_eq!((facts[1].total, facts[1].first_ts, facts[1].last_ts), (78, EventTime(0), EventTime(770)));
    let counts: Vec<_> = facts[1].samples.iter().map(|sample| (sample.message.as_str(), sample.count)).collect();
    assert_eq!(counts.len(), 10);
    assert_eq!((counts[0], counts[9]), (("message 11", 12), ("message 2", 3)));
}

#[tokio::test]
async fn a_long_message_is_cut_and_those_that_differ_behind_the_cut_are_one_sample() {
    let store = SqliteStore::open_in_memory().unwrap();
    let long = "x".repeat(1_024);
    let rows: Vec<_> = (0..3)
        .map(|offset| Occurrence { message: format!("{long}{offset}").into(), ..occurrence(offset, 0) })
        .collect();
    insert(&store, &rows).await;
    let facts = store.window_facts(&Rule::default(), &[key(0)]).await.unwrap();
    assert_eq!(facts[0].samples.len(), 1);
    assert_eq!((facts[0].samples[0].message.as_str(), facts[0].samples[0].count), (long.as_str(), 3));
}

#[tokio::test]
async fn an_answer_longer_than_a_batch_is_whole() {
    let store = SqliteStore::open_in_memory().unwrap();
    let rows: Vec<_> = (0..5_000).map(|offset| occurrence(offset, offset * 30_000)).collect();
    insert(&store, &rows).await;
    let expected: Vec<_> = (0..5_000).map(|bucket| (bucket * 30_000, 1)).collect();
    assert_eq!(buckets(&store, &Rule::default(), 0, &progress(5_000)).await, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Window lengths that five minutes do not divide, times on both sides of 1970.
    #[test]
    fn counts_and_totals_are_those_of_the_arithmetic(
        times in proptest::collection::vec(-2_000_000..2_000_000i64, 1..80),
        window_ms in proptest::sample::select(vec![60_000, 300_000, 420_000, 900_000]),
        since in -2_000_000..2_000_000i64,
        next_offset in 0..80i64,
    ) {
        let rule = Rule { window_ms, threshold: 2, ..Rule::default() };
        let floored = |ts: i64, size: i64| ts.div_euclid(size) * size;
        let mut expected_buckets: BTreeMap<i64, u64> = BTreeMap::new();
        let mut expected_totals: BTreeMap<i64, u64> = BTreeMap::new();
        let mut every_bucket: BTreeMap<i64, u64> = BTreeMap::new();
        for (offset, &ts) in (0..).zip(&times) {
            *every_bucket.entry(floored(ts, rule.bucket_ms())).or_default() += 1;
            *expected_totals.entry(floored(ts, window_ms)).or_default() += 1;
            if ts >= since && offset < next_offset {
                *expected_buckets.entry(floored(ts, rule.bucket_ms())).or_default() += 1;
            }
        }
        let rows: Vec<_> = (0..).zip(&times).map(|(offset, &ts)| occurrence(offset, ts)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open_in_memory().unwrap();
            insert(&store, &rows).await;
            let found = buckets(&store, &rule, since, &progress(next_offset)).await;
            prop_assert_eq!(found, expected_buckets.into_iter().collect::<Vec<_>>());
            for row in store.totals(&rule, &Selection::default()).await.unwrap() {
                let total = expected_totals.remove(&row.window_start.0);
                prop_assert_eq!(total, Some(row.total));
                let mut key = key(row.window_start.0);
                key.window.size_ms = window_ms;
                let facts = store.window_facts(&rule, &[key.clone()]).await.unwrap();
                prop_assert_eq!(facts[0].total, row.total);
                let (from, until) = (key.window.previous().start, key.window.next().end());
                let span = KeySpan { tenant: key.tenant, fingerprint: key.fingerprint, from, until };
                let found = store.key_counts(&rule, &[span]).await.unwrap();
                let found: Vec<_> = found.iter().map(|bucket| (bucket.bucket_start.0, bucket.count)).collect();
                let expected = every_bucket.range(from.0..until.0);
                prop_assert_eq!(found, expected.map(|(start, count)| (*start, *count)).collect::<Vec<_>>());
            }
            prop_assert!(expected_totals.is_empty());
            Ok(())
        })?;
    }
}
