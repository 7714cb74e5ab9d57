//! Questions of people and checks (see [`crate::inspect`]).

use super::conditions::{Condition, CountedBy, Covered, OfTenant, Slots, TimeSpan, all, bind_all};
use super::connection::Connection;
use super::names::Names;
use super::{ClickHouseStore, recover};
use crate::StoreError;
use crate::inspect::{
    ANSWERS_MAX, ClampedRow, InspectOccurrences, KeyStretch, RowGroup, Seen, SettledCount, StoredRows,
    fingerprint_range,
};
use clickhouse::Row;
use clickhouse::query::Query;
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::{EventTime, Fingerprint, Level, RecordTime, Rule};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const DAY_MS: i64 = 86_400_000;

/// Fingerprints from one to another.
struct Fingerprints(Fingerprint, Fingerprint);

impl Condition for Fingerprints {
    fn sql(&self) -> String {
        "fingerprint_bits BETWEEN {least:UInt128} AND {greatest:UInt128}".into()
    }

    fn bind(&self, query: Query) -> Query {
        query.param("least", self.0.bits()).param("greatest", self.1.bits())
    }
}

impl InspectOccurrences for ClickHouseStore {
    fn keeps_for_ms(&self) -> Option<i64> {
        Some(i64::from(self.retention_days) * DAY_MS)
    }

    async fn fingerprints(
        &self,
        tenant: &str,
        prefix: &str,
        from: EventTime,
        until: EventTime,
    ) -> Result<Vec<Fingerprint>, StoreError> {
        let Some((least, greatest)) = fingerprint_range(prefix) else { return Ok(Vec::new()) };
        let span = TimeSpan { from, until: Some(until) };
        let conditions: [&dyn Condition; 3] = [&span, &OfTenant(tenant), &Fingerprints(least, greatest)];
        let sql = format!(
            "SELECT DISTINCT fingerprint_bits FROM occurrences WHERE {} ORDER BY fingerprint_bits LIMIT {ANSWERS_MAX}",
            all(&conditions)
        );
        let query = bind_all(self.connection.select(&sql), &conditions);
        let found: Vec<u128> = self.connection.fetch("look fingerprints up", query).await?;
        Ok(found.into_iter().map(Fingerprint::from_bits).collect())
    }

    async fn row_groups(
        &self,
        stretch: KeyStretch<'_>,
        recorded_after: RecordTime,
    ) -> Result<Vec<RowGroup>, StoreError> {
        row_groups(&self.connection, stretch, recorded_after).await
    }

    async fn clamped(&self, stretch: KeyStretch<'_>) -> Result<Vec<ClampedRow>, StoreError> {
        clamped(&self.connection, stretch).await
    }

    async fn dead_letters(&self, from: RecordTime, until: RecordTime) -> Result<BTreeMap<String, u64>, StoreError> {
        let (from, until) =
            (super::conditions::in_range(EventTime(from.0)), super::conditions::in_range(EventTime(until.0)));
        let sql = format!(
            "SELECT toString(reason), count() FROM dead_letters FINAL \
             WHERE record_time >= fromUnixTimestamp64Milli({from}, 'UTC') \
             AND record_time < fromUnixTimestamp64Milli({until}, 'UTC') GROUP BY reason ORDER BY reason"
        );
        let found: Vec<(String, u64)> =
            self.connection.fetch("count dead letters", self.connection.select(&sql)).await?;
        Ok(found.into_iter().collect())
    }

    async fn stored_rows(&self, progress: &Progress) -> Result<Vec<StoredRows>, StoreError> {
        let mut rows = BTreeMap::new();
        for table in super::TABLES {
            for counted in rows_of_table(&self.connection, table, progress).await? {
                counted.add_to(table, &mut rows);
            }
        }
        Ok(rows.into_values().collect())
    }

    async fn dead_letters_elsewhere(&self, progress: &Progress) -> Result<u64, StoreError> {
        let topics: BTreeSet<String> = progress.partitions.keys().map(|key| key.topic_id.to_string()).collect();
        let sql = "SELECT count() FROM dead_letters FINAL WHERE NOT has({topics:Array(String)}, toString(topic_id))";
        let topics: Vec<String> = topics.into_iter().collect();
        let query = self.connection.select(sql).param("topics", topics);
        let counted: Vec<u64> = self.connection.fetch("count dead letters", query).await?;
        Ok(counted.first().copied().unwrap_or(0))
    }

