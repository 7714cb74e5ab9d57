//! What stands in the stores at the end of a run, in the words of scenarios.

use super::clickhouse::ClickHouseDatabase;
use super::postgres::PostgresDatabase;
use crate::scenario::{Actual, ActualIncident, ActualTotal, Counters};
use floodmark_model::{EventTime, Fingerprint};

/// A row of `progress`: what became of the records of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressRow {
    /// The pipeline.
    pub pipeline: String,
    /// The topic's id as text.
    pub topic_id: String,
    /// The partition.
    pub partition: i32,
    /// Every record below it is durable.
    pub next_offset: i64,
    /// Stored as occurrences.
    pub stored: i64,
    /// Client retries.
    pub retried: i64,
    /// Matched by no rule.
    pub unmatched: i64,
    /// Dead letters.
    pub dead: i64,
}

impl ProgressRow {
    /// Records read (G-2): as many as the offset says, for a topic from which nothing was deleted.
    #[must_use]
    pub fn read(&self) -> i64 {
        self.stored + self.retried + self.unmatched + self.dead
    }
}

/// The rows of `progress`, sorted; none while the table is not there yet.
#[must_use]
pub fn progress(postgres: &PostgresDatabase) -> Vec<ProgressRow> {
    let rows = postgres.try_query(
        "SELECT pipeline, topic_id::text, partition, next_offset, stored, retried, unmatched, dead FROM progress \
         ORDER BY pipeline, topic_id, partition",
    );
    let read = |row: &tokio_postgres::Row| ProgressRow {
        pipeline: row.get(0),
        topic_id: row.get(1),
        partition: row.get(2),
        next_offset: row.get(3),
        stored: row.get(4),
        retried: row.get(5),
        unmatched: row.get(6),
        dead: row.get(7),
    };
    rows.unwrap_or_default().iter().map(read).collect()
}

/// The sum of all next offsets: how many records are durable, with all that they caused (G-3).
#[must_use]
pub fn durable_records(postgres: &PostgresDatabase) -> i64 {
    progress(postgres).iter().map(|row| row.next_offset).sum()
}

/// The incidents that are neither superseded nor withdrawn. Their count is the total once that is known: until then it
/// is what it was when the row became due.
///
/// # Panics
/// Postgres refuses, or holds what is no fingerprint.
#[must_use]
pub fn incidents(postgres: &PostgresDatabase) -> Vec<ActualIncident> {
    let rows = postgres.query(
        "SELECT i.tenant, i.fingerprint::text, (extract(epoch FROM i.window_start) * 1000)::bigint, \
                coalesce(i.total, i.count)::bigint, \
                (extract(epoch FROM first.window_start) * 1000)::bigint \
         FROM incidents i LEFT JOIN incidents first ON first.id = i.episode_id \
         WHERE i.kind = 'burst' AND i.status NOT IN ('superseded', 'withdrawn') \
         ORDER BY i.tenant, i.fingerprint, i.window_start",
    );
    let read = |row: &tokio_postgres::Row| ActualIncident {
        tenant: row.get(0),
        fingerprint: fingerprint(row.get(1)),
        window_start: EventTime(row.get(2)),
        count: row.get::<_, i64>(3).try_into().unwrap(),
        episode: row.get::<_, Option<i64>>(4).map(EventTime),
    };
    rows.iter().map(read).collect()
}

/// The view `totals`: distinct occurrences per tenant, bug and five minutes.
///
/// # Panics
/// ClickHouse refuses.
#[must_use]
pub fn totals(clickhouse: &ClickHouseDatabase) -> Vec<ActualTotal> {
    let answer = clickhouse.query(
        "SELECT tenant, fingerprint, toString(toUnixTimestamp64Milli(window_start)), toString(total) FROM totals \
         ORDER BY tenant, fingerprint, window_start FORMAT JSONCompactEachRow",
    );
    let read = |line: &str| {
        let (tenant, bug, window_start, total): (String, String, String, String) = serde_json::from_str(line).unwrap();
        let window_start = EventTime(window_start.parse().unwrap());
        ActualTotal { tenant, fingerprint: fingerprint(&bug), window_start, total: total.parse().unwrap() }
    };
    answer.lines().map(read).collect()
}

/// Everything that a scenario expects, read from the stores.
///
/// # Panics
/// A store refuses.
#[must_use]
pub fn actual(postgres: &PostgresDatabase, clickhouse: &ClickHouseDatabase) -> Actual {
    let tallied = |of: fn(&ProgressRow) -> i64| progress(postgres).iter().map(of).sum::<i64>().try_into().unwrap();
    let counted = |flag: &str| clickhouse.number(&format!("SELECT countIf({flag}) FROM occurrences FINAL"));
    let counters = Counters {
        client_retry: tallied(|row| row.retried),
        dead_letter: tallied(|row| row.dead),
        unmatched: tallied(|row| row.unmatched),
        ts_missing: counted("ts_missing"),
        ts_clamped: counted("ts_clamped"),
        ..Counters::default()
    };
    let crowds = postgres.query(
        "SELECT tenant, (extract(epoch FROM window_start) * 1000)::bigint FROM incidents WHERE kind = 'cardinality'",
    );
    let cardinality = crowds.iter().map(|row| (row.get(0), EventTime(row.get(1)))).collect();
    Actual { incidents: incidents(postgres), totals: totals(clickhouse), counters, cardinality }
}

fn fingerprint(hex: &str) -> Fingerprint {
    Fingerprint::from_hex(hex).unwrap_or_else(|| panic!("{hex:?} is no fingerprint: want 32 hex digits"))
}
