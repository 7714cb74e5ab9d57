//! What the judge asks about keys that memory does not hold: late ones (W-8) and those without a pane (Q46). Nothing is
//! cut at the committed offsets: a row counts from its insertion on.

use super::classify::Trouble;
use super::columns::{count, interned};
use super::conditions::{RuleFilter, floored, ten_seconds};
use crate::{BucketCount, KeySpan};
use floodmark_model::{EventTime, Fingerprint, Rule, Window};
use rusqlite::{Connection, named_params};
use std::sync::Arc;

/// The ten seconds of a span in which there is anything, whosever it is. A span may be long, and its key is looked up in
/// each of them.
const FILLED_STEPS: &str = "WITH RECURSIVE steps (step) AS (
    SELECT min(ten_seconds) FROM occurrences WHERE ten_seconds BETWEEN :first_step AND :last_step
    UNION ALL
    SELECT (SELECT min(ten_seconds) FROM occurrences WHERE ten_seconds > step AND ten_seconds <= :last_step)
    FROM steps WHERE step IS NOT NULL
)";

/// See [`crate::OccurrenceStore::key_counts`].
pub(super) fn key_counts(reader: &Connection, rule: &Rule, spans: &[KeySpan]) -> Result<Vec<BucketCount>, Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let bucket = floored("occurrences.ts", ":bucket");
    let mut statement = reader.prepare_cached(&format!(
        "{FILLED_STEPS} SELECT {bucket} AS bucket, count(*)
        FROM steps CROSS JOIN occurrences INDEXED BY occurrences_by_key ON occurrences.ten_seconds = steps.step
            AND occurrences.tenant = :tenant AND occurrences.fingerprint_bits = :fingerprint
            AND occurrences.ts >= :from AND occurrences.ts < :until
        WHERE {counted}
        GROUP BY bucket ORDER BY bucket"
    ))?;
    let mut counts = Vec::new();
    for span in KeySpan::merged(spans) {
        let rows = statement.query_map(
            named_params! {
                ":first_step": ten_seconds(span.from),
                ":last_step": ten_seconds(span.until.minus(1)),
                ":bucket": rule.bucket_ms(),
                ":tenant": span.tenant,
                ":fingerprint": span.fingerprint.0,
                ":from": span.from.0,
                ":until": span.until.0,
                ":level": filter.level,
                ":tenants": filter.tenants,
                ":services": filter.services,
            },
            |row| {
                let (tenant, fingerprint) = (Arc::clone(&span.tenant), span.fingerprint);
                Ok(BucketCount { tenant, fingerprint, bucket_start: EventTime(row.get(0)?), count: count(row, 1)? })
            },
        )?;
        for row in rows {
            counts.push(row?);
        }
    }
    Ok(counts)
}

/// See [`crate::OccurrenceStore::candidates`].
pub(super) fn candidates(
    reader: &Connection,
    rule: &Rule,
    window_start: EventTime,
) -> Result<Vec<(Arc<str>, Fingerprint)>, Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let window = Window { start: window_start, size_ms: rule.window_ms };
    let from = if rule.at(window_start).straddle { window.previous().start } else { window.start };
    let mut statement = reader.prepare_cached(&format!(
        "SELECT tenant, fingerprint_bits, count(*)
        FROM occurrences
        WHERE ten_seconds BETWEEN :first_step AND :last_step AND ts >= :from AND ts < :until AND {counted}
        GROUP BY tenant, fingerprint_bits
        HAVING count(*) >= :threshold AND max(ts) >= :start
        ORDER BY tenant, fingerprint_bits"
    ))?;
    let mut rows = statement.query(named_params! {
        ":first_step": ten_seconds(from),
        ":last_step": ten_seconds(window.end().minus(1)),
        ":from": from.0,
        ":until": window.end().0,
        ":start": window.start.0,
        ":threshold": rule.at(window_start).least_threshold(),
        ":level": filter.level,
        ":tenants": filter.tenants,
        ":services": filter.services,
    })?;
    let mut tenant: Arc<str> = "".into();
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        tenant = interned(tenant, row)?;
        if count(row, 2)? < u64::from(rule.threshold_at(window_start, &tenant)) {
            continue;
        }
        keys.push((Arc::clone(&tenant), Fingerprint(row.get(1)?)));
    }
    Ok(keys)
}

/// See [`crate::OccurrenceStore::distinct_fingerprints`].
pub(super) fn distinct_fingerprints(
    reader: &Connection,
    rule: &Rule,
    tenant: &str,
    window_start: EventTime,
) -> Result<u64, Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let window = Window { start: window_start, size_ms: rule.window_ms };
    let mut statement = reader.prepare_cached(&format!(
        "SELECT count(DISTINCT fingerprint_bits) FROM occurrences
        WHERE ten_seconds BETWEEN :first_step AND :last_step AND ts >= :from AND ts < :until AND tenant = :tenant
            AND {counted}"
    ))?;
    let count = statement.query_row(
        named_params! {
            ":first_step": ten_seconds(window.start),
            ":last_step": ten_seconds(window.end().minus(1)),
            ":from": window.start.0,
            ":until": window.end().0,
            ":tenant": tenant,
            ":level": filter.level,
            ":tenants": filter.tenants,
            ":services": filter.services,
        },
        |row| count(row, 0),
    )?;
    Ok(count)
}