    async fn tenants_with(&self, fingerprint: Fingerprint) -> Result<Vec<Seen>, StoreError> {
        tenants_with(&self.connection, fingerprint).await
    }

    async fn settled_counts(
        &self,
        rule: &Rule,
        from: EventTime,
        until: EventTime,
        progress: &Progress,
        each: impl FnMut(SettledCount) + Send,
    ) -> Result<(), StoreError> {
        settled_counts(&self.connection, rule, (from, until), progress, each).await
    }
}

fn of_key<'a>(stretch: &KeyStretch<'a>) -> (TimeSpan, OfTenant<'a>, Fingerprints) {
    let span = TimeSpan { from: stretch.from, until: Some(stretch.until) };
    (span, OfTenant(stretch.tenant), Fingerprints(stretch.fingerprint, stretch.fingerprint))
}

#[derive(Row, Deserialize)]
struct GroupRow {
    level: i8,
    service: String,
    ts_missing: bool,
    ts_clamped: bool,
    recorded_after: bool,
    count: u64,
}

async fn row_groups(
    connection: &Connection,
    stretch: KeyStretch<'_>,
    recorded_after: RecordTime,
) -> Result<Vec<RowGroup>, StoreError> {
    let (span, tenant, fingerprint) = of_key(&stretch);
    let conditions: [&dyn Condition; 3] = [&span, &tenant, &fingerprint];
    let sql = format!(
        "SELECT toInt8(level) AS level_number, service, ts_missing, ts_clamped, \
         toUnixTimestamp64Milli(record_time) >= {} AS recorded_after, sum(occurrence_count) AS count \
         FROM occurrences FINAL WHERE {} GROUP BY level_number, service, ts_missing, ts_clamped, recorded_after \
         ORDER BY count DESC, level_number, service LIMIT {ANSWERS_MAX}",
        recorded_after.0,
        all(&conditions)
    );
    // Read by position: the client checks types, and a Bool that is computed is a UInt8.
    let query = bind_all(connection.select(&format!(
        "SELECT level_number AS level, service, ts_missing, ts_clamped, CAST(recorded_after AS Bool) AS recorded_after, \
         count FROM ({sql})"
    )), &conditions);
    let group = |row: GroupRow| RowGroup {
        level: level(row.level),
        service: row.service,
        ts_missing: row.ts_missing,
        ts_clamped: row.ts_clamped,
        recorded_after: row.recorded_after,
        count: row.count,
    };
    Ok(connection.fetch("read the rows of a key", query).await?.into_iter().map(group).collect())
}

fn level(number: i8) -> Level {
    [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Fatal]
        .into_iter()
        .find(|level| *level as i8 == number)
        .unwrap_or(Level::Error)
}

#[derive(Row, Deserialize)]
struct ClampedOne {
    ts: i64,
    ts_original: String,
    record_time: i64,
}

async fn clamped(connection: &Connection, stretch: KeyStretch<'_>) -> Result<Vec<ClampedRow>, StoreError> {
    let (span, tenant, fingerprint) = of_key(&stretch);
    let conditions: [&dyn Condition; 3] = [&span, &tenant, &fingerprint];
    let sql = format!(
        "SELECT toUnixTimestamp64Milli(ts) AS at, ts_original, toUnixTimestamp64Milli(record_time) AS recorded \
         FROM occurrences FINAL WHERE ts_clamped AND {} ORDER BY at LIMIT {ANSWERS_MAX}",
        all(&conditions)
    );
    let sql = format!("SELECT at AS ts, ts_original, recorded AS record_time FROM ({sql})");
    let row = |row: ClampedOne| ClampedRow {
        ts: EventTime(row.ts),
        ts_original: row.ts_original,
        record_time: RecordTime(row.record_time),
    };
    let query = bind_all(connection.select(&sql), &conditions);
    Ok(connection.fetch("read clamped rows", query).await?.into_iter().map(row).collect())
}

#[derive(Row, Deserialize)]
struct SeenRow {
    tenant: String,
    first_ms: i64,
    last_ms: i64,
    count: u64,
}

