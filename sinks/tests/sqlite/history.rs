//! What a replay reads.

use crate::builders::*;
use floodmark_model::{EventTime, Level, Occurrence, Rule};
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{BucketCount, HistoryDay, OccurrenceStore, Selection};

const DAY: i64 = 86_400_000;

async fn counts(store: &SqliteStore, selection: Selection) -> Vec<(String, i64, u64)> {
    let mut found = Vec::new();
    let each = |bucket: BucketCount| found.push((bucket.tenant.to_string(), bucket.bucket_start.0, bucket.count));
    store.history_counts(&Rule::default(), 7_000, &selection, each).await.unwrap();
    found.sort();
    found
}

#[tokio::test]
async fn history_counts_each_occurrence_once_in_buckets_of_any_length() {
    let store = SqliteStore::open_in_memory().unwrap();
    let other = Occurrence { tenant: "other".into(), ..occurrence(5, 0) };
    let unmatched = Occurrence { level: Level::Info, ..occurrence(6, 0) };
    let records = [
        occurrence(0, -1),
        occurrence(1, 0),
        occurrence(2, 6_999),
        occurrence(3, 7_000),
        event(4, 0, "a"),
        other,
        unmatched,
    ];
    insert(&store, &records).await;
    insert(&store, &records).await;
    insert(&store, &[event(9, 0, "a")]).await;
    let of = |tenant: &str, start: i64, count: u64| (tenant.to_owned(), start, count);
    let all = [of("acme", -7_000, 1), of("acme", 0, 3), of("acme", 7_000, 1), of("other", 0, 1)];
    assert_eq!(counts(&store, Selection::default()).await, all);
    let since = Selection { since: Some(EventTime(0)), until: Some(EventTime(7_000)), tenant: Some("acme".into()) };
    assert_eq!(counts(&store, since).await, all[1..2]);
}

#[tokio::test]
async fn history_days_say_how_much_there_is() {
    let store = SqliteStore::open_in_memory().unwrap();
    insert(&store, &[occurrence(0, -1), occurrence(1, 5), occurrence(2, DAY - 1), occurrence(3, 3 * DAY)]).await;
    let day = |start: i64, rows, first: i64, last: i64| HistoryDay {
        start: EventTime(start),
        rows,
        first_ts: EventTime(first),
        last_ts: EventTime(last),
    };
    let all = [day(-DAY, 1, -1, -1), day(0, 2, 5, DAY - 1), day(3 * DAY, 1, 3 * DAY, 3 * DAY)];
    assert_eq!(store.history_days(EventTime::EARLIEST, EventTime::LATEST).await.unwrap(), all);
    let some = store.history_days(EventTime(6), EventTime(3 * DAY)).await.unwrap();
    assert_eq!(some, [day(0, 1, DAY - 1, DAY - 1)]);
}
