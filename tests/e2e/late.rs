//! What comes late is judged as if it had come in time (W-8), also across a kill and while the store is asked.

use super::bed::{Bed, PATIENCE};
use super::records::{T0, error};
use floodmark_model::RecordTime;
use floodmark_testkit::wait::wait_until_equal;

const WINDOW_MS: i64 = 300_000;

fn produce(bed: &Bed, records: impl IntoIterator<Item = (i64, i64)>) {
    let record = |(record_time, ts): (i64, i64)| (0, RecordTime(record_time), error("acme", 7, ts));
    bed.topic.produce(records.into_iter().map(record));
}

/// Detection, status, total and samples of the rows.
fn rows(bed: &Bed) -> Vec<(String, String, Option<i64>, i64)> {
    let rows = bed.postgres.query(
        "SELECT detection, status, total::bigint, (extract(epoch FROM window_start) * 1000)::bigint FROM incidents \
         ORDER BY window_start",
    );
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()
}

fn wait_for_rows(bed: &Bed, expected: &[(&str, &str, i64, i64)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(detection, status, total, start)| ((*detection).into(), (*status).into(), Some(*total), *start))
        .collect();
    wait_until_equal(
        "the late incident",
        PATIENCE,
        || rows(bed),
        |found| {
            if *found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        },
    );
}

/// Nine occurrences, and time passes ten windows on.
fn nine_and_a_close(bed: &Bed) {
    produce(bed, (0..9).map(|n| (T0 + n, T0 + n)));
    produce(bed, [(T0 + 10 * WINDOW_MS, T0 + 10 * WINDOW_MS)]);
    bed.wait_until_durable(10);
    let is_closed = || {
        let closed = "SELECT count(*) FROM pipeline WHERE closed_watermark >= to_timestamp($1::double precision)";
        bed.postgres.number(closed.replace("$1", &((T0 + 5 * WINDOW_MS) / 1_000).to_string()))
    };
    wait_until_equal("the close", PATIENCE, is_closed, |rows| if *rows == 1 { Ok(()) } else { Err("open".into()) });
    assert_eq!(rows(bed), []);
}

#[test]
fn nine_and_one_late_are_an_incident_in_the_running_engine() {
    let bed = Bed::new("late_live", 1, "");
    let engine = bed.start_ready(2);
    nine_and_a_close(&bed);
    produce(&bed, [(T0 + 10 * WINDOW_MS, T0 + 20_000)]);
    wait_for_rows(&bed, &[("late", "closed", 10, T0)]);
    bed.wait_until_durable(11);
    produce(&bed, [(T0 + 10 * WINDOW_MS, T0 + 30_000)]);
    wait_for_rows(&bed, &[("late", "closed", 11, T0)]);
    assert_eq!(engine.metric("floodmark_occurrences_late_total", ""), Some(2.0));
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn nine_and_one_late_are_an_incident_across_a_kill() {
    let bed = Bed::new("late_kill", 1, "");
    let engine = bed.start_ready(2);
    nine_and_a_close(&bed);
    engine.kill();
    produce(&bed, [(T0 + 10 * WINDOW_MS, T0 + 20_000)]);
    let engine = bed.start_ready(1);
    wait_for_rows(&bed, &[("late", "closed", 10, T0)]);
    bed.wait_until_durable(11);
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn nine_and_one_late_are_an_incident_by_backfill() {
    let bed = Bed::new("late_backfill", 1, "");
    let engine = bed.start_ready(2);
    nine_and_a_close(&bed);
    let path = bed.installation.folder().join("one.ndjson");
    std::fs::write(&path, error("acme", 7, T0 + 20_000) + "\n").unwrap();
    for verdict in ["new", "unchanged"] {
        let done = bed.installation.output("backfill", ["--json", path.to_str().unwrap()]);
        assert_eq!(done.exit_code, Some(0), "{}", done.stderr);
        let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(report["incidents"][verdict], serde_json::json!(1), "{report}");
        wait_for_rows(&bed, &[("late", "closed", 10, T0)]);
    }
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn a_late_occurrence_turns_a_bridge_into_what_the_window_before_stands_for() {
    let bed = Bed::new("late_supersedes", 1, "");
    let engine = bed.start_ready(2);
    // Six and four over a boundary, and time passes.
    let before = (0..6).map(|n| (T0 + 290_000 + n, T0 + 290_000 + n));
    produce(&bed, before.chain((0..4).map(|n| (T0 + 310_000 + n, T0 + 310_000 + n))));
    produce(&bed, [(T0 + 10 * WINDOW_MS, T0 + 10 * WINDOW_MS)]);
    wait_for_rows(&bed, &[("bridge", "closed", 4, T0 + WINDOW_MS)]);
    // Four more in the window before: it has ten of its own.
    produce(&bed, (0..4).map(|n| (T0 + 10 * WINDOW_MS, T0 + n)));
    wait_for_rows(&bed, &[("late", "closed", 10, T0), ("bridge", "superseded", 4, T0 + WINDOW_MS)]);
    let superseded =
        "SELECT count(*) FROM incidents b JOIN incidents a ON b.superseded_by = a.id AND a.detection = 'late'";
    assert_eq!(bed.postgres.number(superseded), 1);
    // And six more in the later one: it stands for itself, in the episode of the first.
    produce(&bed, (0..6).map(|n| (T0 + 10 * WINDOW_MS, T0 + 400_000 + n)));
    wait_for_rows(&bed, &[("late", "closed", 10, T0), ("bridge", "closed", 10, T0 + WINDOW_MS)]);
    assert_eq!(bed.postgres.number("SELECT count(DISTINCT episode_id) FROM incidents"), 1);
    assert_eq!(engine.stop(), Some(0));
}
