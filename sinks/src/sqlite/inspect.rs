//! Questions of people and checks (see [`crate::inspect`]).

use super::calls::Handout;
use super::classify::Trouble;
use super::columns::{count, interned};
use super::conditions::{self, CUT, RuleFilter, floored, ten_seconds};
use super::{SqliteStore, text};
use crate::StoreError;
use crate::inspect::{
    ANSWERS_MAX, ClampedRow, History, InspectIncidents, InspectOccurrences, KeyStretch, RowGroup, Seen, SettledCount,
    StoredRows, Transition, fingerprint_range,
};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::{EventTime, Fingerprint, IncidentId, Level, RecordTime, Rule, TopicId};
use rusqlite::{Connection, OptionalExtension, named_params};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of one key, or of a range of them; with the parameters of [`OfKey`].
const OF_KEY: &str = "occurrences.ten_seconds BETWEEN :first_step AND :last_step AND occurrences.tenant = :tenant
    AND occurrences.fingerprint_bits BETWEEN :least AND :greatest AND occurrences.ts >= :from AND occurrences.ts < :until";

/// The parameters of [`OF_KEY`].
struct OfKey {
    tenant: String,
    least: [u8; 16],
    greatest: [u8; 16],
    from: EventTime,
    until: EventTime,
}

impl OfKey {
    fn new(stretch: &KeyStretch<'_>) -> Self {
        let KeyStretch { tenant, fingerprint, from, until } = *stretch;
        Self { tenant: tenant.to_owned(), least: fingerprint.0, greatest: fingerprint.0, from, until }
    }
}

/// Parameters of [`OF_KEY`], and more.
macro_rules! of_key {
    ($key:expr $(, $name:literal: $value:expr)*) => {
        named_params! {
            ":first_step": ten_seconds($key.from),
            ":last_step": ten_seconds($key.until.minus(1)),
            ":tenant": $key.tenant,
            ":least": $key.least,
            ":greatest": $key.greatest,
            ":from": $key.from.0,
            ":until": $key.until.0,
            $($name: $value,)*
        }
    };
}

impl InspectOccurrences for SqliteStore {
    fn keeps_for_ms(&self) -> Option<i64> {
        None
    }

    async fn fingerprints(
        &self,
        tenant: &str,
        prefix: &str,
        from: EventTime,
        until: EventTime,
    ) -> Result<Vec<Fingerprint>, StoreError> {
        let Some((least, greatest)) = fingerprint_range(prefix) else { return Ok(Vec::new()) };
        let key = OfKey { tenant: tenant.to_owned(), least: least.0, greatest: greatest.0, from, until };
        self.read("look fingerprints up", move |reader| fingerprints(reader, &key)).await
    }

    async fn row_groups(
        &self,
        stretch: KeyStretch<'_>,
        recorded_after: RecordTime,
    ) -> Result<Vec<RowGroup>, StoreError> {
        let key = OfKey::new(&stretch);
        self.read("read the rows of a key", move |reader| row_groups(reader, &key, recorded_after)).await
    }

    async fn clamped(&self, stretch: KeyStretch<'_>) -> Result<Vec<ClampedRow>, StoreError> {
        let key = OfKey::new(&stretch);
        self.read("read clamped rows", move |reader| clamped(reader, &key)).await
    }

