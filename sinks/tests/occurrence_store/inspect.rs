//! What people and checks ask (`floodmark explain`, `floodmark reconcile`).

use super::records::{MINUTE, Records, TOPIC, WINDOW};
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::{DeadLetter, DeadReason, EventTime, Fingerprint, Identity, Level, RecordTime, Rule};
use floodmark_sinks::OccurrenceStore;
use floodmark_sinks::inspect::{InspectOccurrences, KeyStretch, Seen, SettledCount};
use floodmark_sinks::rows::RowBlock;
use std::collections::BTreeMap;

const BUCKET: i64 = 30_000;

fn below(next_offset: i64) -> Progress {
    let at = PartitionProgress { next_offset, watermark: EventTime(0), tallies: Tallies::default() };
    Progress { partitions: [(PartitionKey { topic_id: TOPIC, partition: 0 }, at)].into(), ..Progress::default() }
}

fn stretch(fingerprint: u128, from: i64, until: i64) -> KeyStretch<'static> {
    let fingerprint = Fingerprint::from_bits(fingerprint);
    KeyStretch { tenant: "acme", fingerprint, from: EventTime(from), until: EventTime(until) }
}

/// Fingerprints of one tenant and time by their first digits.
pub(crate) async fn fingerprints_are_found_by_their_first_digits(store: &(impl OccurrenceStore + InspectOccurrences)) {
    let mut records = Records::default();
    for fingerprint in [0xabc << 116, 0xabd << 116, (0xabc << 116) + 1, 0xb << 124] {
        records.put("acme", fingerprint, [-1, 5]);
    }
    records.put("beta", (0xabc << 116) + 2, [5]);
    records.insert(store).await;
    let seen = store.tenants_with(Fingerprint::from_bits((0xabc << 116) + 2)).await.unwrap();
    let expected = Seen { tenant: "beta".into(), first_ts: EventTime(5), last_ts: EventTime(5), count: 1 };
    assert_eq!(seen, [expected]);
    let seen = store.tenants_with(Fingerprint::from_bits(0xabc << 116)).await.unwrap();
    assert_eq!((&*seen[0].tenant, seen[0].first_ts, seen[0].count), ("acme", EventTime(-1), 2));
    assert_eq!(store.tenants_with(Fingerprint::from_bits(1)).await.unwrap(), []);
    let found = async |prefix: &str, from: i64, until: i64| {
        let found = store.fingerprints("acme", prefix, EventTime(from), EventTime(until)).await.unwrap();
        found.into_iter().map(Fingerprint::bits).collect::<Vec<_>>()
    };
    assert_eq!(found("abc", -1, 6).await, [0xabc << 116, (0xabc << 116) + 1]);
    assert_eq!(found("AB", 5, 6).await.len(), 3);
    assert_eq!(found("abc", 0, 5).await, []);
    assert_eq!(found(&format!("abc{}1", "0".repeat(28)), -1, 6).await, [(0xabc << 116) + 1]);
    assert_eq!(found("no hex", -1, 6).await, []);
}

/// The rows of a key, in whole and whatever counts them.
pub(crate) async fn the_rows_of_a_key_are_grouped_by_what_decides_where_they_count(
    store: &(impl OccurrenceStore + InspectOccurrences),
) {
    let mut records = Records::default();
    records.put("acme", 1, [-1, 0, 1, WINDOW - 1, WINDOW]);
    records.put("acme", 2, [0]);
    records.put("beta", 1, [0]);
    records.put("acme", 1, [10, 20]);
    for record in records.0.iter_mut().rev().take(2) {
        record.level = Level::Info;
        record.service = "search".into();
        record.ts_missing = true;
        record.record_time = RecordTime(WINDOW + MINUTE);
    }
    records.insert(store).await;
    let after = RecordTime(WINDOW + MINUTE);
    let groups = store.row_groups(stretch(1, 0, WINDOW), after).await.unwrap();
    let shown = |after| {
        let groups = groups.iter().filter(move |group| group.recorded_after == after);
        groups.map(|group| (group.level, &*group.service, group.ts_missing, group.ts_clamped, group.count)).collect()
    };
    let (early, late): (Vec<_>, Vec<_>) = (shown(false), shown(true));
    assert_eq!(early, [(Level::Error, "checkout", false, false, 3)]);
    assert_eq!(late, [(Level::Info, "search", true, false, 2)]);
}

