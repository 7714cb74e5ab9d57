//! What a replay reads: how much history there is, and its counts per bucket.

use super::calls::Handout;
use super::classify::Trouble;
use super::columns::{count, put_bucket_counts};
use super::conditions::{RuleFilter, floored, ten_seconds};
use crate::{BucketCount, HistoryDay, Selection};
use floodmark_model::{EventTime, Rule};
use rusqlite::{Connection, named_params};

const DAY_MS: i64 = 86_400_000;

/// See [`crate::OccurrenceStore::history_days`].
pub(super) fn history_days(
    reader: &Connection,
    since: EventTime,
    until: EventTime,
) -> Result<Vec<HistoryDay>, Trouble> {
    let day = floored("ts", ":day");
    let mut statement = reader.prepare_cached(&format!(
        "SELECT {day} AS day, count(*), min(ts), max(ts) FROM occurrences INDEXED BY occurrences_by_key
        WHERE ten_seconds BETWEEN :first AND :last AND ts >= :since AND ts < :until
        GROUP BY day ORDER BY day"
    ))?;
    let rows = statement.query_map(
        named_params! {
            ":day": DAY_MS,
            ":first": ten_seconds(since),
            ":last": ten_seconds(until),
            ":since": since.0,
            ":until": until.0,
        },
        |row| {
            Ok(HistoryDay {
                start: EventTime(row.get(0)?),
                rows: count(row, 1)?,
                first_ts: EventTime(row.get(2)?),
                last_ts: EventTime(row.get(3)?),
            })
        },
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// See [`crate::OccurrenceStore::history_counts`].
pub(super) fn history_counts(
    reader: &Connection,
    rule: &Rule,
    bucket_ms: i64,
    selection: &Selection,
    out: &mut Handout<BucketCount>,
) -> Result<(), Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let bucket = floored("ts", ":bucket");
    let (since, until) = (selection.since.unwrap_or(EventTime::MIN), selection.until.unwrap_or(EventTime(i64::MAX)));
    let mut statement = reader.prepare_cached(&format!(
        "SELECT tenant, fingerprint_bits, {bucket}, count(*) FROM occurrences INDEXED BY occurrences_by_key
        WHERE ten_seconds BETWEEN :first AND :last AND ts >= :since AND ts < :until
            AND (:tenant IS NULL OR tenant = :tenant) AND {counted}
        GROUP BY 1, 2, 3"
    ))?;
    let rows = statement.query(named_params! {
        ":bucket": bucket_ms,
        ":first": ten_seconds(since),
        ":last": ten_seconds(until),
        ":since": since.0,
        ":until": until.0,
        ":tenant": selection.tenant,
        ":level": filter.level,
        ":tenants": filter.tenants,
        ":services": filter.services,
    })?;
    put_bucket_counts(rows, out)
}
