//! Totals and samples: what windows hold (W-9, W-10).

use super::conditions::{Condition, CountedBy, InWindows, OfTenant, Slots, TimeSpan, all, bind_all};
use super::connection::Connection;
use crate::{FACTS_MAX, Selection, StoreError, TotalRow};
use clickhouse::Row;
use floodmark_model::incident::{Sample, WindowFacts};
use floodmark_model::{EventTime, Fingerprint, IncidentKey, IncidentKind, Rule, Window};
use serde::Deserialize;
use std::collections::HashMap;

/// Distinct messages of an incident (W-10).
const SAMPLES_MAX: usize = 10;

/// Characters of a sample.
const SAMPLE_CHARS_MAX: usize = 1_024;

/// Bytes of tenant names in one query, so that their parameter stays below the server's limit of 128 KiB even if every
/// character is escaped.
const TENANT_BYTES_MAX: usize = 48 << 10;

/// Totals, first and last times and samples of windows of `rule`. A window without rows has a total of 0 and its start
/// as both times.
pub(super) async fn window_facts(
    connection: &Connection,
    rule: &Rule,
    keys: &[IncidentKey],
) -> Result<Vec<WindowFacts>, StoreError> {
    let mut facts = Vec::with_capacity(keys.len());
    let mut rest = keys;
    while !rest.is_empty() {
        let (chunk, others) = rest.split_at(chunk_length(rest));
        facts.extend(facts_of_chunk(connection, rule, chunk).await?);
        rest = others;
    }
    Ok(facts)
}

/// How many of the keys fit into one query; at least one.
fn chunk_length(keys: &[IncidentKey]) -> usize {
    let mut bytes = 0;
    let fits = |key: &&IncidentKey| {
        bytes += key.tenant.len() + 4;
        bytes <= TENANT_BYTES_MAX
    };
    keys.iter().take(FACTS_MAX).take_while(fits).count().max(1)
}

#[derive(Row, Deserialize)]
struct FactsRow {
    tenant: String,
    fingerprint_bits: u128,
    window: i64,
    total: u64,
    first_ms: i64,
    last_ms: i64,
    /// Minus the count, and the message: in this order the most frequent comes first.
    samples: Vec<(i64, String)>,
}

/// One query for all: what it costs is to read the windows, not what it computes of them. A NUL is shown as its symbol
/// (Q52); messages that look alike as samples are one sample.
async fn facts_of_chunk(
    connection: &Connection,
    rule: &Rule,
    keys: &[IncidentKey],
) -> Result<Vec<WindowFacts>, StoreError> {
    let windows = Slots::of(rule.window_ms);
    let conditions: [&dyn Condition; 2] = [&InWindows::of(keys, windows), &CountedBy(rule)];
    let sql = format!(
        "SELECT tenant, fingerprint_bits, window, sum(count) AS total, min(first) AS first_ms, max(last) AS last_ms, \
         groupArraySorted({SAMPLES_MAX})((-toInt64(count), sample)) AS samples \
         FROM (SELECT tenant, fingerprint_bits, {window} AS window, \
         replaceAll(substringUTF8(message, 1, {SAMPLE_CHARS_MAX}), '\\0', '\u{2400}') AS sample, \
         sum(occurrence_count) AS count, min(toUnixTimestamp64Milli(ts)) AS first, max(toUnixTimestamp64Milli(ts)) AS last \
         FROM occurrences FINAL WHERE {condition} GROUP BY tenant, fingerprint_bits, window, sample) \
         GROUP BY tenant, fingerprint_bits, window",
        window = windows.sql(),
        condition = all(&conditions),
    );
    let query = bind_all(connection.select(&sql), &conditions);
    Ok(in_order(keys, windows, connection.fetch("read facts of windows", query).await?))
}