async fn tenants_with(connection: &Connection, fingerprint: Fingerprint) -> Result<Vec<Seen>, StoreError> {
    let bug = Fingerprints(fingerprint, fingerprint);
    let sql = format!(
        "SELECT tenant, toUnixTimestamp64Milli(min(ts)) AS first_ms, toUnixTimestamp64Milli(max(ts)) AS last_ms, \
         sum(occurrence_count) AS count FROM occurrences FINAL WHERE {} \
         GROUP BY tenant ORDER BY count DESC, tenant LIMIT {ANSWERS_MAX}",
        bug.sql()
    );
    let seen = |row: SeenRow| Seen {
        tenant: row.tenant,
        first_ts: EventTime(row.first_ms),
        last_ts: EventTime(row.last_ms),
        count: row.count,
    };
    let query = bug.bind(connection.select(&sql));
    Ok(connection.fetch("look for a fingerprint", query).await?.into_iter().map(seen).collect())
}

#[derive(Row, Deserialize)]
struct PartitionRow {
    topic_id: (u64, u64),
    partition: i32,
    rows: u64,
    with_event_id: u64,
    oldest_ms: i64,
}

impl PartitionRow {
    fn add_to(self, table: &str, rows: &mut BTreeMap<PartitionKey, StoredRows>) {
        let key = PartitionKey { topic_id: recover::topic_id(self.topic_id), partition: self.partition };
        let nothing = StoredRows { key, occurrences: 0, with_event_id: 0, unmatched: 0, dead_letters: 0, oldest: None };
        let stored = rows.entry(key).or_insert(nothing);
        match table {
            "occurrences" => (stored.occurrences, stored.with_event_id) = (self.rows, self.with_event_id),
            "unmatched" => stored.unmatched = self.rows,
            _ => stored.dead_letters = self.rows,
        }
        let oldest = EventTime(self.oldest_ms);
        stored.oldest = Some(stored.oldest.map_or(oldest, |known| known.min(oldest)));
    }
}

async fn rows_of_table(
    connection: &Connection,
    table: &str,
    progress: &Progress,
) -> Result<Vec<PartitionRow>, StoreError> {
    let covered = Covered::by(progress);
    let (rows, with_event_id) = match table {
        "dead_letters" => ("count()", "toUInt64(0)"),
        _ => ("sum(occurrence_count)", "sumIf(occurrence_count, event_id != '')"),
    };
    let sql = format!(
        "SELECT topic_id, `partition`, {rows} AS `rows`, {with_event_id} AS with_event_id, \
         toInt64(toUnixTimestamp(min(inserted_at))) * 1000 AS oldest_ms \
         FROM {table} FINAL WHERE {} GROUP BY topic_id, `partition`",
        covered.sql()
    );
    connection.fetch("count rows", covered.bind(connection.select(&sql))).await
}

#[derive(Row, Deserialize)]
struct SettledRow<'a> {
    tenant: &'a str,
    fingerprint_bits: u128,
    bucket: i64,
    count: u64,
    covered: u64,
}

async fn settled_counts(
    connection: &Connection,
    rule: &Rule,
    (from, until): (EventTime, EventTime),
    progress: &Progress,
    mut each: impl FnMut(SettledCount) + Send,
) -> Result<(), StoreError> {
    let buckets = Slots::of(rule.bucket_ms());
    let covered = Covered::by(progress);
    let conditions: [&dyn Condition; 2] = [&TimeSpan { from, until: Some(until) }, &CountedBy(rule)];
    let sql = format!(
        "SELECT tenant, fingerprint_bits, {} AS bucket, sum(occurrence_count) AS count, \
         sumIf(occurrence_count, {}) AS covered FROM occurrences FINAL WHERE {} \
         GROUP BY tenant, fingerprint_bits, bucket ORDER BY tenant, fingerprint_bits, bucket",
        buckets.sql(),
        covered.sql(),
        all(&conditions)
    );
    let query = covered.bind(bind_all(connection.select(&sql), &conditions));
    let read = async {
        let mut tenants = Names::default();
        let mut rows = query.fetch::<SettledRow<'_>>()?;
        while let Some(row) = rows.next().await? {
            each(SettledCount {
                tenant: tenants.shared(row.tenant),
                fingerprint: Fingerprint::from_bits(row.fingerprint_bits),
                bucket_start: buckets.start(row.bucket),
                count: row.count,
                covered: row.covered,
            });
        }
        Ok(())
    };
    connection.reading("count buckets", read).await
}