/// Rows whose own time lay in the future, with it.
pub(crate) async fn clamped_rows_keep_their_own_time(store: &(impl OccurrenceStore + InspectOccurrences)) {
    let mut records = Records::default();
    records.put("acme", 1, [7, -5, 3]);
    for record in &mut records.0[..2] {
        record.ts_clamped = true;
        record.ts_original = "2199-01-01".into();
    }
    records.insert(store).await;
    let rows = store.clamped(stretch(1, -10, 10)).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.ts.0).collect::<Vec<_>>(), [-5, 7]);
    assert!(rows.iter().all(|row| row.ts_original == "2199-01-01" && row.record_time == RecordTime(0)));
    assert_eq!(store.clamped(stretch(2, -10, 10)).await.unwrap(), []);
}

/// Dead letters by the time of their record, and all rows by partition, each counted once.
pub(crate) async fn rows_below_the_committed_offsets_are_counted_by_partition_and_table(
    store: &(impl OccurrenceStore + InspectOccurrences),
) {
    let mut records = Records::default();
    records.put("acme", 1, [0, 1, 2, 3, 3]);
    // Offsets 3 and 4 are one occurrence: the first of them stays.
    for record in &mut records.0[3..] {
        record.identity = Identity::of_event("acme", "an id");
        record.event_id = "an id".into();
    }
    records.insert(store).await;
    let mut block = RowBlock::default();
    let mut other = records.0[0].clone();
    other.at.offset = 9;
    other.identity = Identity::of_record(other.at);
    block.push_unmatched(&other);
    for (offset, time, reason) in
        [(5, -1, DeadReason::EmptyRecord), (6, 0, DeadReason::TooLarge), (7, 1, DeadReason::TooLarge)]
    {
        let at = floodmark_model::Coordinates { offset, ..other.at };
        let (record_time, detail) = (RecordTime(time), "".into());
        block.push_dead_letter(&DeadLetter { at, record_time, reason, detail, raw: b"x" });
    }
    store.insert(std::slice::from_ref(&block)).await.unwrap();
    store.insert(&[block]).await.unwrap();

    let counts = async |next_offset| {
        let rows = store.stored_rows(&below(next_offset)).await.unwrap();
        let counted = |rows: &floodmark_sinks::inspect::StoredRows| {
            (rows.occurrences, rows.with_event_id, rows.unmatched, rows.dead_letters)
        };
        rows.first().map(counted)
    };
    assert_eq!(counts(10).await, Some((4, 1, 1, 3)));
    assert_eq!(counts(7).await, Some((4, 1, 0, 2)));
    assert_eq!(counts(2).await, Some((2, 0, 0, 0)));
    assert_eq!(counts(0).await, None);
    assert_eq!(store.dead_letters_elsewhere(&below(7)).await.unwrap(), 0);
    assert_eq!(store.dead_letters_elsewhere(&Progress::default()).await.unwrap(), 3, "of backfilled inputs");
    let dead = async |from, until| store.dead_letters(RecordTime(from), RecordTime(until)).await.unwrap();
    assert_eq!(dead(-1, 2).await, BTreeMap::from([("empty_record".into(), 1), ("too_large".into(), 2)]));
    assert_eq!(dead(0, 1).await, BTreeMap::from([("too_large".into(), 1)]));
}

/// Counts of a stretch of time, in whole and as far as progress covers them, key by key.
pub(crate) async fn settled_counts_are_sorted_and_cut_at_the_committed_offsets(
    store: &(impl OccurrenceStore + InspectOccurrences),
) {
    let mut records = Records::default();
    records.put("beta", 1, [0]);
    records.put("acme", 2, [BUCKET, -1, 0, WINDOW]);
    records.put("acme", 1, [5, 6, -WINDOW - 1]);
    records.last().level = Level::Info;
    records.put("acme", 1, [-WINDOW - 1, -WINDOW]);
    records.insert(store).await;
    let mut found = Vec::new();
    let each = |count: SettledCount| {
        found.push((
            count.tenant.to_string(),
            count.fingerprint.bits(),
            count.bucket_start.0,
            count.count,
            count.covered,
        ));
    };
    let (from, until) = (EventTime(-WINDOW), EventTime(WINDOW));
    store.settled_counts(&Rule::default(), from, until, &below(6), each).await.unwrap();
    let row =
        |tenant: &str, fingerprint, start, count, covered| (tenant.to_owned(), fingerprint, start, count, covered);
    assert_eq!(
        found,
        [
            row("acme", 1, -WINDOW, 1, 0),
            row("acme", 1, 0, 2, 1),
            row("acme", 2, -BUCKET, 1, 1),
            row("acme", 2, 0, 1, 1),
            row("acme", 2, BUCKET, 1, 1),
            row("beta", 1, 0, 1, 1),
        ]
    );
    let mut none = 0;
    store
        .settled_counts(&Rule::default(), from, until, &Progress::default(), |count| none += count.covered)
        .await
        .unwrap();
    assert_eq!(none, 0, "without progress nothing is covered");
}
