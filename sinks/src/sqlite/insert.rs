//! Rows into the file, each once.

use super::classify::Trouble;
use super::conditions::ten_seconds;
use crate::rows::{RowBlock, Rows, decode_dead_letters, decode_occurrences};
use floodmark_model::{Identity, Occurrence, TopicId};
use rusqlite::{CachedStatement, Transaction, params};
use std::collections::HashMap;

/// Columns of `occurrences` and `unmatched`, in the order in which [`bind`] gives them.
const COLUMNS: [&str; 22] = [
    "fingerprint_bits",
    "ts",
    "ten_seconds",
    "identity",
    "topic",
    "\"partition\"",
    "\"offset\"",
    "record_time",
    "level",
    "ts_missing",
    "ts_clamped",
    "tenant",
    "ts_original",
    "service",
    "host",
    "source",
    "type",
    "template_id",
    "event_id",
    "message",
    "exception_type",
    "raw",
];

/// Stores all rows of the blocks.
pub(super) fn blocks(transaction: &Transaction<'_>, blocks: &[RowBlock]) -> Result<(), Trouble> {
    let mut topics = Topics { transaction, known: HashMap::new() };
    for block in blocks {
        occurrences(&mut topics, "occurrences", &block.occurrences)?;
        occurrences(&mut topics, "unmatched", &block.unmatched)?;
        dead_letters(&mut topics, &block.dead_letters)?;
    }
    Ok(())
}

/// The numbers of topics.
struct Topics<'t> {
    transaction: &'t Transaction<'t>,
    /// Those of this call.
    known: HashMap<TopicId, i64>,
}

impl Topics<'_> {
    fn number(&mut self, id: TopicId) -> Result<i64, Trouble> {
        if let Some(&number) = self.known.get(&id) {
            return Ok(number);
        }
        self.transaction
            .prepare_cached("INSERT INTO topics (topic_id) VALUES (?) ON CONFLICT DO NOTHING")?
            .execute([id.0])?;
        let number = self
            .transaction
            .prepare_cached("SELECT topic FROM topics WHERE topic_id = ?")?
            .query_row([id.0], |row| row.get(0))?;
        self.known.insert(id, number);
        Ok(number)
    }
}

fn occurrences(topics: &mut Topics<'_>, table: &str, rows: &Rows) -> Result<(), Trouble> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut statement = topics.transaction.prepare_cached(&upsert(table))?;
    for occurrence in decode_occurrences(rows.bytes()) {
        let occurrence = occurrence?;
        bind(&mut statement, topics.number(occurrence.at.topic_id)?, &occurrence)?;
    }
    Ok(())
}

/// Of two records with one identity the one with the least (record time, partition, offset) stays, as in
/// `model::identity::row_version` (design, decision 5).
fn upsert(table: &str) -> String {
    let columns = COLUMNS.join(", ");
    let places = vec!["?"; COLUMNS.len()].join(", ");
    let replaced = COLUMNS.map(|column| format!("{column} = excluded.{column}")).join(", ");
    let is_first = format!(
        "(excluded.record_time, excluded.\"partition\", excluded.\"offset\")
        < ({table}.record_time, {table}.\"partition\", {table}.\"offset\")"
    );
    format!(
        "INSERT INTO {table} ({columns}) VALUES ({places})
        ON CONFLICT (identity) WHERE identity IS NOT NULL DO UPDATE SET {replaced} WHERE {is_first}
        ON CONFLICT (topic, \"partition\", \"offset\") WHERE identity IS NULL
            DO UPDATE SET {replaced} WHERE {is_first}"
    )
}

fn bind(statement: &mut CachedStatement<'_>, topic: i64, occurrence: &Occurrence<'_>) -> rusqlite::Result<usize> {
    let at = occurrence.at;
    // I-1: an identity that is the record's own place is in three columns already.
    let identity = (occurrence.identity != Identity::of_record(at)).then(|| occurrence.identity.0.to_be_bytes());
    statement.execute(params![
        occurrence.fingerprint.0,
        occurrence.ts.0,
        ten_seconds(occurrence.ts),
        identity,
        topic,
        at.partition,
        at.offset,
        occurrence.record_time.0,
        occurrence.level as u8,
        occurrence.ts_missing,
        occurrence.ts_clamped,
        occurrence.tenant,
        occurrence.ts_original,
        occurrence.service,
        occurrence.host,
        occurrence.source,
        occurrence.kind,
        occurrence.template_id,
        occurrence.event_id,
        occurrence.message,
        occurrence.exception_type,
        &*occurrence.raw,
    ])
}

fn dead_letters(topics: &mut Topics<'_>, rows: &Rows) -> Result<(), Trouble> {
    let mut statement = topics.transaction.prepare_cached(
        "INSERT INTO dead_letters (topic, \"partition\", \"offset\", record_time, reason, detail, raw)
        VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )?;
    for letter in decode_dead_letters(rows.bytes()) {
        let letter = letter?;
        statement.execute(params![
            topics.number(letter.at.topic_id)?,
            letter.at.partition,
            letter.at.offset,
            letter.record_time.0,
            letter.reason.name(),
            letter.detail,
            letter.raw,
        ])?;
    }
    Ok(())
}
