//! Files that have been read, in the embedded store.

use super::classify::Trouble;
use crate::inputs::{InputFile, ReadBytes, further_id_of, id_of, length};
use floodmark_model::{RecordTime, TopicId};
use rusqlite::{Connection, Row, Transaction, params};

const COLUMNS: &str = "input_id, head_id, head_bytes, path, first_read, written, read_bytes, read_hash";

/// See [`super::SqliteStore::identify`].
pub(super) fn identify(
    transaction: &Transaction<'_>,
    path: String,
    head: &[u8],
    now: RecordTime,
) -> Result<Option<InputFile>, Trouble> {
    let known = alike(transaction, &path, head)?.into_iter().next();
    let Some(known) = known else { return add(transaction, path, head, now) };
    transaction.execute("UPDATE inputs SET path = ? WHERE input_id = ?", params![path, known.id.0])?;
    Ok(Some(InputFile { path, ..known }))
}

/// See [`super::SqliteStore::add_input`].
pub(super) fn add(
    transaction: &Transaction<'_>,
    path: String,
    head: &[u8],
    now: RecordTime,
) -> Result<Option<InputFile>, Trouble> {
    let Some(head_bytes) = length(head) else { return Ok(None) };
    let head_id = id_of(head);
    let known: i64 =
        transaction.query_row("SELECT count(*) FROM inputs WHERE head_id = ?", [head_id.0], |row| row.get(0))?;
    let id = if known == 0 { head_id } else { further_id_of(head_id, known.unsigned_abs()) };
    transaction.execute(
        "INSERT INTO inputs (input_id, head_id, head_bytes, path, first_read) VALUES (?, ?, ?, ?, ?)",
        params![id.0, head_id.0, head_bytes, path, now.0],
    )?;
    Ok(Some(InputFile { id, head_id, head_bytes, path, first_read: now, written: None, read: None }))
}

/// See [`super::SqliteStore::inputs_alike`].
pub(super) fn alike(reader: &Connection, path: &str, head: &[u8]) -> Result<Vec<InputFile>, Trouble> {
    let lengths: Vec<u16> = reader
        .prepare_cached("SELECT DISTINCT head_bytes FROM inputs WHERE head_bytes <= ? ORDER BY head_bytes DESC")?
        .query_map([length(head)], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let of_head = format!("SELECT {COLUMNS} FROM inputs WHERE head_id = ? AND head_bytes = ? ORDER BY first_read DESC");
    let mut lookup = reader.prepare_cached(&of_head)?;
    let mut alike: Vec<InputFile> = Vec::new();
    for length in lengths {
        let beginning = head.get(..length.into()).unwrap_or(head);
        let found = lookup.query_map(params![id_of(beginning).0, length], input)?;
        alike.extend(found.collect::<Result<Vec<_>, _>>()?);
    }
    alike.sort_by_key(|input| input.path != path);
    Ok(alike)
}

/// See [`super::SqliteStore::note_input`].
pub(super) fn note(
    transaction: &Transaction<'_>,
    id: TopicId,
    path: &str,
    written: &str,
    read: Option<ReadBytes>,
) -> Result<(), Trouble> {
    let (bytes, hash) = (read.map(|read| read.bytes as i64), read.map(|read| read.hash.to_be_bytes()));
    transaction.execute(
        "UPDATE inputs SET path = ?2, written = ?3, read_bytes = coalesce(?4, read_bytes),
            read_hash = coalesce(?5, read_hash)
        WHERE input_id = ?1",
        params![id.0, path, written, bytes, hash],
    )?;
    Ok(())
}

/// See [`super::SqliteStore::inputs`].
pub(super) fn all(reader: &Connection) -> Result<Vec<InputFile>, Trouble> {
    let all = format!("SELECT {COLUMNS} FROM inputs ORDER BY first_read, path, input_id");
    let mut statement = reader.prepare_cached(&all)?;
    Ok(statement.query_map([], input)?.collect::<Result<_, _>>()?)
}

fn input(row: &Row<'_>) -> rusqlite::Result<InputFile> {
    let (bytes, hash): (Option<i64>, Option<[u8; 16]>) = (row.get(6)?, row.get(7)?);
    let read = bytes
        .zip(hash)
        .map(|(bytes, hash)| ReadBytes { bytes: bytes.max(0).unsigned_abs(), hash: u128::from_be_bytes(hash) });
    Ok(InputFile {
        id: TopicId(row.get(0)?),
        head_id: TopicId(row.get(1)?),
        head_bytes: row.get(2)?,
        path: row.get(3)?,
        first_read: RecordTime(row.get(4)?),
        written: row.get(5)?,
        read,
    })
}
