//! Incident rows and their life (W-6, W-9, W-10).

use super::classify::Trouble;
use super::columns::{known, parsed};
use super::pipeline::NOW;
use super::{ledger, text};
use crate::ledger::{Change, Ledger};
use crate::{Generation, Selection, StoredIncident};
use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, Sample, Status, WindowFacts};
use floodmark_model::{Detection, EventTime, Fingerprint, IncidentId, IncidentKey, IncidentKind, Reach, Window};
use rusqlite::{Connection, Row, Transaction, named_params, params};

/// See [`crate::IncidentStore::write_incidents`].
pub(super) fn write(
    transaction: &Transaction<'_>,
    generation: Generation,
    rows: &[JudgedIncident],
) -> Result<Vec<IncidentId>, Trouble> {
    let mut ledger = Ledger::of(rows.iter().map(|row| &row.key));
    ledger::read(transaction, &mut ledger)?;
    ledger.write(rows);
    ledger::read_left(transaction, &mut ledger)?;
    ledger.link();
    let changes = ledger.changes();
    changes.iter().try_for_each(|change| apply(transaction, generation, change))?;
    Ok(changes.iter().filter(|change| change.before.is_none()).map(|change| change.id).collect())
}

/// See [`crate::IncidentStore::close_incidents`].
pub(super) fn close(
    transaction: &Transaction<'_>,
    generation: Generation,
    windows: &[ClosedWindow],
    settled: bool,
) -> Result<usize, Trouble> {
    let mut ledger = Ledger::of(windows.iter().map(|window| &window.facts.key));
    ledger::read(transaction, &mut ledger)?;
    ledger.close(windows, settled);
    ledger::read_left(transaction, &mut ledger)?;
    ledger.link();
    ledger.changes().iter().try_for_each(|change| apply(transaction, generation, change))?;
    Ok(ledger.withdrawn())
}

fn apply(transaction: &Transaction<'_>, generation: Generation, change: &Change<'_>) -> Result<(), Trouble> {
    if let (None, Some(opening)) = (change.before, change.opening) {
        insert_row(transaction, change, opening)?;
    } else if change.before != Some(change.now) {
        write_standing(transaction, change)?;
    }
    if let Some(closing) = change.closing {
        write_facts(transaction, &closing.facts, change)?;
    }
    match change.transition() {
        Some(transition) => audit(transaction, generation, change, transition),
        None => Ok(()),
    }
}

fn insert_row(transaction: &Transaction<'_>, change: &Change<'_>, opening: &JudgedIncident) -> Result<(), Trouble> {
    let (key, now) = (change.key, &change.now);
    let sample = opening.message.as_ref().map(|message| Sample { message: message.to_string(), count: 1 });
    transaction
        .prepare_cached(
            "INSERT INTO incidents (id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status,
                reach, count, opened_at, episode_id, samples)
            VALUES (:id, :kind, :tenant, :rule, :fingerprint, :window_start, :window_end, :detection, :status, :reach,
                :count, :opened_at, :episode, :samples)",
        )?
        .execute(named_params! {
            ":id": change.id.to_string(),
            ":kind": key.kind.name(),
            ":tenant": key.tenant,
            ":rule": key.rule,
            ":fingerprint": key.fingerprint.to_string(),
            ":window_start": key.window.start.0,
            ":window_end": key.window.end().0,
            ":detection": opening.detection.name(),
            ":status": now.status.name(),
            ":reach": now.reach.name(),
            ":count": now.count.cast_signed(),
            ":opened_at": opening.opened_at.0,
            ":episode": now.episode.to_string(),
            ":samples": samples_json(sample.as_slice())?,
        })?;
    Ok(())
}

fn write_standing(transaction: &Transaction<'_>, change: &Change<'_>) -> Result<(), Trouble> {
    let now = &change.now;
    transaction
        .prepare_cached(
            "UPDATE incidents
            SET status = :status, superseded_by = :superseded_by, reason = :reason, reach = :reach, count = :count,
                episode_id = :episode
            WHERE id = :id",
        )?
        .execute(named_params! {
            ":status": now.status.name(),
            ":superseded_by": now.superseded_by.map(|id| id.to_string()),
            ":reason": change.reason(),
            ":reach": now.reach.name(),
            ":count": now.count.cast_signed(),
            ":episode": now.episode.to_string(),
            ":id": change.id.to_string(),
        })?;
    Ok(())
}

fn write_facts(transaction: &Transaction<'_>, facts: &WindowFacts, change: &Change<'_>) -> Result<(), Trouble> {
    let time = |time: EventTime| (facts.total > 0).then_some(time.0);
    transaction
        .prepare_cached(&format!(
            "UPDATE incidents
            SET total = :total, total_at = {NOW}, first_ts = :first_ts, last_ts = :last_ts, reason = :reason,
                closed_at = iif(:is_closed, window_end, NULL), samples = :samples
            WHERE id = :id"
        ))?
        .execute(named_params! {
            ":total": facts.total.cast_signed(),
            ":first_ts": time(facts.first_ts),
            ":last_ts": time(facts.last_ts),
            // It names the total.
            ":reason": change.reason(),
            ":is_closed": change.now.is_closed,
            ":samples": samples_json(&facts.samples)?,
            ":id": change.id.to_string(),
        })?;
    Ok(())
}

