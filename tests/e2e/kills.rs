//! `kill -9` at random instants, with another number of workers after each start.

use super::bed::{Bed, PATIENCE};
use super::records::{Numbers, Produced, T0, expected, flood};
use floodmark_model::Rule;
use floodmark_testkit::wait::wait_until;
use std::time::{SystemTime, UNIX_EPOCH};

const RECORDS: i64 = 1_000_000;
const PARTITIONS: i32 = 4;
const KILLS: usize = 10;

/// Makes one in two hundred records late, by up to twenty minutes: most of them beyond the lateness of a minute, and
/// some beyond every window that is in memory. A retry goes with what it is a retry of.
fn make_some_late(flood: &mut [Produced]) {
    for record in flood {
        let Some((before, rest)) = record.payload.split_once("\"ts\":") else { continue };
        let Some((ts, after)) = rest.split_once(',') else { continue };
        let ts: i64 = ts.parse().expect("error() wrote it");
        // By the time alone, so that equal records stay equal.
        let mut numbers = Numbers(ts as u64);
        if ts < T0 + 1_000_000 && numbers.below(200) == 0 {
            let late = ts - numbers.below(1_200_000) as i64;
            record.payload = format!("{before}\"ts\":{late},{after}");
        }
    }
}

#[test]
fn a_million_records_and_ten_kills_leave_what_the_oracle_says() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut produced = flood(seed, RECORDS, PARTITIONS);
    make_some_late(&mut produced);
    let bed = Bed::new("kills", PARTITIONS, "");
    let mut numbers = Numbers(seed);
    let mut slices = produced.chunks(produced.len().div_ceil(KILLS));
    for kill in 0..KILLS {
        bed.produce(slices.next().unwrap());
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
            let behind = bed.topic.end_offsets().iter().sum::<i64>() - durable;
            let target = durable + 1 + numbers.below(behind as u64) as i64;
            wait_until("progress", PATIENCE, || bed.durable() >= target);
        }
        println!("kill {kill} at {} durable records", bed.durable());
        engine.kill();
    }
    let engine = bed.start(2);
    bed.assert_ends_as(&expected(&Rule::default(), &produced));
    let rows = |detection: &str| {
        bed.postgres.number(format!("SELECT count(*) FROM incidents WHERE detection = '{detection}'"))
    };
    println!("detections: {} window, {} bridge, {} late", rows("window"), rows("bridge"), rows("late"));
    assert!(rows("bridge") > 0 && rows("late") > 0, "the flood makes both");
    assert_eq!(engine.stop(), Some(0));
}
