//! What a start reads, cut at the committed offsets (design, decision 1), and what it deletes.

use super::calls::Handout;
use super::classify::Trouble;
use super::columns::put_bucket_counts;
use super::conditions::{COVERED, CUT, RuleFilter, floored, ten_seconds};
use crate::{BucketCount, StoredEvent};
use floodmark_model::{Coordinates, EventTime, Identity, Rule, TopicId};
use rusqlite::{Connection, Transaction, named_params};

/// See [`crate::OccurrenceStore::bucket_counts`].
pub(super) fn bucket_counts(
    reader: &Connection,
    rule: &Rule,
    since: EventTime,
    cut: &str,
    out: &mut Handout<BucketCount>,
) -> Result<(), Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let bucket = floored("occurrences.ts", ":bucket");
    let mut statement = reader.prepare_cached(&format!(
        "{CUT} SELECT occurrences.tenant, occurrences.fingerprint_bits, {bucket}, count(*)
        FROM occurrences INDEXED BY occurrences_by_key {COVERED}
        WHERE occurrences.ten_seconds >= :ten_seconds AND occurrences.ts >= :since AND {counted}
        GROUP BY 1, 2, 3"
    ))?;
    let rows = statement.query(named_params! {
        ":cut": cut,
        ":bucket": rule.bucket_ms(),
        ":ten_seconds": ten_seconds(since),
        ":since": since.0,
        ":level": filter.level,
        ":tenants": filter.tenants,
        ":services": filter.services,
    })?;
    put_bucket_counts(rows, out)
}

/// See [`crate::OccurrenceStore::events`].
pub(super) fn events(
    reader: &Connection,
    since: EventTime,
    cut: &str,
    out: &mut Handout<StoredEvent>,
) -> Result<(), Trouble> {
    let mut statement = reader.prepare_cached(&format!(
        "{CUT} SELECT occurrences.identity, occurrences.ts, topics.topic_id, occurrences.\"partition\",
            occurrences.\"offset\"
        FROM occurrences INDEXED BY occurrences_events {COVERED} JOIN topics ON topics.topic = occurrences.topic
        WHERE occurrences.identity IS NOT NULL AND occurrences.ts >= :since"
    ))?;
    let mut rows = statement.query(named_params! { ":cut": cut, ":since": since.0 })?;
    while let Some(row) = rows.next()? {
        out.put(StoredEvent {
            identity: Identity(u128::from_be_bytes(row.get(0)?)),
            ts: EventTime(row.get(1)?),
            owner: Coordinates { topic_id: TopicId(row.get(2)?), partition: row.get(3)?, offset: row.get(4)? },
        })?;
    }
    Ok(())
}

/// See [`crate::OccurrenceStore::delete_uncommitted`].
pub(super) fn delete_uncommitted(transaction: &Transaction<'_>, cut: &str) -> Result<(), Trouble> {
    for table in ["occurrences", "unmatched", "dead_letters"] {
        // A join, not a correlated `NOT EXISTS`, which would index the cut anew for every row.
        let delete = format!(
            "{CUT} DELETE FROM {table} WHERE rowid IN (
                SELECT {table}.rowid FROM {table} LEFT JOIN cut ON cut.topic = {table}.topic
                    AND cut.\"partition\" = {table}.\"partition\" AND {table}.\"offset\" < cut.next_offset
                WHERE cut.next_offset IS NULL
            )"
        );
        transaction.execute(&delete, named_params! { ":cut": cut })?;
    }
    Ok(())
}
