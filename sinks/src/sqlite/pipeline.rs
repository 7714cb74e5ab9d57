//! Who writes, and how far the input is durable (decisions 6 and 8).

use super::classify::Trouble;
use super::columns::count;
use crate::Generation;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::{EventTime, TopicId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

/// The database's clock: milliseconds since 1970 UTC.
pub(super) const NOW: &str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

/// See [`crate::IncidentStore::take_over`].
pub(super) fn take_over(transaction: &Transaction<'_>) -> Result<Generation, Trouble> {
    let raise = format!(
        "INSERT INTO pipeline (only, generation, heartbeat, closed, settings_hash) VALUES (1, 1, {NOW}, NULL, ?)
        ON CONFLICT (only) DO UPDATE SET generation = generation + 1, heartbeat = excluded.heartbeat
        RETURNING generation"
    );
    Ok(transaction.query_row(&raise, [[0; 16]], |row| row.get(0)).map(Generation)?)
}

/// Fails with [`Trouble::Fenced`] unless `own` is the stored generation.
pub(super) fn check_generation(transaction: &Transaction<'_>, own: Generation) -> Result<(), Trouble> {
    let stored = transaction
        .prepare_cached("SELECT generation FROM pipeline")?
        .query_row([], |row| row.get(0))
        .optional()?
        .map_or(Generation(0), Generation);
    if stored == own { Ok(()) } else { Err(Trouble::Fenced { own, stored }) }
}

/// See [`crate::IncidentStore::heartbeat`].
pub(super) fn heartbeat(transaction: &Transaction<'_>) -> Result<(), Trouble> {
    transaction.prepare_cached(&format!("UPDATE pipeline SET heartbeat = {NOW}"))?.execute([])?;
    Ok(())
}

/// See [`crate::IncidentStore::commit`].
pub(super) fn commit(transaction: &Transaction<'_>, progress: &Progress) -> Result<(), Trouble> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO progress (topic_id, \"partition\", next_offset, watermark, stored, retried, unmatched, dead,
            unique_rows)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (topic_id, \"partition\") DO UPDATE SET
            next_offset = max(next_offset, excluded.next_offset),
            watermark = max(watermark, excluded.watermark),
            stored = max(stored, excluded.stored),
            retried = max(retried, excluded.retried),
            unmatched = max(unmatched, excluded.unmatched),
            dead = max(dead, excluded.dead),
            unique_rows = max(unique_rows, excluded.unique_rows)",
    )?;
    for (key, at) in &progress.partitions {
        statement.execute(params![
            key.topic_id.0,
            key.partition,
            at.next_offset,
            at.watermark.0,
            at.tallies.stored.cast_signed(),
            at.tallies.retried.cast_signed(),
            at.tallies.unmatched.cast_signed(),
            at.tallies.dead.cast_signed(),
            at.tallies.unique.cast_signed(),
        ])?;
    }
    transaction
        .prepare_cached("UPDATE pipeline SET closed = coalesce(max(closed, ?1), closed, ?1), settings_hash = ?2")?
        .execute(params![progress.closed.map(|closed| closed.0), progress.settings_hash.to_be_bytes()])?;
    Ok(())
}

/// See [`crate::IncidentStore::progress`].
pub(super) fn progress(reader: &Connection) -> Result<Progress, Trouble> {
    let mut statement = reader.prepare_cached(
        "SELECT topic_id, \"partition\", next_offset, watermark, stored, retried, unmatched, dead, unique_rows FROM progress",
    )?;
    let partitions = statement.query_map([], |row| {
        let key = PartitionKey { topic_id: TopicId(row.get(0)?), partition: row.get(1)? };
        let tallies = Tallies {
            stored: count(row, 4)?,
            retried: count(row, 5)?,
            unmatched: count(row, 6)?,
            dead: count(row, 7)?,
            unique: count(row, 8)?,
        };
        Ok((key, PartitionProgress { next_offset: row.get(2)?, watermark: EventTime(row.get(3)?), tallies }))
    })?;
    let partitions = partitions.collect::<Result<_, _>>()?;
    let whole = reader
        .query_row("SELECT closed, settings_hash FROM pipeline", [], |row| {
            Ok((row.get::<_, Option<i64>>(0)?.map(EventTime), u128::from_be_bytes(row.get(1)?)))
        })
        .optional()?;
    let (closed, settings_hash) = whole.unwrap_or_default();
    Ok(Progress { partitions, closed, settings_hash })
}
