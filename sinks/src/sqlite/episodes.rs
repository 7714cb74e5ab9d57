//! Episodes: the maximal runs of adjacent windows of one key with a live incident (W-11, Q44).
//!
//! Invariant, before and after each function: every live row (`open` or `closed`) has the id of the first row of its
//! run as `episode_id`; every other row has its own id. So one update moves a whole run, however long.

use super::classify::Trouble;
use floodmark_model::IncidentKey;
use rusqlite::{OptionalExtension, Transaction, params};

/// Joins the row of `key`, which has just become live, with the runs on both sides of it. Safe to repeat.
pub(super) fn join(transaction: &Transaction<'_>, key: &IncidentKey) -> Result<(), Trouble> {
    let id = key.id().to_string();
    let previous = IncidentKey { window: key.window.previous(), ..key.clone() }.id().to_string();
    let next = IncidentKey { window: key.window.next(), ..key.clone() }.id().to_string();
    let episode = transaction
        .prepare_cached("SELECT episode_id FROM incidents WHERE id = ? AND status IN ('open', 'closed')")?
        .query_row([previous], |row| row.get::<_, String>(0))
        .optional()?
        .unwrap_or_else(|| id.clone());
    transaction.prepare_cached("UPDATE incidents SET episode_id = ? WHERE id = ?")?.execute([&episode, &id])?;
    // The run to the right began with the next window until now. A dead row there keeps its own id.
    transaction
        .prepare_cached("UPDATE incidents SET episode_id = ? WHERE episode_id = ? AND status IN ('open', 'closed')")?
        .execute([&episode, &next])?;
    Ok(())
}

/// Takes the row of `key`, which is no longer live, out of its run: what lies to the right of it begins anew.
pub(super) fn leave(transaction: &Transaction<'_>, key: &IncidentKey) -> Result<(), Trouble> {
    let id = key.id().to_string();
    let next = IncidentKey { window: key.window.next(), ..key.clone() }.id().to_string();
    let episode: String = transaction
        .prepare_cached("SELECT episode_id FROM incidents WHERE id = ?")?
        .query_row([&id], |row| row.get(0))?;
    transaction
        .prepare_cached("UPDATE incidents SET episode_id = ? WHERE episode_id = ? AND window_start > ?")?
        .execute(params![next, episode, key.window.start.0])?;
    transaction.prepare_cached("UPDATE incidents SET episode_id = id WHERE id = ?")?.execute([id])?;
    Ok(())
}
