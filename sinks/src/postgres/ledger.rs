//! The rows that a call is about, read into a [`Ledger`].
//!
//! # Who waits for whom
//!
//! What a call decides from rows that it has read holds until it commits, since one lock of the database is taken first
//! by every call that inserts a row, or makes one live or dead ([`Alone::Yes`]). Other calls write columns of rows, and
//! nothing that decides. Each transaction changes rows that others may see in one statement, which locks them in the
//! order of their ids, or holds the lock as well: so nobody waits in a circle.

use super::connection::{Fence, Parameter, Session};
use super::values::{neighbours, stamp, time};
use crate::ledger::{Found, Ledger, Standing};
use floodmark_model::incident::Status;
use floodmark_model::{IncidentId, IncidentKey, Reach};
use tokio_postgres::{Error, Row};

/// A number for the lock under which rows begin and cease to be incidents; any that nobody else uses ("floodinc").
const LOCK: i64 = 0x666c_6f6f_6469_6e63;

/// The columns of [`found`], and `place`: which key of the question they answer.
macro_rules! columns {
    () => {
        "SELECT place, i.id, i.window_start, i.status, i.superseded_by, i.reach, i.count, \
            i.closed_at IS NOT NULL AS is_closed, i.total IS NOT NULL AS has_total, i.episode_id "
    };
}

/// Whether a call keeps others from making rows live or dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    No,
    Yes,
}

/// Begins a transaction, and reads the rows of the named keys, those of the windows before, and the runs that begin
/// right after them: one round trip.
pub(super) async fn begin_and_read(
    session: &Session,
    pipeline: &str,
    alone: Alone,
    ledger: &mut Ledger<'_>,
) -> Result<Fence, Error> {
    const TAKE: &str = "SELECT pg_advisory_xact_lock($1) WHERE $2";
    // A statement of its own: it sees what was committed before the lock was had.
    const READ: &str = concat!(
        "WITH named AS (
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS t (id, previous, next, place)) ",
        columns!(),
        "FROM named JOIN incidents i ON i.id = named.id UNION ALL ",
        columns!(),
        "FROM named JOIN incidents i ON i.id = named.previous UNION ALL ",
        columns!(),
        "FROM named JOIN incidents i ON i.episode_id = named.next"
    );
    let named = ledger.named();
    let ids: Vec<_> = named.iter().map(|(_, id)| id.to_string()).collect();
    let (previous, next): (Vec<_>, Vec<_>) = named.iter().map(|(key, _)| neighbours(key)).unzip();
    let (fence, take, read) =
        (session.prepare_fence().await?, session.prepared(TAKE).await?, session.prepared(READ).await?);
    let is_alone = alone == Alone::Yes;
    let (taking, reading): ([Parameter<'_>; 2], [Parameter<'_>; 3]) = ([&LOCK, &is_alone], [&ids, &previous, &next]);
    // In this order: nothing is sent in front of the fence.
    let (held, _, rows) = tokio::try_join!(
        biased;
        session.begin_with(&fence, pipeline),
        session.client.query(&take, &taking),
        session.client.query(&read, &reading),
    )?;
    let keys: Vec<_> = named.into_iter().map(|(key, _)| key).collect();
    put_in(ledger, &keys, &rows);
    Ok(held)
}

/// Reads what lies to the right of rows that have left their run.
pub(super) async fn read_left(session: &Session, ledger: &mut Ledger<'_>) -> Result<(), Error> {
    const READ: &str = concat!(
        columns!(),
        "FROM unnest($1::text[], $2::timestamptz[]) WITH ORDINALITY AS gone (episode_id, window_start, place)
        JOIN incidents i ON i.episode_id = gone.episode_id AND i.window_start > gone.window_start"
    );
    let left = ledger.left();
    if left.is_empty() {
        return Ok(());
    }
    let episodes: Vec<_> = left.iter().map(|(_, episode)| episode.to_string()).collect();
    let starts: Vec<_> = left.iter().map(|(key, _)| stamp(key.window.start)).collect();
    let rows = session.query(READ, &[&episodes, &starts]).await?;
    let keys: Vec<_> = left.into_iter().map(|(key, _)| key).collect();
    put_in(ledger, &keys, &rows);
    Ok(())
}

fn put_in(ledger: &mut Ledger<'_>, keys: &[IncidentKey], rows: &[Row]) {
    for row in rows {
        // Ordinality counts from one.
        let key = usize::try_from(row.get::<_, i64>("place") - 1).ok().and_then(|place| keys.get(place));
        if let (Some(key), Some(found)) = (key, found(row)) {
            ledger.found(key, found);
        }
    }
}

/// `None` for ids that only another program can have written; the schema checks the rest.
fn found(row: &Row) -> Option<Found> {
    let standing = Standing {
        status: Status::from_name(row.get("status"))?,
        superseded_by: row.get::<_, Option<&str>>("superseded_by").and_then(IncidentId::from_hex),
        reach: Reach::from_name(row.get("reach"))?,
        count: row.get::<_, i64>("count").cast_unsigned(),
        is_closed: row.get("is_closed"),
        has_total: row.get("has_total"),
        episode: IncidentId::from_hex(row.get("episode_id"))?,
    };
    Some(Found { id: IncidentId::from_hex(row.get("id"))?, window_start: time(row.get("window_start")), standing })
}