/// The answers in the order of the keys.
fn in_order(keys: &[IncidentKey], windows: Slots, rows: Vec<FactsRow>) -> Vec<WindowFacts> {
    let by_key = |row: FactsRow| ((row.tenant.clone(), row.fingerprint_bits, row.window), row);
    let mut rows: HashMap<_, FactsRow> = rows.into_iter().map(by_key).collect();
    let facts = |key: &IncidentKey| {
        let at = (key.tenant.to_string(), key.fingerprint.bits(), windows.number(key.window.start));
        let Some(row) = rows.remove(&at) else {
            let start = key.window.start;
            return WindowFacts { key: key.clone(), total: 0, first_ts: start, last_ts: start, samples: Vec::new() };
        };
        let sample = |(count, message): (i64, String)| Sample { message, count: count.unsigned_abs() };
        WindowFacts {
            key: key.clone(),
            total: row.total,
            first_ts: EventTime(row.first_ms),
            last_ts: EventTime(row.last_ms),
            samples: row.samples.into_iter().map(sample).collect(),
        }
    };
    keys.iter().map(facts).collect()
}

#[derive(Row, Deserialize)]
struct KeyRow {
    tenant: String,
    fingerprint_bits: u128,
    count: u64,
}

/// The keys of one window of `rule` that reach their threshold, with their counts (Q46).
pub(super) async fn keys_over_threshold(
    connection: &Connection,
    rule: &Rule,
    window_start: EventTime,
) -> Result<Vec<(IncidentKey, u64)>, StoreError> {
    let window = Window { start: window_start, size_ms: rule.window_ms };
    let conditions: [&dyn Condition; 2] =
        [&TimeSpan { from: window.start, until: Some(window.end()) }, &CountedBy(rule)];
    let sql = format!(
        "SELECT tenant, fingerprint_bits, sum(occurrence_count) AS count FROM occurrences FINAL WHERE {} \
         GROUP BY tenant, fingerprint_bits HAVING count >= {} ORDER BY tenant, fingerprint_bits",
        all(&conditions),
        rule.least_threshold()
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let rows: Vec<KeyRow> = connection.fetch("read keys over the threshold", query).await?;
    let name: std::sync::Arc<str> = rule.name.as_str().into();
    let key = |row: KeyRow| {
        let fingerprint = Fingerprint::from_bits(row.fingerprint_bits);
        (
            IncidentKey {
                kind: IncidentKind::Burst,
                rule: name.clone(),
                tenant: row.tenant.into(),
                fingerprint,
                window,
            },
            row.count,
        )
    };
    let reaches = |row: &KeyRow| row.count >= u64::from(rule.threshold_at(window_start, &row.tenant));
    Ok(rows.into_iter().filter(reaches).map(key).collect())
}

#[derive(Row, Deserialize)]
struct WindowRow {
    tenant: String,
    fingerprint_bits: u128,
    window: i64,
    total: u64,
}

/// Totals per (tenant, fingerprint, window) of one rule, sorted.
pub(super) async fn totals(
    connection: &Connection,
    rule: &Rule,
    selection: &Selection,
) -> Result<Vec<TotalRow>, StoreError> {
    let windows = Slots::of(rule.window_ms);
    // A window is selected by its start: it is in whole, or not at all.
    let span = TimeSpan {
        from: windows.start_at_or_after(selection.since.unwrap_or(EventTime::MIN)),
        until: selection.until.map(|until| windows.start_at_or_after(until)),
    };
    let counted = CountedBy(rule);
    let tenant = selection.tenant.as_deref().map(OfTenant);
    let mut conditions: Vec<&dyn Condition> = vec![&span, &counted];
    conditions.extend(tenant.as_ref().map(|tenant| tenant as &dyn Condition));
    let sql = format!(
        "SELECT tenant, fingerprint_bits, {} AS window, sum(occurrence_count) AS total FROM occurrences FINAL WHERE {} \
         GROUP BY tenant, fingerprint_bits, window ORDER BY tenant, fingerprint_bits, window",
        windows.sql(),
        all(&conditions)
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let row = |row: WindowRow| TotalRow {
        tenant: row.tenant,
        fingerprint: Fingerprint::from_bits(row.fingerprint_bits).to_string(),
        rule: rule.name.clone(),
        window_start: windows.start(row.window),
        total: row.total,
    };
    Ok(connection.fetch("read totals", query).await?.into_iter().map(row).collect())
}
