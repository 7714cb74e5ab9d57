//! Episodes: the maximal runs of adjacent windows of one key with a live incident (W-11, Q44).
//!
//! Invariant, before and after each call of the store: every live row (`open` or `closed`) has the id of the first row
//! of its run as `episode_id`; every other row has its own id. So one update moves a whole run, however long.

use super::connection::Session;
use super::values::neighbour;
use floodmark_model::IncidentKey;
use tokio_postgres::Error;

/// Joins rows that have just become live, all of them, with the runs beside them and with each other. From the left to
/// the right: each finds the row before it in its episode, and takes along a run to its right that was there.
pub(super) async fn join_all(session: &Session, mut keys: Vec<&IncidentKey>) -> Result<(), Error> {
    keys.sort_by_key(|key| key.window.start);
    for key in keys {
        join(session, key).await?;
    }
    Ok(())
}

/// Joins the row of `key`, which has just become live, with the runs on both sides of it. Safe to repeat.
async fn join(session: &Session, key: &IncidentKey) -> Result<(), Error> {
    const JOIN: &str = "WITH episode AS (
            SELECT coalesce(
                (SELECT episode_id FROM incidents WHERE id = $2 AND status IN ('open', 'closed')), $1) AS id)
        UPDATE incidents SET episode_id = episode.id FROM episode
        WHERE incidents.id = $1
            OR (incidents.episode_id = $3 AND status IN ('open', 'closed'))";
    let (id, previous, next) =
        (key.id().to_string(), neighbour(key, key.window.previous()), neighbour(key, key.window.next()));
    session.query(JOIN, &[&id, &previous, &next]).await.map(drop)
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
