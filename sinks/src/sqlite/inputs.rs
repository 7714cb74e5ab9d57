//! Files that have been read, in the embedded store.

use super::classify::Trouble;
use crate::inputs::{InputFile, id_of, length};
use floodmark_model::{RecordTime, TopicId};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

/// See [`super::SqliteStore::identify`].
pub(super) fn identify(
    transaction: &Transaction<'_>,
    path: String,
    head: &[u8],
    now: RecordTime,
) -> Result<Option<InputFile>, Trouble> {
    let Some(head_bytes) = length(head) else { return Ok(None) };
    let alike = known_alike(transaction, head)?;
    let at_path = alike.iter().position(|input| input.path == path);
    let input = match alike.into_iter().nth(at_path.unwrap_or(0)) {
        Some(known) => InputFile { path, ..known },
        None => InputFile { id: id_of(head), head_bytes, path, first_read: now },
    };
    transaction.execute(
        "INSERT INTO inputs (input_id, head_bytes, path, first_read) VALUES (?, ?, ?, ?)
        ON CONFLICT (input_id) DO UPDATE SET path = excluded.path",
        params![input.id.0, input.head_bytes, input.path, input.first_read.0],
    )?;
    Ok(Some(input))
}

/// Known inputs whose stored first bytes `head` begins with, the ones with most bytes first.
fn known_alike(transaction: &Transaction<'_>, head: &[u8]) -> Result<Vec<InputFile>, Trouble> {
    let lengths: Vec<u16> = transaction
        .prepare_cached("SELECT DISTINCT head_bytes FROM inputs WHERE head_bytes <= ? ORDER BY head_bytes DESC")?
        .query_map([length(head)], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut lookup = transaction.prepare_cached(
        "SELECT input_id, head_bytes, path, first_read FROM inputs WHERE input_id = ? AND head_bytes = ?",
    )?;
    let mut alike = Vec::new();
    for length in lengths {
        let beginning = head.get(..length.into()).unwrap_or(head);
        alike.extend(lookup.query_row(params![id_of(beginning).0, length], input).optional()?);
    }
    Ok(alike)
}

/// See [`super::SqliteStore::inputs`].
pub(super) fn all(reader: &Connection) -> Result<Vec<InputFile>, Trouble> {
    let mut statement = reader.prepare_cached(
        "SELECT input_id, head_bytes, path, first_read FROM inputs ORDER BY first_read, path, input_id",
    )?;
    Ok(statement.query_map([], input)?.collect::<Result<_, _>>()?)
}

fn input(row: &Row<'_>) -> rusqlite::Result<InputFile> {
    Ok(InputFile {
        id: TopicId(row.get(0)?),
        head_bytes: row.get(1)?,
        path: row.get(2)?,
        first_read: RecordTime(row.get(3)?),
    })
}
