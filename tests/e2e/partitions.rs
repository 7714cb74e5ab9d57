//! Time over partitions that are silent, empty, behind or ahead (T-2 to T-5).

use super::bed::{Bed, PATIENCE};
use super::records::{T0, error};
use floodmark_model::RecordTime;
use floodmark_testkit::wait::{wait_until, wait_until_equal};

const MINUTE: i64 = 60_000;

impl Bed {
    /// Produces errors of one bug, at these times.
    fn produce_errors(&self, partition: i32, bug: u64, times: impl IntoIterator<Item = i64>) {
        let record = |ts| (partition, RecordTime(ts), error("acme", bug, ts));
        self.topic.produce(times.into_iter().map(record));
    }

    /// (window start, total) of the incidents in this state, as numbers relative to the first window.
    fn incidents(&self, status: &str) -> Vec<(i64, Option<i64>)> {
        let rows = self.postgres.try_query(&format!(
            "SELECT (extract(epoch FROM window_start) * 1000)::bigint, total::bigint FROM incidents \
             WHERE status = '{status}' ORDER BY window_start"
        ));
        rows.unwrap_or_default().iter().map(|row| (row.get::<_, i64>(0) - T0, row.get(1))).collect()
    }

    fn wait_for_incidents(&self, status: &str, wanted: &[(i64, Option<i64>)]) {
        let compare = |found: &Vec<_>| if found == wanted { Ok(()) } else { Err(format!("{found:?}, not {wanted:?}")) };
        wait_until_equal(format!("{status} incidents"), PATIENCE, || self.incidents(status), compare);
    }
}

#[test]
fn t4_a_silent_partition_and_one_empty_since_birth_hold_nothing() {
    let bed = Bed::new("idle", 3, "[time]\nidle_after = \"1s\"");
    bed.produce_errors(1, 7, [T0]);
    let engine = bed.start_ready(2);
    bed.wait_until_durable(1);
    bed.produce_errors(0, 1, (0..10).map(|n| T0 + 1_000 + n));
    bed.produce_errors(0, 2, [T0 + 10 * MINUTE]);
    bed.wait_for_incidents("closed", &[(0, Some(10))]);
    assert_eq!(engine.metric("floodmark_occurrences_late_total", ""), Some(0.0));
}

#[test]
fn t3_a_partition_that_is_behind_delays_closing_and_no_page() {
    let bed = Bed::new("behind", 2, "[time]\nidle_after = \"10m\"");
    let engine = bed.start_ready(2);
    bed.produce_errors(1, 7, [T0]);
    bed.produce_errors(0, 1, (0..10).map(|n| T0 + 10 * MINUTE + n));
    bed.produce_errors(0, 2, [T0 + 20 * MINUTE]);
    bed.wait_until_durable(12);
    assert_eq!(bed.incidents("open"), [(10 * MINUTE, None)], "the page does not wait");
    assert_eq!(bed.incidents("closed"), [], "its window does");
    // What the lagging partition still had for that window is in time.
    bed.produce_errors(1, 1, [T0 + 11 * MINUTE]);
    bed.produce_errors(1, 7, [T0 + 20 * MINUTE]);
    bed.wait_for_incidents("closed", &[(10 * MINUTE, Some(11))]);
    assert_eq!(engine.metric("floodmark_occurrences_late_total", ""), Some(0.0));
}

#[test]
fn t2_a_record_a_year_ahead_changes_nothing_for_the_others() {
    let bed = Bed::new("ahead", 1, "");
    let engine = bed.start_ready(1);
    const YEAR: i64 = 365 * 24 * 60 * MINUTE;
    bed.topic.produce([(0, RecordTime(T0), error("acme", 7, T0 + YEAR))]);
    bed.produce_errors(0, 1, (0..10).map(|n| T0 + 1_000 + n));
    bed.produce_errors(0, 2, [T0 + 10 * MINUTE]);
    bed.wait_for_incidents("closed", &[(0, Some(10))]);
    assert_eq!(engine.metric("floodmark_occurrences_late_total", ""), Some(0.0));
    assert_eq!(engine.metric("floodmark_ts_clamped_total", ""), Some(1.0));
    let clamped =
        bed.clickhouse.query("SELECT toString(toUnixTimestamp64Milli(ts)) FROM occurrences FINAL WHERE ts_clamped");
    assert_eq!(clamped.trim(), T0.to_string(), "it happened when it was written");
}

#[test]
fn g3_records_of_one_and_the_same_time_are_committed_as_they_go() {
    const RECORDS: i64 = 400_000;
    let bed = Bed::new("same_time", 2, "");
    let record = |n: i64| ((n % 2) as i32, RecordTime(T0), error("acme", n as u64 % 100, T0));
    bed.topic.produce((0..RECORDS).map(record));
    let engine = bed.start_ready(2);
    let mut seen = Vec::new();
    wait_until("all to be durable", PATIENCE, || {
        let durable = bed.durable();
        if seen.last() != Some(&durable) {
            seen.push(durable);
        }
        durable == RECORDS
    });
    let on_the_way = seen.iter().filter(|durable| (1..RECORDS).contains(*durable)).count();
    assert!(on_the_way >= 3, "commits while it reads: {seen:?}");
    assert_eq!(bed.postgres.number("SELECT count(*) FROM incidents"), 100);
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn more_workers_than_partitions_work() {
    let bed = Bed::new("workers", 1, "");
    bed.produce_errors(0, 1, (0..10).map(|n| T0 + n));
    bed.produce_errors(0, 2, [T0 + 10 * MINUTE]);
    let engine = bed.start_ready(5);
    bed.wait_for_incidents("closed", &[(0, Some(10))]);
    bed.wait_until_durable(11);
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn t6_w9_what_is_late_is_late_after_a_restart_too_and_corrects_the_total() {
    let bed = Bed::new("late", 1, "");
    bed.produce_errors(0, 1, (0..15).map(|n| T0 + n));
    bed.produce_errors(0, 2, [T0 + 30 * MINUTE]);
    let engine = bed.start_ready(2);
    bed.wait_for_incidents("closed", &[(0, Some(15))]);
    bed.wait_until_durable(16);
    assert_eq!(engine.stop(), Some(0));
    bed.produce_errors(0, 1, (0..5).map(|n| T0 + MINUTE + n));
    let engine = bed.start_ready(2);
    bed.wait_for_incidents("closed", &[(0, Some(20))]);
    bed.wait_until_durable(21);
    assert_eq!(engine.metric("floodmark_occurrences_late_total", ""), Some(5.0));
}

#[test]
fn the_lag_of_each_partition_shows() {
    let bed = Bed::new("lag", 2, "");
    bed.produce_errors(0, 1, (0..15).map(|n| T0 + n));
    let engine = bed.start_ready(1);
    bed.wait_until_durable(15);
    let lag = |partition: i32| engine.metric("floodmark_consumer_lag", &format!("partition=\"{partition}\""));
    wait_until("the lag", PATIENCE, || lag(0) == Some(0.0) && lag(1) == Some(0.0));
}
