//! Episodes: the maximal runs of adjacent windows of one key with a live incident (W-11, Q44).
//!
//! Invariant, before and after each call of the store: every live row (`open` or `closed`) has the id of the first row
//! of its run as `episode_id`; every other row has its own id. So one update moves a whole run, however long.

use super::connection::Session;
use super::values::neighbour;
use floodmark_model::{EventTime, IncidentKey};
use std::collections::BTreeMap;
use tokio_postgres::Error;

/// Joins rows that have just become live, all of them, with the runs beside them and with each other. From the left to
/// the right: each finds the row before it in its episode, and takes along a run to its right that was there. Rows of one
/// window are of different runs, and move in one statement.
pub(super) async fn join_all(session: &Session, keys: Vec<&IncidentKey>) -> Result<(), Error> {
    let mut by_start: BTreeMap<EventTime, Vec<&IncidentKey>> = BTreeMap::new();
    for key in keys {
        by_start.entry(key.window.start).or_default().push(key);
    }
    for keys in by_start.into_values() {
        join(session, &keys).await?;
    }
    Ok(())
}

/// Joins rows of windows that start together, which have just become live, with the runs on both sides of them. Safe to
/// repeat.
async fn join(session: &Session, keys: &[&IncidentKey]) -> Result<(), Error> {
    const JOIN: &str = "WITH joining AS (
            SELECT t.id, t.next, coalesce(before.episode_id, t.id) AS episode_id
            FROM unnest($1::text[], $2::text[], $3::text[]) AS t (id, previous, next)
            LEFT JOIN incidents before ON before.id = t.previous AND before.status IN ('open', 'closed')),
        moving AS (
            SELECT id, episode_id FROM joining
            UNION ALL
            SELECT run.id, joining.episode_id FROM joining
            JOIN incidents run ON run.episode_id = joining.next AND run.status IN ('open', 'closed'))
        UPDATE incidents SET episode_id = moving.episode_id FROM moving
        WHERE incidents.id = moving.id AND incidents.episode_id <> moving.episode_id";
    let ids: Vec<_> = keys.iter().map(|key| key.id().to_string()).collect();
    let previous: Vec<_> = keys.iter().map(|key| neighbour(key, key.window.previous())).collect();
    let next: Vec<_> = keys.iter().map(|key| neighbour(key, key.window.next())).collect();
    session.query(JOIN, &[&ids, &previous, &next]).await.map(drop)
}

/// Takes the row of `key`, which is no longer live, out of its run: what lies to the right of it begins anew.
pub(super) async fn leave(session: &Session, key: &IncidentKey) -> Result<(), Error> {
    const LEAVE: &str = "WITH gone AS (SELECT id, episode_id, window_start FROM incidents WHERE id = $1)
        UPDATE incidents SET episode_id = CASE WHEN incidents.id = gone.id THEN gone.id ELSE $2 END FROM gone
        WHERE incidents.id = gone.id
            OR (incidents.episode_id = gone.episode_id AND incidents.window_start > gone.window_start)";
    let (id, next) = (key.id().to_string(), neighbour(key, key.window.next()));
    session.query(LEAVE, &[&id, &next]).await.map(drop)
}
