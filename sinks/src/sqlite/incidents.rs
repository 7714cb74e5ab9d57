//! Incident rows and their life (W-6, W-9, W-10).

use super::classify::Trouble;
use super::pipeline::NOW;
use super::{episodes, text};
use crate::{Generation, Selection, StoredIncident};
use floodmark_model::incident::{IncidentRow, JudgedIncident, Sample, Status, WindowFacts};
use floodmark_model::{Detection, EventTime, Fingerprint, IncidentId, IncidentKey, IncidentKind, Window};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};

/// See [`crate::IncidentStore::insert_incidents`]. A row that was withdrawn and is due after all comes back when its
/// total says so, not here.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    generation: Generation,
    incidents: Vec<JudgedIncident>,
) -> Result<Vec<IncidentId>, Trouble> {
    let mut new = Vec::new();
    for incident in incidents {
        let id = incident.key.id();
        if insert_row(transaction, &incident)? {
            audit(transaction, generation, id, "opened", None)?;
            episodes::join(transaction, &incident.key)?;
            new.push(id);
        }
    }
    Ok(new)
}

fn insert_row(transaction: &Transaction<'_>, incident: &JudgedIncident) -> Result<bool, Trouble> {
    let key = &incident.key;
    let sample = incident.message.as_ref().map(|message| Sample { message: message.to_string(), count: 1 });
    let inserted = transaction
        .prepare_cached(
            "INSERT INTO incidents (id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status,
                count, opened_at, episode_id, samples)
            VALUES (:id, 'burst', :tenant, :rule, :fingerprint, :window_start, :window_end, :detection, 'open',
                :count, :opened_at, :id, :samples)
            ON CONFLICT (id) DO NOTHING",
        )?
        .execute(named_params! {
            ":id": key.id().to_string(),
            ":tenant": key.tenant,
            ":rule": key.rule,
            ":fingerprint": key.fingerprint.to_string(),
            ":window_start": key.window.start.0,
            ":window_end": key.window.end().0,
            ":detection": incident.detection.name(),
            ":count": incident.count.cast_signed(),
            ":opened_at": incident.opened_at.0,
            ":samples": samples_json(sample.as_slice())?,
        })?;
    Ok(inserted == 1)
}

/// See [`crate::IncidentStore::existing`].
pub(super) fn existing(reader: &Connection, ids: &[IncidentId]) -> Result<Vec<IncidentId>, Trouble> {
    let mut statement = reader.prepare_cached("SELECT EXISTS (SELECT 1 FROM incidents WHERE id = ?)")?;
    let mut existing = Vec::new();
    for &id in ids {
        if statement.query_row([id.to_string()], |row| row.get(0))? {
            existing.push(id);
        }
    }
    Ok(existing)
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

/// One call of [`crate::IncidentStore::close_incidents`].
#[derive(Clone, Copy)]
pub(super) struct Closing {
    pub(super) generation: Generation,
    pub(super) threshold: u32,
    pub(super) settled: bool,
}

impl Closing {
    pub(super) fn apply(self, transaction: &Transaction<'_>, facts: &[WindowFacts]) -> Result<(), Trouble> {
        facts.iter().try_for_each(|facts| self.close(transaction, facts))
    }

    fn close(self, transaction: &Transaction<'_>, facts: &WindowFacts) -> Result<(), Trouble> {
        let id = facts.key.id();
        let stored = transaction
            .prepare_cached("SELECT status, closed_at IS NOT NULL FROM incidents WHERE id = ?")?
            .query_row([id.to_string()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))
            .optional()?;
        let Some((status, was_closed)) = stored else { return Ok(()) };
        let before = known(Status::from_name(&status), "status", &status)?;
        let is_closed = was_closed || !self.settled;
        let after = status_after(before, self.threshold, facts.total, is_closed);
        let reason = (after == Status::Withdrawn)
            .then(|| format!("the total of {} is below the threshold of {}", facts.total, self.threshold));
        write_facts(transaction, facts, after, is_closed, reason.as_deref())?;
        if before != after {
            audit(transaction, self.generation, id, transition(before, after), reason.as_deref())?;
        }
        match (is_live(before), is_live(after)) {
            (true, false) => episodes::leave(transaction, &facts.key),
            (false, true) => episodes::join(transaction, &facts.key),
            _ => Ok(()),
        }
    }
}

fn write_facts(
    transaction: &Transaction<'_>,
    facts: &WindowFacts,
    status: Status,
    is_closed: bool,
    reason: Option<&str>,
) -> Result<(), Trouble> {
    let time = |time: EventTime| (facts.total > 0).then_some(time.0);
    transaction
        .prepare_cached(&format!(
            "UPDATE incidents
            SET status = :status, count = :total, total = :total, total_at = {NOW}, first_ts = :first_ts,
                last_ts = :last_ts, closed_at = iif(:is_closed, window_end, NULL), reason = :reason, samples = :samples
            WHERE id = :id"
        ))?
        .execute(named_params! {
            ":status": status.name(),
            ":total": facts.total.cast_signed(),
            ":first_ts": time(facts.first_ts),
            ":last_ts": time(facts.last_ts),
            ":is_closed": is_closed,
            ":reason": reason,
            ":samples": samples_json(&facts.samples)?,
            ":id": facts.key.id().to_string(),
        })?;
    Ok(())
}

/// W-9: what a row is once its total is known. A superseded one stays so, since the incident of the window before
/// stands for it; `total` says that a row was never due whether its window has closed or not.
fn status_after(before: Status, threshold: u32, total: u64, is_closed: bool) -> Status {
    match before {
        Status::Superseded => Status::Superseded,
        _ if total < u64::from(threshold) => Status::Withdrawn,
        _ if is_closed => Status::Closed,
        _ => Status::Open,
    }
}

/// Whether a row counts as an incident of its window (W-7).
fn is_live(status: Status) -> bool {
    matches!(status, Status::Open | Status::Closed)
}

fn transition(before: Status, after: Status) -> &'static str {
    match after {
        Status::Withdrawn => "withdrawn",
        _ if before == Status::Withdrawn => "returned",
        _ => "closed",
    }
}

