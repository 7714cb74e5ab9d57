//! Incident rows and their life (W-6, W-9, W-10).

use super::connection::{Fence, Session};
use super::episodes;
use super::values::{FactRows, NewRows, incident_id, shown, stamp};
use crate::{Generation, Selection};
use floodmark_model::incident::WindowFacts;
use floodmark_model::{EventTime, IncidentId};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::{Error, Row};

/// See [`crate::IncidentStore::insert_incidents`]. One round trip in front of the commit, unless windows adjoin.
pub(super) async fn insert(
    session: &Session,
    pipeline: &str,
    generation: Generation,
    rows: &NewRows,
) -> Result<(Fence, Vec<IncidentId>), Error> {
    const INSERT: &str = "WITH new AS (
            INSERT INTO incidents (id, tenant, rule, fingerprint, window_start, window_end, detection, status, count,
                opened_at, samples, episode_id)
            SELECT id, tenant, rule, fingerprint, window_start, window_end, detection, 'open', count, opened_at,
                samples, id
            FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
                $7::text[], $8::bigint[], $9::timestamptz[], $10::jsonb[])
                AS t (id, tenant, rule, fingerprint, window_start, window_end, detection, count, opened_at, samples)
            ON CONFLICT (id) DO NOTHING
            RETURNING id),
        audit AS (
            INSERT INTO incident_transitions (incident_id, transition, generation)
            SELECT id, 'opened', $11 FROM new)
        SELECT id FROM new";
    // Rows of this very batch are not seen by a statement before it, so this one follows.
    const ADJOINING: &str = "WITH t AS (
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS t (id, previous, next))
        SELECT t.id FROM t JOIN incidents i ON i.id = t.previous AND i.status IN ('open', 'closed')
        UNION
        SELECT t.id FROM t JOIN incidents i ON i.id = t.next AND i.status IN ('open', 'closed')";
    let (insert, adjoining) = (session.prepared(INSERT).await?, session.prepared(ADJOINING).await?);
    let fence = session.prepare_fence().await?;
    let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 11] = [
        &rows.ids,
        &rows.tenants,
        &rows.rules,
        &rows.fingerprints,
        &rows.starts,
        &rows.ends,
        &rows.detections,
        &rows.counts,
        &rows.opened,
        &rows.samples,
        &generation.0,
    ];
    let neighbours: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&rows.ids, &rows.previous_ids, &rows.next_ids];
    // In this order: nothing is sent in front of the fence.
    let (held, new, adjoining) = tokio::try_join!(
        biased;
        session.begin_with(&fence, pipeline),
        session.client.query(&insert, &columns),
        session.client.query(&adjoining, &neighbours),
    )?;
    let new: BTreeSet<IncidentId> = new.iter().filter_map(|row| incident_id(row.get(0))).collect();
    let keys: BTreeMap<&str, _> = rows.ids.iter().map(String::as_str).zip(&rows.keys).collect();
    let joining = adjoining.iter().map(|row| row.get::<_, &str>(0));
    let joining = joining.filter(|id| incident_id(id).is_some_and(|id| new.contains(&id))).map(|id| keys[id]);
    episodes::join_all(session, joining.collect()).await?;
    Ok((held, new.into_iter().collect()))
}

/// See [`crate::IncidentStore::existing`].
pub(super) async fn existing(session: &Session, ids: &[IncidentId]) -> Result<Vec<IncidentId>, Error> {
    let ids: Vec<String> = ids.iter().map(IncidentId::to_string).collect();
    let rows = session.query("SELECT id FROM incidents WHERE id = ANY ($1)", &[&ids]).await?;
    Ok(rows.iter().filter_map(|row| incident_id(row.get(0))).collect())
}

/// See [`crate::IncidentStore::refresh_incidents`]. Facts without rows say nothing yet, and are passed over.
pub(super) async fn refresh(session: &Session, pipeline: &str, facts: &FactRows) -> Result<(Fence, ()), Error> {
    const REFRESH: &str = "WITH facts AS (
            SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::jsonb[])
                AS t (id, total, first_ts, last_ts, samples)),
        locked AS (
            SELECT id FROM incidents JOIN facts USING (id) WHERE closed_at IS NULL AND facts.total > 0
            ORDER BY id FOR UPDATE OF incidents)
        UPDATE incidents SET first_ts = facts.first_ts, last_ts = facts.last_ts, samples = facts.samples,
            updated_at = clock_timestamp()
        FROM facts JOIN locked USING (id) WHERE incidents.id = facts.id";
    let fence = session.begin(pipeline).await?;
    session.query(REFRESH, &[&facts.ids, &facts.totals, &facts.first, &facts.last, &facts.samples]).await?;
    Ok((fence, ()))
}

