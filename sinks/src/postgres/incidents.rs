//! Incident rows and their life (W-6, W-9, W-10).

use super::connection::{Fence, Parameter, Session};
use super::ledger::{self, Alone};
use super::values::{FactRows, NewRows, Standings, shown, stamp};
use crate::ledger::{Change, Ledger};
use crate::{Generation, Selection};
use floodmark_model::incident::{ClosedWindow, JudgedIncident};
use floodmark_model::{EventTime, IncidentId};
use tokio_postgres::{Error, Row};

/// See [`crate::IncidentStore::write_incidents`]: one round trip that reads, and one that writes and commits; one more
/// where rows are superseded. Gives the fence back, with nothing written, if it is not of this generation.
pub(super) async fn write(
    session: &Session,
    pipeline: &str,
    generation: Generation,
    rows: &[JudgedIncident],
) -> Result<Result<Vec<IncidentId>, Fence>, Error> {
    let mut ledger = Ledger::of(rows.iter().map(|row| &row.key));
    let held = ledger::begin_and_read(session, pipeline, Alone::Yes, &mut ledger).await?;
    if held != Some(generation.0) {
        session.client.batch_execute("ROLLBACK").await?;
        return Ok(Err(held));
    }
    ledger.write(rows);
    ledger::read_left(session, &mut ledger).await?;
    ledger.link();
    let changes = ledger.changes();
    let (new, changed) = (NewRows::of(&changes), Standings::of(&changes));
    let (insert, change) = (session.prepared(INSERT).await?, session.prepared(CHANGE).await?);
    let (new, changed) = (insert_parameters(&new, &generation), change_parameters(&changed, &generation));
    let last = async {
        tokio::try_join!(biased; session.client.query(&insert, &new), session.client.query(&change, &changed))
    };
    let (new, _) = session.commit_with(last).await?;
    Ok(Ok(new.iter().filter_map(|row| IncidentId::from_hex(row.get(0))).collect()))
}

/// A row that is there is left alone: only another program can have written it after it was looked for.
const INSERT: &str = "WITH new AS (
        INSERT INTO incidents (id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status, reach,
            count, opened_at, samples, episode_id)
        SELECT id, kind, tenant, rule, fingerprint, window_start, window_end, detection, 'open', reach, count,
            opened_at, samples, episode_id
        FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
            $8::text[], $9::text[], $10::bigint[], $11::timestamptz[], $12::jsonb[], $13::text[])
            AS t (id, kind, tenant, rule, fingerprint, window_start, window_end, detection, reach, count, opened_at,
                samples, episode_id)
        ON CONFLICT (id) DO NOTHING
        RETURNING id),
    audit AS (
        INSERT INTO incident_transitions (incident_id, transition, generation)
        SELECT id, 'opened', $14 FROM new)
    SELECT id FROM new";

fn insert_parameters<'a>(rows: &'a NewRows, generation: &'a Generation) -> [Parameter<'a>; 14] {
    [
        &rows.ids,
        &rows.kinds,
        &rows.tenants,
        &rows.rules,
        &rows.fingerprints,
        &rows.starts,
        &rows.ends,
        &rows.detections,
        &rows.reaches,
        &rows.counts,
        &rows.opened,
        &rows.samples,
        &rows.episodes,
        &generation.0,
    ]
}

/// Where rows stand that this call closes no window of. A closing in the other lane may have written totals and closed
/// windows since they were read: what it has written stays.
const CHANGE: &str = "WITH wanted AS (
        SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[])
            AS t (id, status, superseded_by, reach, count, episode_id, transition)),
    locked AS (
        SELECT i.id FROM incidents i JOIN wanted USING (id) ORDER BY i.id FOR UPDATE OF i),
    written AS (
        UPDATE incidents i SET
            status = CASE WHEN w.status NOT IN ('open', 'closed') THEN w.status
                WHEN i.closed_at IS NULL THEN 'open' ELSE 'closed' END,
            superseded_by = w.superseded_by, reason = NULL, episode_id = w.episode_id,
            reach = CASE WHEN i.reach = 'own' THEN i.reach ELSE w.reach END,
            count = CASE WHEN i.total IS NULL THEN greatest(i.count, w.count) ELSE i.count END,
            updated_at = clock_timestamp()
        FROM wanted w JOIN locked USING (id) WHERE i.id = w.id
        RETURNING i.id, w.transition)
    INSERT INTO incident_transitions (incident_id, transition, generation)
    SELECT id, transition, $8 FROM written WHERE transition IS NOT NULL";

fn change_parameters<'a>(rows: &'a Standings, generation: &'a Generation) -> [Parameter<'a>; 8] {
    [
        &rows.ids,
        &rows.statuses,
        &rows.superseded_by,
        &rows.reaches,
        &rows.counts,
        &rows.episodes,
        &rows.transitions,
        &generation.0,
    ]
}