/// a row for each change, in the transaction of the change.
fn audit(
    transaction: &Transaction<'_>,
    generation: Generation,
    id: IncidentId,
    transition: &str,
    reason: Option<&str>,
) -> Result<(), Trouble> {
    transaction
        .prepare_cached(&format!(
            "INSERT INTO incident_transitions (incident_id, transition, at, generation, reason)
            VALUES (?, ?, {NOW}, ?, ?)"
        ))?
        .execute(params![id.to_string(), transition, generation.0, reason])?;
    Ok(())
}

/// See [`crate::IncidentStore::stored_incidents`]. Withdrawn rows are left out: to the judge they never fired.
pub(super) fn stored(reader: &Connection, since: EventTime) -> Result<Vec<StoredIncident>, Trouble> {
    let mut statement = reader.prepare_cached(
        "SELECT rule, tenant, fingerprint, window_start, window_end, closed_at IS NOT NULL
        FROM incidents WHERE window_start >= ? AND status <> 'withdrawn'
        ORDER BY window_start, tenant, rule, fingerprint",
    )?;
    let rows = statement.query_and_then([since.0], |row| {
        let (fingerprint, start): (String, i64) = (row.get(2)?, row.get(3)?);
        let key = IncidentKey {
            kind: IncidentKind::Burst,
            rule: row.get::<_, String>(0)?.into(),
            tenant: row.get::<_, String>(1)?.into(),
            fingerprint: known(Fingerprint::from_hex(&fingerprint), "fingerprint", &fingerprint)?,
            window: Window { start: EventTime(start), size_ms: row.get::<_, i64>(4)?.saturating_sub(start) },
        };
        Ok(StoredIncident { key, is_closed: row.get(5)? })
    })?;
    rows.collect()
}

/// See [`crate::IncidentStore::incidents`].
pub(super) fn select(reader: &Connection, selection: &Selection) -> Result<Vec<IncidentRow>, Trouble> {
    let mut statement = reader.prepare_cached(
        "SELECT * FROM incidents
        WHERE window_start >= :since AND window_start < :until AND (:tenant IS NULL OR tenant = :tenant)
        ORDER BY window_start, tenant, rule, fingerprint",
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
    let (detection, status): (String, String) = (row.get("detection")?, row.get("status")?);
    let samples: String = row.get("samples")?;
    Ok(IncidentRow {
        id: row.get("id")?,
        kind: row.get("kind")?,
        tenant: row.get("tenant")?,
        rule: row.get("rule")?,
        fingerprint: row.get("fingerprint")?,
        window_start: EventTime(row.get("window_start")?),
        window_end: EventTime(row.get("window_end")?),
        detection: known(Detection::from_name(&detection), "detection", &detection)?,
        status: known(Status::from_name(&status), "status", &status)?,
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

/// What only another program, or a damaged disk, can have written.
fn known<T>(value: Option<T>, what: &str, found: &str) -> Result<T, Trouble> {
    value.ok_or_else(|| Trouble::Refused(format!("table incidents holds an unknown {what}: {found:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w9_the_total_decides_whatever_the_row_was() {
        for before in [Status::Open, Status::Closed, Status::Withdrawn] {
            assert_eq!(status_after(before, 10, 9, true), Status::Withdrawn);
            assert_eq!(status_after(before, 10, 10, true), Status::Closed);
            assert_eq!(status_after(before, 10, 10, false), Status::Open);
        }
        assert_eq!(status_after(Status::Superseded, 10, 50, true), Status::Superseded);
    }
}