/// One call of [`crate::IncidentStore::close_incidents`].
#[derive(Clone, Copy)]
pub(super) struct Closing {
    pub(super) generation: Generation,
    pub(super) threshold: u32,
    pub(super) settled: bool,
}

/// W-9. A superseded row stays so, since the incident of the window before stands for it; below the threshold a row was
/// never due, whether its window has closed or not.
pub(super) async fn close(
    session: &Session,
    pipeline: &str,
    closing: Closing,
    rows: &FactRows,
    facts: &[WindowFacts],
) -> Result<(Fence, ()), Error> {
    const CLOSE: &str = "WITH facts AS (
            SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::jsonb[])
                AS t (id, total, first_ts, last_ts, samples)),
        locked AS (
            SELECT i.id, i.status AS before, i.closed_at IS NOT NULL OR NOT $7 AS is_closed
            FROM incidents i JOIN facts USING (id) ORDER BY i.id FOR UPDATE OF i),
        judged AS (
            SELECT *, CASE WHEN before = 'superseded' THEN before
                WHEN total < $6 THEN 'withdrawn'
                WHEN is_closed THEN 'closed' ELSE 'open' END AS after
            FROM facts JOIN locked USING (id)),
        written AS (
            UPDATE incidents i SET status = after, count = j.total, total = j.total, total_at = clock_timestamp(),
                first_ts = j.first_ts, last_ts = j.last_ts, samples = j.samples, updated_at = clock_timestamp(),
                closed_at = CASE WHEN is_closed THEN window_end END,
                reason = CASE WHEN after = 'withdrawn'
                    THEN format('the total of %s is below the threshold of %s', j.total, $6) END
            FROM judged j WHERE i.id = j.id
            RETURNING i.id, before, after, i.reason),
        audit AS (
            INSERT INTO incident_transitions (incident_id, transition, generation, reason)
            SELECT id, CASE WHEN after = 'withdrawn' THEN after WHEN before = 'withdrawn' THEN 'returned'
                ELSE 'closed' END, $8, reason
            FROM written WHERE before <> after)
        SELECT id, before IN ('open', 'closed') AS was_live, after IN ('open', 'closed') AS is_live FROM written
        WHERE (before IN ('open', 'closed')) <> (after IN ('open', 'closed'))";
    let fence = session.begin(pipeline).await?;
    let threshold = i64::from(closing.threshold);
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 8] = [
        &rows.ids,
        &rows.totals,
        &rows.first,
        &rows.last,
        &rows.samples,
        &threshold,
        &closing.settled,
        &closing.generation.0,
    ];
    let changed = session.query(CLOSE, &parameters).await?;
    let keys: BTreeMap<String, _> = facts.iter().map(|facts| (facts.key.id().to_string(), &facts.key)).collect();
    let (joining, leaving): (Vec<_>, Vec<_>) = changed.iter().partition(|row| row.get("is_live"));
    let key = |row: &Row| keys[row.get::<_, &str>("id")];
    // A run that a row leaves is parted before another one joins it: what joins takes the whole run to its right along.
    for row in leaving {
        episodes::leave(session, key(row)).await?;
    }
    episodes::join_all(session, joining.into_iter().map(key).collect()).await?;
    Ok((fence, ()))
}

/// See [`crate::IncidentStore::stored_incidents`]. Withdrawn rows are left out: to the judge they never fired.
pub(super) async fn stored(session: &Session, since: EventTime) -> Result<Vec<Row>, Error> {
    const STORED: &str =
        "SELECT rule, tenant, fingerprint, window_start, window_end, closed_at IS NOT NULL AS is_closed
        FROM incidents WHERE window_start >= $1 AND status <> 'withdrawn'
        ORDER BY window_start, tenant COLLATE \"C\", rule COLLATE \"C\", fingerprint COLLATE \"C\"";
    session.query(STORED, &[&stamp(since)]).await
}

/// See [`crate::IncidentStore::incidents`].
pub(super) async fn select(session: &Session, selection: &Selection) -> Result<Vec<Row>, Error> {
    // Named columns: a later release may add some while this one runs.
    const SELECT: &str =
        "SELECT id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status, count,
            total, first_ts, last_ts, opened_at, closed_at, episode_id, superseded_by, samples
        FROM incidents
        WHERE ($1::timestamptz IS NULL OR window_start >= $1) AND ($2::timestamptz IS NULL OR window_start < $2)
            AND ($3::text IS NULL OR tenant = $3)
        ORDER BY window_start, tenant COLLATE \"C\", rule COLLATE \"C\", fingerprint COLLATE \"C\"";
    let (since, until) = (selection.since.map(stamp), selection.until.map(stamp));
    let tenant = selection.tenant.as_deref().map(shown);
    session.query(SELECT, &[&since, &until, &tenant]).await
}
