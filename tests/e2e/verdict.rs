//! What must stand in the stores after a flood, table by table.

use super::bed::{Bed, PATIENCE};
use super::records::{Expected, Produced};
use floodmark_testkit::services::observed;
use floodmark_testkit::wait::wait_until_equal;
use std::collections::BTreeMap;

impl Bed {
    pub(crate) fn produce(&self, produced: &[Produced]) {
        self.topic
            .produce(produced.iter().map(|record| (record.partition, record.record_time, record.payload.as_str())));
    }

    /// Waits until all is durable and closed, and compares every table with what the oracle says.
    pub(crate) fn assert_ends_as(&self, expected: &Expected) {
        self.wait_until_durable(self.topic.end_offsets().iter().sum());
        self.assert_stands(expected);
        assert_eq!(self.clickhouse.number("SELECT count() FROM dead_letters FINAL") as i64, expected.dead);

        self.assert_tallies_balance();
        let rows = observed::progress(&self.postgres);
        assert_eq!(rows.iter().map(|row| row.unmatched).sum::<i64>(), expected.unmatched);
        assert_eq!(rows.iter().map(|row| row.dead).sum::<i64>(), expected.dead);
        // Of two records that are one occurrence, read in another order after a kill, both may have been stored: the same
        // row, but two tallies.
        let stored: i64 = rows.iter().map(|row| row.stored).sum();
        assert!(stored as u64 >= expected.distinct, "{stored}");
    }

    /// Waits for the incidents, all closed, and compares them and the totals.
    pub(crate) fn assert_stands(&self, expected: &Expected) {
        let found = wait_until_equal(
            "the incidents and their totals",
            PATIENCE,
            || self.closed_incidents(),
            |found| differences(&expected.incidents, found),
        );
        assert_eq!(found.len(), expected.incidents.len());
        assert_eq!(
            self.postgres.number("SELECT count(*) FROM incidents WHERE status <> 'superseded'"),
            expected.incidents.len() as i64,
            "none twice, none withdrawn"
        );
        let totals: BTreeMap<_, _> = observed::totals(&self.clickhouse)
            .into_iter()
            .map(|total| ((total.tenant, total.fingerprint.to_string(), total.window_start.0), total.total))
            .collect();
        differences(&expected.totals, &totals).unwrap_or_else(|error| panic!("totals: {error}"));
        assert_eq!(self.clickhouse.number("SELECT count() FROM occurrences FINAL"), expected.distinct);
    }

    /// Tenant, fingerprint and window start of each incident that has its total, with that.
    fn closed_incidents(&self) -> BTreeMap<(String, String, i64), i64> {
        let rows = self.postgres.query(
            "SELECT tenant, fingerprint::text, (extract(epoch FROM window_start) * 1000)::bigint, total::bigint \
             FROM incidents WHERE status = 'closed' AND closed_at IS NOT NULL",
        );
        rows.iter().map(|row| ((row.get(0), row.get(1), row.get(2)), row.get(3))).collect()
    }
}

pub(crate) fn differences<V: PartialEq + std::fmt::Debug>(
    expected: &BTreeMap<(String, String, i64), V>,
    found: &BTreeMap<(String, String, i64), V>,
) -> Result<(), String> {
    const SHOWN: usize = 10;
    let missing = expected.iter().filter(|(key, value)| found.get(key) != Some(value));
    let too_much = found.keys().filter(|key| !expected.contains_key(key));
    let lines: Vec<String> = missing
        .map(|(key, value)| format!("{key:?}: expected {value:?}, found {:?}", found.get(key)))
        .chain(too_much.map(|key| format!("{key:?}: not expected")))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(format!("{} differences, such as\n{}", lines.len(), lines[..lines.len().min(SHOWN)].join("\n")))
}