    async fn dead_letters(&self, from: RecordTime, until: RecordTime) -> Result<BTreeMap<String, u64>, StoreError> {
        self.read("count dead letters", move |reader| {
            let mut statement = reader.prepare_cached(
                "SELECT reason, count(*) FROM dead_letters WHERE record_time >= ? AND record_time < ? GROUP BY reason",
            )?;
            let rows = statement.query_map([from.0, until.0], |row| Ok((row.get(0)?, count(row, 1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn stored_rows(&self, progress: &Progress) -> Result<Vec<StoredRows>, StoreError> {
        let cut = conditions::cut(progress);
        self.read("count rows", move |reader| stored_rows(reader, &cut)).await
    }

    async fn dead_letters_elsewhere(&self, progress: &Progress) -> Result<u64, StoreError> {
        let cut = conditions::cut(progress);
        self.read("count dead letters", move |reader| {
            let mut statement = reader.prepare_cached(&format!(
                "{CUT} SELECT count(*) FROM dead_letters WHERE topic NOT IN (SELECT topic FROM cut)"
            ))?;
            Ok(statement.query_row(named_params! { ":cut": cut }, |row| count(row, 0))?)
        })
        .await
    }

    async fn tenants_with(&self, fingerprint: Fingerprint) -> Result<Vec<Seen>, StoreError> {
        self.read("look for a fingerprint", move |reader| tenants_with(reader, fingerprint)).await
    }

    async fn settled_counts(
        &self,
        rule: &Rule,
        from: EventTime,
        until: EventTime,
        progress: &Progress,
        each: impl FnMut(SettledCount) + Send,
    ) -> Result<(), StoreError> {
        let (rule, cut) = (rule.clone(), conditions::cut(progress));
        let count =
            move |reader: &Connection, out: &mut Handout<_>| settled_counts(reader, &rule, (from, until), &cut, out);
        self.stream("count buckets", count, each).await
    }
}

fn fingerprints(reader: &Connection, key: &OfKey) -> Result<Vec<Fingerprint>, Trouble> {
    let mut statement = reader.prepare_cached(&format!(
        "SELECT DISTINCT fingerprint_bits FROM occurrences WHERE {OF_KEY} ORDER BY 1 LIMIT {ANSWERS_MAX}"
    ))?;
    let rows = statement.query_map(of_key!(key), |row| Ok(Fingerprint(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn row_groups(reader: &Connection, key: &OfKey, recorded_after: RecordTime) -> Result<Vec<RowGroup>, Trouble> {
    let mut statement = reader.prepare_cached(&format!(
        "SELECT level, service, ts_missing, ts_clamped, record_time >= :after AS recorded_after, count(*) AS counted
        FROM occurrences WHERE {OF_KEY}
        GROUP BY level, service, ts_missing, ts_clamped, recorded_after
        ORDER BY counted DESC, level, service LIMIT {ANSWERS_MAX}"
    ))?;
    let rows = statement.query_map(of_key!(key, ":after": recorded_after.0), |row| {
        Ok(RowGroup {
            level: level(row.get(0)?),
            service: row.get(1)?,
            ts_missing: row.get(2)?,
            ts_clamped: row.get(3)?,
            recorded_after: row.get(4)?,
            count: count(row, 5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn level(number: u8) -> Level {
    [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Fatal]
        .into_iter()
        .find(|level| *level as u8 == number)
        .unwrap_or(Level::Error)
}

fn clamped(reader: &Connection, key: &OfKey) -> Result<Vec<ClampedRow>, Trouble> {
    let mut statement = reader.prepare_cached(&format!(
        "SELECT ts, ts_original, record_time FROM occurrences
        WHERE {OF_KEY} AND ts_clamped ORDER BY ts LIMIT {ANSWERS_MAX}"
    ))?;
    let rows = statement.query_map(of_key!(key), |row| {
        let record_time = RecordTime(row.get(2)?);
        Ok(ClampedRow { ts: EventTime(row.get(0)?), ts_original: text::shown(row.get_ref(1)?.as_str()?), record_time })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn tenants_with(reader: &Connection, fingerprint: Fingerprint) -> Result<Vec<Seen>, Trouble> {
    let mut statement = reader.prepare_cached(&format!(
        "SELECT tenant, min(ts), max(ts), count(*) AS counted FROM occurrences WHERE fingerprint_bits = ?
        GROUP BY tenant ORDER BY counted DESC, tenant LIMIT {ANSWERS_MAX}"
    ))?;
    let rows = statement.query_map([fingerprint.0], |row| {
        let (first_ts, last_ts) = (EventTime(row.get(1)?), EventTime(row.get(2)?));
        Ok(Seen { tenant: text::shown(row.get_ref(0)?.as_str()?), first_ts, last_ts, count: count(row, 3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn stored_rows(reader: &Connection, cut: &str) -> Result<Vec<StoredRows>, Trouble> {
    let mut rows: BTreeMap<PartitionKey, StoredRows> = BTreeMap::new();
    for table in ["occurrences", "unmatched", "dead_letters"] {
        let with_event_id = if table == "dead_letters" { "0" } else { "count(identity)" };
        let mut statement = reader.prepare_cached(&format!(
            "{CUT} SELECT topics.topic_id, {table}.\"partition\", count(*), {with_event_id}
            FROM {table} JOIN cut ON cut.topic = {table}.topic AND cut.\"partition\" = {table}.\"partition\"
                AND {table}.\"offset\" < cut.next_offset
            JOIN topics ON topics.topic = {table}.topic
            GROUP BY 1, 2"
        ))?;
        let mut found = statement.query(named_params! { ":cut": cut })?;
        while let Some(row) = found.next()? {
            let key = PartitionKey { topic_id: TopicId(row.get(0)?), partition: row.get(1)? };
            let nothing =
                StoredRows { key, occurrences: 0, with_event_id: 0, unmatched: 0, dead_letters: 0, oldest: None };
            let stored = rows.entry(key).or_insert(nothing);
            match table {
                "occurrences" => (stored.occurrences, stored.with_event_id) = (count(row, 2)?, count(row, 3)?),
                "unmatched" => stored.unmatched = count(row, 2)?,
                _ => stored.dead_letters = count(row, 2)?,
            }
        }
    }
    Ok(rows.into_values().collect())
}

fn settled_counts(
    reader: &Connection,
    rule: &Rule,
    (from, until): (EventTime, EventTime),
    cut: &str,
    out: &mut Handout<SettledCount>,
) -> Result<(), Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let bucket = floored("occurrences.ts", ":bucket");
    let mut statement = reader.prepare_cached(&format!(
        "{CUT} SELECT occurrences.tenant, occurrences.fingerprint_bits, {bucket} AS bucket, count(*),
            count(cut.next_offset)
        FROM occurrences INDEXED BY occurrences_by_key LEFT JOIN cut ON cut.topic = occurrences.topic
            AND cut.\"partition\" = occurrences.\"partition\" AND occurrences.\"offset\" < cut.next_offset
        WHERE occurrences.ten_seconds BETWEEN :first_step AND :last_step
            AND occurrences.ts >= :from AND occurrences.ts < :until AND {counted}
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ))?;
    let mut rows = statement.query(named_params! {
        ":cut": cut,
        ":bucket": rule.bucket_ms(),
        ":first_step": ten_seconds(from),
        ":last_step": ten_seconds(until.minus(1)),
        ":from": from.0,
        ":until": until.0,
        ":level": filter.level,
        ":tenants": filter.tenants,
        ":services": filter.services,
    })?;
    let mut tenant: Arc<str> = "".into();
    while let Some(row) = rows.next()? {
        tenant = interned(tenant, row)?;
        out.put(SettledCount {
            tenant: Arc::clone(&tenant),
            fingerprint: Fingerprint(row.get(1)?),
            bucket_start: EventTime(row.get(2)?),
            count: count(row, 3)?,
            covered: count(row, 4)?,
        })?;
    }
    Ok(())
}

impl InspectIncidents for SqliteStore {
    async fn history(&self, id: IncidentId) -> Result<History, StoreError> {
        self.read("read an incident's history", move |reader| history(reader, id)).await
    }
}

fn history(reader: &Connection, id: IncidentId) -> Result<History, Trouble> {
    let id = id.to_string();
    let reason = reader
        .prepare_cached("SELECT reason FROM incidents WHERE id = ?")?
        .query_row([&id], |row| row.get(0))
        .optional()?
        .flatten();
    let mut statement = reader.prepare_cached(
        "SELECT transition, at, reason FROM incident_transitions WHERE incident_id = ? ORDER BY transition_id",
    )?;
    let rows = statement.query_map([&id], |row| {
        Ok(Transition { transition: row.get(0)?, at: EventTime(row.get(1)?), reason: row.get(2)? })
    })?;
    Ok(History { reason, transitions: rows.collect::<Result<_, _>>()? })
}
