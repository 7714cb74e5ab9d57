//! A burst over a window's boundary pages once, wherever the boundary cuts it (W-3); a slow trickle never does.

use super::bed::{Bed, PATIENCE};
use super::records::T0;
use floodmark_model::RecordTime;
use floodmark_testkit::wait::wait_until_equal;

const WINDOW_MS: i64 = 300_000;
const ERRORS: i64 = 10;
const TRIALS: i64 = 8;

/// Identical errors: what makes them one bug is the fingerprint that is computed of their text.
fn errors(tenant: &str, times: impl Iterator<Item = i64>) -> Vec<(i64, String)> {
    let record = |ts: i64| {
        (ts, format!(r#"{{"tenant":"{tenant}","level":"error","ts":{ts},"message":"connection refused by upstream"}}"#))
    };
    times.map(record).collect()
}

/// The times of ten errors within a minute, of which `after` come after the boundary.
fn split(boundary: i64, after: i64) -> impl Iterator<Item = i64> {
    (0..ERRORS)
        .map(move |n| if n < ERRORS - after { boundary - 30_000 + n * 1_000 } else { boundary + 20_000 + n * 1_000 })
}

#[test]
fn every_split_of_ten_errors_over_a_boundary_pages_in_every_trial_and_once() {
    let bed = Bed::new("straddle", 2, "");
    let engine = bed.start_ready(2);
    // Each split of each trial is a tenant of its own; the trials lie in windows of their own.
    for trial in 0..TRIALS {
        let boundary = T0 + (4 * trial + 1) * WINDOW_MS;
        let mut records = Vec::new();
        for after in 0..=ERRORS {
            records.extend(errors(&format!("split-{after}-trial-{trial}"), split(boundary, after)));
        }
        // As many, evenly over more than a window: no window's length holds them all.
        let trickle = (0..ERRORS).map(|n| boundary - 200_000 + n * 34_000);
        records.extend(errors(&format!("trickle-trial-{trial}"), trickle));
        records.sort();
        let produced = records.into_iter().enumerate();
        bed.topic.produce(produced.map(|(n, (ts, payload))| (n as i32 % 2, RecordTime(ts), payload)));
    }
    bed.wait_until_durable(bed.topic.end_offsets().iter().sum());
    let pages = || {
        let rows = bed.postgres.query("SELECT tenant, count(*)::bigint FROM incidents GROUP BY tenant ORDER BY tenant");
        rows.iter().map(|row| (row.get::<_, String>(0), row.get::<_, i64>(1))).collect::<Vec<_>>()
    };
    let mut expected: Vec<(String, i64)> = (0..TRIALS)
        .flat_map(|trial| (0..=ERRORS).map(move |after| (format!("split-{after}-trial-{trial}"), 1)))
        .collect();
    expected.sort();
    wait_until_equal("one page for each split", PATIENCE, pages, |pages| {
        if *pages == expected { Ok(()) } else { Err(format!("{pages:?}")) }
    });
    let bridges = bed.postgres.number("SELECT count(*) FROM incidents WHERE detection = 'bridge'");
    assert_eq!(bridges, TRIALS * (ERRORS - 1), "all but 10:0 and 0:10");
    assert_eq!(engine.stop(), Some(0));
}
