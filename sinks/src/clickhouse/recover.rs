//! What a start reads, cut at the committed offsets (design, decision 1), and what it deletes.

use super::conditions::{
    Condition, CountedBy, Covered, KnownByIdentity, OfKnownTopics, Slots, TimeSpan, all, bind_all,
};
use super::connection::Connection;
use super::names::Names;
use crate::{BucketCount, StoreError, StoredEvent};
use clickhouse::Row;
use floodmark_model::progress::Progress;
use floodmark_model::{Coordinates, EventTime, Fingerprint, Identity, Rule, TopicId};
use serde::Deserialize;

#[derive(Row, Deserialize)]
struct BucketRow<'a> {
    tenant: &'a str,
    fingerprint_bits: u128,
    bucket: i64,
    count: u64,
}

/// Counts per key and bucket of all that `rule` counts with `ts >= since`, of records that `progress` covers.
///
/// The cut comes after `FINAL`: of a record and its retry (I-2) the one that stays decides, so that an occurrence is
/// counted here or when its record is read again, never twice.
pub(super) async fn bucket_counts(
    connection: &Connection,
    rule: &Rule,
    since: EventTime,
    progress: &Progress,
    mut each: impl FnMut(BucketCount) + Send,
) -> Result<(), StoreError> {
    let buckets = Slots::of(rule.bucket_ms());
    let conditions: [&dyn Condition; 3] =
        [&TimeSpan { from: since, until: None }, &CountedBy(rule), &Covered::by(progress)];
    let sql = format!(
        "SELECT tenant, fingerprint_bits, {} AS bucket, sum(occurrence_count) AS count \
         FROM occurrences FINAL WHERE {} GROUP BY tenant, fingerprint_bits, bucket",
        buckets.sql(),
        all(&conditions)
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let read = async {
        let mut tenants = Names::default();
        let mut rows = query.fetch::<BucketRow<'_>>()?;
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
    connection.reading("count buckets", read).await
}

#[derive(Row, Deserialize)]
struct EventRow {
    identity: u128,
    ts_ms: i64,
    topic_id: (u64, u64),
    partition: i32,
    offset: i64,
}

/// The occurrences that the retry filter knows by their identity, with `ts >= since`, that `progress` covers.
pub(super) async fn events(
    connection: &Connection,
    since: EventTime,
    progress: &Progress,
    mut each: impl FnMut(StoredEvent) + Send,
) -> Result<(), StoreError> {
    let conditions: [&dyn Condition; 3] =
        [&TimeSpan { from: since, until: None }, &KnownByIdentity::of(progress), &Covered::by(progress)];
    let sql = format!(
        "SELECT identity, toUnixTimestamp64Milli(ts) AS ts_ms, topic_id, `partition`, `offset` \
         FROM occurrences FINAL WHERE {}",
        all(&conditions)
    );
    let query = bind_all(connection.select(&sql), &conditions);
    let read = async {
        let mut rows = query.fetch::<EventRow>()?;
        while let Some(row) = rows.next().await? {
            each(StoredEvent {
                identity: Identity(row.identity),
                ts: EventTime(row.ts_ms),
                owner: Coordinates { topic_id: topic_id(row.topic_id), partition: row.partition, offset: row.offset },
            });
        }
        Ok(())
    };
    connection.reading("read events", read).await
}

/// Deletes all rows of records that `progress` does not cover, in every table.
pub(super) async fn delete_uncommitted(connection: &Connection, progress: &Progress) -> Result<(), StoreError> {
    let (covered, known) = (Covered::by(progress), OfKnownTopics::of(progress));
    for table in super::TABLES {
        let mut conditions: Vec<&dyn Condition> = vec![&covered];
        let mut sql = format!("DELETE FROM {table} WHERE NOT {}", covered.sql());
        // What was backfilled from a file stands under the file's id, of which nothing is ever committed.
        if table == super::DEAD_LETTERS {
            conditions.push(&known);
            sql = format!("{sql} AND {}", known.sql());
        }
        let delete = connection
            .statement(&sql)
            // What is read next must not see them.
            .with_setting("lightweight_deletes_sync", "2");
        connection.execute("delete uncommitted rows", bind_all(delete, &conditions)).await?;
    }
    Ok(())
}

/// A UUID travels as two numbers, the high half first.
pub(super) fn topic_id((high, low): (u64, u64)) -> TopicId {
    TopicId(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
}
