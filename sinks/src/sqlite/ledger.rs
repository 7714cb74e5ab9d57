//! The rows that a call is about, read into a [`Ledger`].

use super::classify::Trouble;
use super::columns::parsed;
use crate::ledger::{Found, Ledger, Standing, next, previous};
use floodmark_model::incident::Status;
use floodmark_model::{EventTime, IncidentId, Reach};
use rusqlite::{Row, Transaction, params};

/// The columns of [`found`].
macro_rules! columns {
    () => {
        "SELECT id, window_start, status, superseded_by, reach, count, closed_at IS NOT NULL AS is_closed, \
            total IS NOT NULL AS has_total, episode_id FROM incidents"
    };
}

/// Reads the rows of the named keys, those of the windows before, and the runs that begin right after them.
pub(super) fn read(transaction: &Transaction<'_>, ledger: &mut Ledger<'_>) -> Result<(), Trouble> {
    let mut statement = transaction.prepare_cached(concat!(
        columns!(),
        " WHERE id IN (?1, ?2) UNION ALL ",
        columns!(),
        " WHERE episode_id = ?3"
    ))?;
    for (key, id) in ledger.named() {
        let (before, after) = (previous(&key).id().to_string(), next(&key).id().to_string());
        for row in statement.query_and_then([id.to_string(), before, after], found)? {
            ledger.found(&key, row?);
        }
    }
    Ok(())
}

/// Reads what lies to the right of rows that have left their run.
pub(super) fn read_left(transaction: &Transaction<'_>, ledger: &mut Ledger<'_>) -> Result<(), Trouble> {
    let mut statement =
        transaction.prepare_cached(concat!(columns!(), " WHERE episode_id = ? AND window_start > ?"))?;
    for (key, episode) in ledger.left() {
        for row in statement.query_and_then(params![episode.to_string(), key.window.start.0], found)? {
            ledger.found(&key, row?);
        }
    }
    Ok(())
}

fn found(row: &Row<'_>) -> Result<Found, Trouble> {
    let superseded_by: Option<String> = row.get("superseded_by")?;
    let standing = Standing {
        status: parsed(row, "status", Status::from_name)?,
        superseded_by: superseded_by.as_deref().and_then(IncidentId::from_hex),
        reach: parsed(row, "reach", Reach::from_name)?,
        count: row.get::<_, i64>("count")?.cast_unsigned(),
        is_closed: row.get("is_closed")?,
        has_total: row.get("has_total")?,
        episode: parsed(row, "episode_id", IncidentId::from_hex)?,
    };
    let id = parsed(row, "id", IncidentId::from_hex)?;
    Ok(Found { id, window_start: EventTime(row.get("window_start")?), standing })
}
