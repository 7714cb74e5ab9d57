//! What a replay reads: how much history there is, and its counts per bucket.

use super::conditions::{Condition, CountedBy, OfTenant, Slots, TimeSpan, all, bind_all};
use super::connection::Connection;
use super::names::Names;
use crate::{BucketCount, HistoryDay, Selection, StoreError};
use clickhouse::Row;
use floodmark_model::{EventTime, Fingerprint, Rule};
use serde::Deserialize;

const DAYS: Slots = Slots::of(86_400_000);

#[derive(Row, Deserialize)]
struct DayRow {
    day: i64,
    rows: u64,
    first_ms: i64,
    last_ms: i64,
}

/// How many rows each day holds, in order. Not `FINAL`: it bounds what will be read, and reads one column.
pub(super) async fn history_days(
    connection: &Connection,
    since: EventTime,
    until: EventTime,
) -> Result<Vec<HistoryDay>, StoreError> {
    let span = TimeSpan { from: since, until: Some(until) };
    let sql = format!(
        "SELECT {} AS day, count() AS rows, toUnixTimestamp64Milli(min(ts)) AS first_ms, \
         toUnixTimestamp64Milli(max(ts)) AS last_ms FROM occurrences WHERE {} GROUP BY day ORDER BY day",
        DAYS.sql(),
        span.sql()
    );
    let day = |row: DayRow| HistoryDay {
        start: DAYS.start(row.day),
        rows: row.rows,
        first_ts: EventTime(row.first_ms),
        last_ts: EventTime(row.last_ms),
    };
    let rows = connection.fetch("read days of history", connection.select(&sql)).await?;
    Ok(rows.into_iter().map(day).collect())
}

#[derive(Row, Deserialize)]
struct HistoryRow<'a> {
    tenant: &'a str,
    fingerprint_bits: u128,
    bucket: i64,
    count: u64,
}

/// Counts per key and bucket of all that `rule` matches.
pub(super) async fn history_counts(
    connection: &Connection,
    rule: &Rule,
    bucket_ms: i64,
    selection: &Selection,
    mut each: impl FnMut(BucketCount) + Send,
) -> Result<(), StoreError> {
    let buckets = Slots::of(bucket_ms);
    let span = TimeSpan { from: selection.since.unwrap_or(EventTime::MIN), until: selection.until };
    let counted = CountedBy(rule);
    let tenant = selection.tenant.as_deref().map(OfTenant);
    let mut conditions: Vec<&dyn Condition> = vec![&span, &counted];
    conditions.extend(tenant.as_ref().map(|tenant| tenant as &dyn Condition));
    let sql = format!(
        "SELECT tenant, fingerprint_bits, {} AS bucket, sum(occurrence_count) AS count \
         FROM occurrences FINAL WHERE {} GROUP BY tenant, fingerprint_bits, bucket",
        buckets.sql(),
        all(&conditions)
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let read = async {
        let mut tenants = Names::default();
        let mut rows = query.fetch::<HistoryRow<'_>>()?;
        while let Some(row) = rows.next().await? {
            each(BucketCount {
                tenant: tenants.shared(row.tenant),
                fingerprint: Fingerprint::from_bits(row.fingerprint_bits),
                bucket_start: buckets.start(row.bucket),
                count: row.count,
            });
        }
        Ok(())
    };
    connection.reading("read history", read).await
}
