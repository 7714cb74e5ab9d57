//! `kill -9` at random instants, with another number of workers after each start.

use super::bed::{Bed, PATIENCE};
use super::records::{Expected, Numbers, Produced, expected, flood};
use floodmark_model::Rule;
use floodmark_testkit::services::observed;
use floodmark_testkit::wait::{wait_until, wait_until_equal};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

const RECORDS: i64 = 1_000_000;
const PARTITIONS: i32 = 4;
const KILLS: usize = 10;

#[test]
fn a_million_records_and_ten_kills_leave_what_the_oracle_says() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let produced = flood(seed, RECORDS, PARTITIONS);
    let bed = Bed::new("kills", PARTITIONS, "");
    produce(&bed, &produced);

    let mut numbers = Numbers(seed);
    for kill in 0..KILLS {
        let engine = bed.start([2, 1, 3, 4][kill % 4]);
        let durable = bed.durable();
        if kill % 3 == 2 {
            // While it recovers, or soon after.
            let mut looks = numbers.below(150);
            wait_until("an instant", PATIENCE, || {
                looks = looks.saturating_sub(1);
                looks == 0
            });
        } else {
            let share = (RECORDS - durable) / (KILLS - kill) as i64;
            let target = durable + 1 + numbers.below(share.max(1) as u64) as i64;
            wait_until("progress", PATIENCE, || bed.durable() >= target);
        }
        println!("kill {kill} at {} durable records", bed.durable());
        engine.kill();
    }
    let engine = bed.start(2);
    assert_ends_as(&bed, &expected(&Rule::default(), &produced));
    assert_eq!(engine.stop(), Some(0));
}

pub(super) fn produce(bed: &Bed, produced: &[Produced]) {
    bed.topic.produce(produced.iter().map(|record| (record.partition, record.record_time, record.payload.as_str())));
}

/// Waits until all is durable and closed, and compares every table with what the oracle says.
pub(super) fn assert_ends_as(bed: &Bed, expected: &Expected) {
    bed.wait_until_durable(bed.topic.end_offsets().iter().sum());
    let found = wait_until_equal("the incidents and their totals", PATIENCE, || incidents(bed), |found| {
        differences(&expected.incidents, found)
    });
    assert_eq!(found.len(), expected.incidents.len());
    let count = |query: &str| bed.postgres.number(query);
    assert_eq!(count("SELECT count(*) FROM incidents"), expected.incidents.len() as i64, "none twice, none withdrawn");

    let totals: BTreeMap<_, _> = observed::totals(&bed.clickhouse)
        .into_iter()
        .map(|total| ((total.tenant, total.fingerprint.to_string(), total.window_start.0), total.total))
        .collect();
    differences(&expected.totals, &totals).unwrap_or_else(|error| panic!("totals: {error}"));
    assert_eq!(bed.clickhouse.number("SELECT count() FROM occurrences FINAL"), expected.distinct);
    assert_eq!(bed.clickhouse.number("SELECT count() FROM dead_letters FINAL") as i64, expected.dead);

    bed.assert_tallies_balance();
    let rows = observed::progress(&bed.postgres);
    assert_eq!(rows.iter().map(|row| row.unmatched).sum::<i64>(), expected.unmatched);
    assert_eq!(rows.iter().map(|row| row.dead).sum::<i64>(), expected.dead);
    let stored: i64 = rows.iter().map(|row| row.stored).sum();
    assert_eq!(stored as u64, expected.distinct, "a retry is not stored as an occurrence of its own");
}

/// Tenant, fingerprint and window start of each incident that has its total, with that.
fn incidents(bed: &Bed) -> BTreeMap<(String, String, i64), i64> {
    let rows = bed.postgres.query(
        "SELECT tenant, fingerprint::text, (extract(epoch FROM window_start) * 1000)::bigint, total::bigint \
         FROM incidents WHERE status = 'closed' AND closed_at IS NOT NULL",
    );
    rows.iter().map(|row| ((row.get(0), row.get(1), row.get(2)), row.get(3))).collect()
}

fn differences<V: PartialEq + std::fmt::Debug>(
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
