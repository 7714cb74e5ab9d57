//! What a replay reads.

use crate::fixture::{Database, at_place, block, with_event_id};
use floodmark_model::{EventTime, Level, Rule};
use floodmark_sinks::{BucketCount, HistoryDay, OccurrenceStore, Selection};

const DAY: i64 = 86_400_000;

async fn counts(database: &Database, selection: Selection) -> Vec<(String, i64, u64)> {
    let mut found = Vec::new();
    let each = |bucket: BucketCount| found.push((bucket.tenant.to_string(), bucket.bucket_start.0, bucket.count));
    database.store.history_counts(&Rule::default(), 7_000, &selection, each).await.unwrap();
    found.sort();
    found
}

#[tokio::test]
async fn history_counts_each_occurrence_once_in_buckets_of_any_length() {
    let database = Database::migrated("history_counts").await;
    let mut records: Vec<_> = (0..).zip([-1, 0, 6_999, 7_000]).map(|(n, ts)| at_place(ts, 0, n)).collect();
    records.push(with_event_id(at_place(0, 0, 4), "a"));
    records.push(with_event_id(at_place(0, 0, 9), "a"));
    let mut other = at_place(0, 0, 5);
    other.tenant = "o'ther".into();
    let mut unmatched = at_place(0, 0, 6);
    unmatched.level = Level::Info;
    records.extend([other, unmatched]);
    for _ in 0..2 {
        database.store.insert(&[block(&records)]).await.unwrap();
    }
    let of = |tenant: &str, start: i64, count: u64| (tenant.to_owned(), start, count);
    let all = [of("acme", -7_000, 1), of("acme", 0, 3), of("acme", 7_000, 1), of("o'ther", 0, 1)];
    assert_eq!(counts(&database, Selection::default()).await, all);
    let since = Selection { since: Some(EventTime(0)), until: Some(EventTime(7_000)), tenant: Some("o'ther".into()) };
    assert_eq!(counts(&database, since).await, all[3..]);
    database.drop().await;
}

#[tokio::test]
async fn history_days_say_how_much_there_is() {
    let database = Database::migrated("history_days").await;
    let records: Vec<_> = (0..).zip([-1, 5, DAY - 1, 3 * DAY]).map(|(n, ts)| at_place(ts, 0, n)).collect();
    database.store.insert(&[block(&records)]).await.unwrap();
    let day = |start: i64, rows, first: i64, last: i64| HistoryDay {
        start: EventTime(start),
        rows,
        first_ts: EventTime(first),
        last_ts: EventTime(last),
    };
    let all = [day(-DAY, 1, -1, -1), day(0, 2, 5, DAY - 1), day(3 * DAY, 1, 3 * DAY, 3 * DAY)];
    assert_eq!(database.store.history_days(EventTime::EARLIEST, EventTime::LATEST).await.unwrap(), all);
    let some = database.store.history_days(EventTime(6), EventTime(3 * DAY)).await.unwrap();
    assert_eq!(some, [day(0, 1, DAY - 1, DAY - 1)]);
    database.drop().await;
}
