//! What the judge asks about keys that memory does not hold: late ones (W-8) and those without a pane (Q46). Nothing is
//! cut at the committed offsets: a row counts from its insertion on.

use super::conditions::{Condition, CountedBy, InSpans, OfTenant, Slots, TimeSpan, all, bind_all, keys_of_query};
use super::connection::Connection;
use super::names::Names;
use crate::{BucketCount, KeySpan, StoreError};
use clickhouse::Row;
use floodmark_model::{EventTime, Fingerprint, Rule, Window};
use serde::Deserialize;
use std::sync::Arc;

/// See [`crate::OccurrenceStore::key_counts`].
pub(super) async fn key_counts(
    connection: &Connection,
    rule: &Rule,
    spans: &[KeySpan],
) -> Result<Vec<BucketCount>, StoreError> {
    let spans = KeySpan::merged(spans);
    let (mut counts, mut tenants) = (Vec::new(), Names::default());
    let mut rest = &*spans;
    while !rest.is_empty() {
        let (chunk, others) = rest.split_at(keys_of_query(rest.iter().map(|span| &*span.tenant)));
        counts.extend(counts_of_chunk(connection, rule, chunk, &mut tenants).await?);
        rest = others;
    }
    // In order: the spans are, and none overlaps another.
    Ok(counts)
}

#[derive(Row, Deserialize)]
struct BucketRow {
    tenant: String,
    fingerprint_bits: u128,
    bucket: i64,
    count: u64,
}

/// Counts first and looks the spans up afterwards: there are fewer buckets than occurrences.
async fn counts_of_chunk(
    connection: &Connection,
    rule: &Rule,
    spans: &[KeySpan],
    tenants: &mut Names,
) -> Result<Vec<BucketCount>, StoreError> {
    let buckets = Slots::of(rule.bucket_ms());
    let conditions: [&dyn Condition; 2] = [&InSpans::of(spans, buckets), &CountedBy(rule)];
    let sql = format!(
        "SELECT tenant, fingerprint_bits, bucket, counted.count AS count \
         FROM (SELECT tenant, fingerprint_bits, {bucket} AS bucket, sum(occurrence_count) AS count \
         FROM occurrences FINAL WHERE {condition} GROUP BY tenant, fingerprint_bits, bucket) AS counted \
         INNER JOIN {spans} AS spans USING (tenant, fingerprint_bits) \
         WHERE bucket >= spans.first AND bucket < spans.end ORDER BY tenant, fingerprint_bits, bucket",
        bucket = buckets.sql(),
        condition = all(&conditions),
        spans = InSpans::SPANS,
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let rows: Vec<BucketRow> = connection.fetch("count buckets of keys", query).await?;
    let count = |row: BucketRow| BucketCount {
        tenant: tenants.shared(&row.tenant),
        fingerprint: Fingerprint::from_bits(row.fingerprint_bits),
        bucket_start: buckets.start(row.bucket),
        count: row.count,
    };
    Ok(rows.into_iter().map(count).collect())
}

#[derive(Row, Deserialize)]
struct KeyRow {
    tenant: String,
    fingerprint_bits: u128,
    count: u64,
}

/// See [`crate::OccurrenceStore::candidates`].
pub(super) async fn candidates(
    connection: &Connection,
    rule: &Rule,
    window_start: EventTime,
) -> Result<Vec<(Arc<str>, Fingerprint)>, StoreError> {
    let window = Window { start: window_start, size_ms: rule.window_ms };
    let from = if rule.at(window_start).straddle { window.previous().start } else { window.start };
    let conditions: [&dyn Condition; 2] = [&TimeSpan { from, until: Some(window.end()) }, &CountedBy(rule)];
    let windows = Slots::of(rule.window_ms);
    let sql = format!(
        "SELECT tenant, fingerprint_bits, sum(occurrence_count) AS count FROM occurrences FINAL WHERE {condition} \
         GROUP BY tenant, fingerprint_bits HAVING count >= {threshold} AND max({window}) = {number} \
         ORDER BY tenant, fingerprint_bits",
        condition = all(&conditions),
        threshold = rule.at(window_start).least_threshold(),
        window = windows.sql(),
        number = windows.number(window.start),
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let rows: Vec<KeyRow> = connection.fetch("read the keys to judge", query).await?;
    let mut tenants = Names::default();
    let key = |row: KeyRow| (tenants.shared(&row.tenant), Fingerprint::from_bits(row.fingerprint_bits));
    let reaches = |row: &KeyRow| row.count >= u64::from(rule.threshold_at(window_start, &row.tenant));
    Ok(rows.into_iter().filter(reaches).map(key).collect())
}

#[derive(Row, Deserialize)]
struct CountRow {
    count: u64,
}

/// See [`crate::OccurrenceStore::distinct_fingerprints`]. Repeats need no `FINAL` here.
pub(super) async fn distinct_fingerprints(
    connection: &Connection,
    rule: &Rule,
    tenant: &str,
    window_start: EventTime,
) -> Result<u64, StoreError> {
    let window = Window { start: window_start, size_ms: rule.window_ms };
    let conditions: [&dyn Condition; 3] =
        [&TimeSpan { from: window.start, until: Some(window.end()) }, &CountedBy(rule), &OfTenant(tenant)];
    let sql = format!("SELECT uniqExact(fingerprint_bits) AS count FROM occurrences WHERE {}", all(&conditions));
    let query = bind_all(connection.select(&sql), &conditions);
    let rows: Vec<CountRow> = connection.fetch("count the bugs of a tenant", query).await?;
    Ok(rows.first().map_or(0, |row| row.count))
}