/// a row for each change of a status, in the transaction of the change.
fn audit(
    transaction: &Transaction<'_>,
    generation: Generation,
    change: &Change<'_>,
    transition: &str,
) -> Result<(), Trouble> {
    transaction
        .prepare_cached(&format!(
            "INSERT INTO incident_transitions (incident_id, transition, at, generation, reason)
            VALUES (?, ?, {NOW}, ?, ?)"
        ))?
        .execute(params![change.id.to_string(), transition, generation.0, change.reason()])?;
    Ok(())
}

/// See [`crate::IncidentStore::refresh_incidents`]. Facts without rows say nothing yet, and are passed over.
pub(super) fn refresh(transaction: &Transaction<'_>, facts: &[WindowFacts]) -> Result<(), Trouble> {
    let mut statement = transaction.prepare_cached(
        "UPDATE incidents SET first_ts = ?, last_ts = ?, samples = ? WHERE id = ? AND closed_at IS NULL",
    )?;
    for facts in facts.iter().filter(|facts| facts.total > 0) {
        statement.execute(params![
            facts.first_ts.0,
            facts.last_ts.0,
            samples_json(&facts.samples)?,
            facts.key.id().to_string(),
        ])?;
    }
    Ok(())
}

/// See [`crate::IncidentStore::stored_incidents`]. Withdrawn rows are left out: to the judge they never fired.
pub(super) fn stored(reader: &Connection, since: EventTime) -> Result<Vec<StoredIncident>, Trouble> {
    let mut statement = reader.prepare_cached(
        "SELECT kind, rule, tenant, fingerprint, window_start, window_end, status, closed_at IS NOT NULL AS is_closed,
            reach, detection
        FROM incidents WHERE window_start >= ? AND status <> 'withdrawn'
        ORDER BY window_start, tenant, rule, fingerprint, kind",
    )?;
    let rows = statement.query_and_then([since.0], stored_incident)?;
    rows.collect()
}

fn stored_incident(row: &Row<'_>) -> Result<StoredIncident, Trouble> {
    let text = |column: &str| row.get::<_, String>(column);
    let (start, end): (i64, i64) = (row.get("window_start")?, row.get("window_end")?);
    let key = IncidentKey {
        kind: parsed(row, "kind", IncidentKind::from_name)?,
        rule: text("rule")?.into(),
        tenant: text("tenant")?.into(),
        fingerprint: parsed(row, "fingerprint", Fingerprint::from_hex)?,
        window: Window { start: EventTime(start), size_ms: end.saturating_sub(start) },
    };
    Ok(StoredIncident {
        key,
        status: parsed(row, "status", Status::from_name)?,
        is_closed: row.get("is_closed")?,
        reach: parsed(row, "reach", Reach::from_name)?,
        detection: parsed(row, "detection", Detection::from_name)?,
    })
}

/// See [`crate::IncidentStore::incidents`].
pub(super) fn select(reader: &Connection, selection: &Selection) -> Result<Vec<IncidentRow>, Trouble> {
    let mut statement = reader.prepare_cached(
        "SELECT * FROM incidents
        WHERE window_start >= :since AND window_start < :until AND (:tenant IS NULL OR tenant = :tenant)
        ORDER BY window_start, tenant, rule, fingerprint, kind",
    )?;
    let rows = statement.query_and_then(
        named_params! {
            ":since": selection.since.map_or(i64::MIN, |since| since.0),
            ":until": selection.until.map_or(i64::MAX, |until| until.0),
            ":tenant": selection.tenant,
        },
        incident_row,
    )?;
    rows.collect()
}

fn incident_row(row: &Row<'_>) -> Result<IncidentRow, Trouble> {
    let time = |column: &str| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(EventTime));
    let samples: String = row.get("samples")?;
    Ok(IncidentRow {
        id: row.get("id")?,
        kind: row.get("kind")?,
        tenant: row.get("tenant")?,
        rule: row.get("rule")?,
        fingerprint: row.get("fingerprint")?,
        window_start: EventTime(row.get("window_start")?),
        window_end: EventTime(row.get("window_end")?),
        detection: parsed(row, "detection", Detection::from_name)?,
        status: parsed(row, "status", Status::from_name)?,
        count: row.get::<_, i64>("count")?.cast_unsigned(),
        total: row.get::<_, Option<i64>>("total")?.map(i64::cast_unsigned),
        first_ts: time("first_ts")?,
        last_ts: time("last_ts")?,
        opened_at: EventTime(row.get("opened_at")?),
        closed_at: time("closed_at")?,
        episode_id: row.get("episode_id")?,
        superseded_by: row.get("superseded_by")?,
        samples: known(serde_json::from_str(&samples).ok(), "list of samples", &samples)?,
    })
}

fn samples_json(samples: &[Sample]) -> Result<String, Trouble> {
    let shown: Vec<_> =
        samples.iter().map(|sample| Sample { message: text::shown(&sample.message), count: sample.count }).collect();
    serde_json::to_string(&shown).map_err(|error| Trouble::Refused(format!("cannot write samples: {error}")))
}
