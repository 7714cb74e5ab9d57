//! Totals and samples: what windows hold (W-9, W-10).

use super::conditions::{Condition, CountedBy, InWindows, OfTenant, Slots, TimeSpan, all, bind_all};
use super::connection::Connection;
use crate::{FACTS_MAX, Selection, StoreError, TotalRow};
use clickhouse::Row;
use floodmark_model::incident::{Sample, WindowFacts};
use floodmark_model::{EventTime, Fingerprint, IncidentKey, Rule, Window};
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
struct TotalsRow {
    tenant: String,
    fingerprint_bits: u128,
    window: i64,
    total: u64,
    first_ms: i64,
    last_ms: i64,
}

#[derive(Row, Deserialize)]
struct SampleRow {
    tenant: String,
    fingerprint_bits: u128,
    window: i64,
    sample: String,
    count: u64,
}

async fn facts_of_chunk(
    connection: &Connection,
    rule: &Rule,
    keys: &[IncidentKey],
) -> Result<Vec<WindowFacts>, StoreError> {
    let windows = Slots::of(rule.window_ms);
    let conditions: [&dyn Condition; 2] = [&InWindows::of(keys, windows), &CountedBy(rule)];
    let (window, condition) = (windows.sql(), all(&conditions));
    let totals = format!(
        "SELECT tenant, fingerprint_bits, {window} AS window, sum(occurrence_count) AS total, \
         min(toUnixTimestamp64Milli(ts)) AS first_ms, max(toUnixTimestamp64Milli(ts)) AS last_ms \
         FROM occurrences FINAL WHERE {condition} GROUP BY tenant, fingerprint_bits, window"
    );
    // A NUL is shown as its symbol (Q52). Messages that look alike as samples are one sample.
    let samples = format!(
        "SELECT tenant, fingerprint_bits, {window} AS window, \
         replaceAll(substringUTF8(message, 1, {SAMPLE_CHARS_MAX}), '\\0', '\u{2400}') AS sample, \
         sum(occurrence_count) AS count \
         FROM occurrences FINAL WHERE {condition} GROUP BY tenant, fingerprint_bits, window, sample \
         ORDER BY count DESC, sample LIMIT {SAMPLES_MAX} BY tenant, fingerprint_bits, window"
    );
    let totals = bind_all(connection.select(&totals), &conditions);
    let totals: Vec<TotalsRow> = connection.fetch("read totals of windows", totals).await?;
    let samples = bind_all(connection.select(&samples), &conditions);
    let samples: Vec<SampleRow> = connection.fetch("read samples of windows", samples).await?;
    Ok(joined(keys, windows, totals, samples))
}

/// The answers in the order of the keys.
fn joined(
    keys: &[IncidentKey],
    windows: Slots,
    totals: Vec<TotalsRow>,
    samples: Vec<SampleRow>,
) -> Vec<WindowFacts> {
    let mut by_key: HashMap<_, (u64, EventTime, EventTime)> = HashMap::with_capacity(totals.len());
    for row in totals {
        let times = (row.total, EventTime(row.first_ms), EventTime(row.last_ms));
        by_key.insert((row.tenant, row.fingerprint_bits, row.window), times);
    }
    let mut samples_by_key: HashMap<_, Vec<Sample>> = HashMap::with_capacity(by_key.len());
    for row in samples {
        let sample = Sample { message: row.sample, count: row.count };
        samples_by_key.entry((row.tenant, row.fingerprint_bits, row.window)).or_default().push(sample);
    }
    keys.iter()
        .map(|key| {
            let at = (key.tenant.to_string(), key.fingerprint.bits(), windows.number(key.window.start));
            let nothing = (0, key.window.start, key.window.start);
            let (total, first_ts, last_ts) = by_key.get(&at).copied().unwrap_or(nothing);
            let samples = samples_by_key.get(&at).cloned().unwrap_or_default();
            WindowFacts { key: key.clone(), total, first_ts, last_ts, samples }
        })
        .collect()
}

#[derive(Row, Deserialize)]
struct KeyRow {
    tenant: String,
    fingerprint_bits: u128,
    count: u64,
}

/// The keys of one window of `rule` with at least `rule.threshold` occurrences, with their counts (Q46).
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
        rule.threshold
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let rows: Vec<KeyRow> = connection.fetch("read keys over the threshold", query).await?;
    let name: std::sync::Arc<str> = rule.name.as_str().into();
    let key = |row: KeyRow| {
        let fingerprint = Fingerprint::from_bits(row.fingerprint_bits);
        (IncidentKey { rule: name.clone(), tenant: row.tenant.into(), fingerprint, window }, row.count)
    };
    Ok(rows.into_iter().map(key).collect())
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