/// One call of [`crate::IncidentStore::close_incidents`].
#[derive(Clone, Copy)]
pub(super) struct Closing<'a> {
    pub(super) generation: Generation,
    pub(super) windows: &'a [ClosedWindow],
    pub(super) settled: bool,
    pub(super) alone: Alone,
}

/// Most closings leave rows live that were, so that no incident that is due has to wait for them: with [`Alone::No`]
/// only those rows are written that stand as they were read. Gives how many rows are withdrawn; `None`: not all is done,
/// and it is to be repeated alone.
pub(super) async fn close(
    session: &Session,
    pipeline: &str,
    closing: Closing<'_>,
) -> Result<(Fence, Option<usize>), Error> {
    let Closing { generation, windows, settled, alone } = closing;
    let mut ledger = Ledger::of(windows.iter().map(|window| &window.facts.key));
    let held = ledger::begin_and_read(session, pipeline, alone, &mut ledger).await?;
    ledger.close(windows, settled);
    let is_alone = alone == Alone::Yes;
    if held != Some(generation.0) || (!is_alone && ledger.moves_any()) {
        return Ok((held, None));
    }
    ledger::read_left(session, &mut ledger).await?;
    ledger.link();
    let changes = ledger.changes();
    let (closed, beside): (Vec<&Change<'_>>, Vec<_>) = changes.iter().partition(|change| change.closing.is_some());
    let facts = FactRows::new(closed.iter().filter_map(|change| Some(&change.closing?.facts)));
    let closed = Standings::of(closed);
    let written = session.query(CLOSE, &close_parameters(&facts, &closed, &closing)).await?;
    if is_alone && !beside.is_empty() {
        session.query(CHANGE, &change_parameters(&Standings::of(beside), &generation)).await?;
    }
    Ok((held, (written.len() == closed.ids.len()).then(|| ledger.withdrawn())))
}

/// Not alone, a row's episode and reach may have changed since it was read.
const CLOSE: &str = "WITH facts AS (
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::jsonb[], $6::text[],
                $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
            AS t (id, total, first_ts, last_ts, samples, before, after, superseded_by, reach, episode_id, transition,
                reason)),
    locked AS (
        SELECT i.id FROM incidents i JOIN facts ON i.id = facts.id WHERE $13 OR i.status = facts.before
        ORDER BY i.id FOR UPDATE OF i),
    written AS (
        UPDATE incidents i SET status = f.after, superseded_by = f.superseded_by, reason = f.reason, count = f.total,
            total = f.total, total_at = clock_timestamp(), first_ts = f.first_ts, last_ts = f.last_ts,
            samples = f.samples, updated_at = clock_timestamp(),
            reach = CASE WHEN i.reach = 'own' THEN i.reach ELSE f.reach END,
            closed_at = CASE WHEN i.closed_at IS NOT NULL OR NOT $14 THEN i.window_end END,
            episode_id = CASE WHEN $13 THEN f.episode_id ELSE i.episode_id END
        FROM facts f JOIN locked USING (id) WHERE i.id = f.id
        RETURNING i.id, f.transition, f.reason),
    audit AS (
        INSERT INTO incident_transitions (incident_id, transition, generation, reason)
        SELECT id, transition, $15, reason FROM written WHERE transition IS NOT NULL)
    SELECT id FROM written";

fn close_parameters<'a>(facts: &'a FactRows, rows: &'a Standings, closing: &'a Closing<'_>) -> [Parameter<'a>; 15] {
    [
        &facts.ids,
        &facts.totals,
        &facts.first,
        &facts.last,
        &facts.samples,
        &rows.befores,
        &rows.statuses,
        &rows.superseded_by,
        &rows.reaches,
        &rows.episodes,
        &rows.transitions,
        &rows.reasons,
        if closing.alone == Alone::Yes { &true } else { &false },
        &closing.settled,
        &closing.generation.0,
    ]
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

/// See [`crate::IncidentStore::stored_incidents`]. Withdrawn rows are left out: to the judge they never fired.
pub(super) async fn stored(session: &Session, since: EventTime) -> Result<Vec<Row>, Error> {
    const STORED: &str =
        "SELECT kind, rule, tenant, fingerprint, window_start, window_end, status, closed_at IS NOT NULL AS is_closed,
            reach, detection
        FROM incidents WHERE window_start >= $1 AND status <> 'withdrawn'
        ORDER BY window_start, tenant COLLATE \"C\", rule COLLATE \"C\", fingerprint COLLATE \"C\", kind";
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
        ORDER BY window_start, tenant COLLATE \"C\", rule COLLATE \"C\", fingerprint COLLATE \"C\", kind";
    let (since, until) = (selection.since.map(stamp), selection.until.map(stamp));
    let tenant = selection.tenant.as_deref().map(shown);
    session.query(SELECT, &[&since, &until, &tenant]).await
}
