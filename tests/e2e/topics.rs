//! Topics that change under the engine: created anew, grown, and with records gone that were to be read.

use super::bed::{Bed, PATIENCE};
use super::records::{T0, error};
use floodmark_model::RecordTime;
use floodmark_testkit::wait::wait_until;

impl Bed {
    fn produce_numbered(&self, partition: i32, bug: u64, records: i64) {
        let record = |n| (partition, RecordTime(T0 + n), error("acme", bug, T0 + n));
        self.topic.produce((0..records).map(record));
    }

    fn incident_count(&self) -> i64 {
        self.postgres.number("SELECT count(*) FROM incidents")
    }
}

#[test]
fn i1_a_topic_created_anew_is_noticed_while_the_engine_runs_and_while_it_does_not() {
    let bed = Bed::new("anew", 1, "");
    bed.produce_numbered(0, 1, 20);
    let engine = bed.start_ready(2);
    bed.wait_until_durable(20);

    bed.topic.recreate();
    bed.produce_numbered(0, 2, 30);
    bed.wait_until_durable(20 + 30);
    assert_eq!(bed.incident_count(), 2);
    assert!(engine.log().contains("created anew"), "it is said");
    assert_eq!(engine.stop(), Some(0));

    bed.topic.recreate();
    bed.produce_numbered(0, 3, 40);
    let engine = bed.start_ready(2);
    bed.wait_until_durable(20 + 30 + 40);
    assert_eq!(bed.incident_count(), 3);
    assert!(engine.log().contains("created anew"), "it is said");
    assert_eq!(bed.clickhouse.number("SELECT count() FROM occurrences FINAL"), 90);
}

#[test]
fn new_partitions_are_found_while_it_runs() {
    let mut bed = Bed::new("grown", 1, "");
    bed.produce_numbered(0, 1, 10);
    let engine = bed.start_ready(2);
    bed.wait_until_durable(10);
    bed.topic.grow(3);
    bed.produce_numbered(1, 2, 10);
    bed.produce_numbered(2, 3, 10);
    bed.wait_until_durable(30);
    assert_eq!(bed.incident_count(), 3);
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn a_next_offset_that_is_gone_ends_it_with_4_and_the_lost_range_unless_that_is_accepted() {
    let bed = Bed::new("lost", 1, "");
    bed.produce_numbered(0, 1, 20);
    let engine = bed.start_ready(1);
    bed.wait_until_durable(20);
    assert_eq!(engine.stop(), Some(0));

    bed.produce_numbered(0, 2, 30);
    bed.topic.delete_records(0, 35);
    let mut engine = bed.start(1);
    assert_eq!(engine.wait(PATIENCE).code(), Some(4));
    let log = engine.log();
    assert!(log.contains("20") && log.contains("35") && log.contains("--accept-data-loss"), "{log}");
    assert_eq!(bed.durable(), 20, "nothing was done");

    let engine = bed.installation.start(["--accept-data-loss"]);
    bed.wait_until_durable(50);
    assert_eq!(bed.clickhouse.number("SELECT count() FROM occurrences FINAL"), 20 + 15);
    assert!(engine.log().contains("data was lost"));
}

#[test]
fn a_second_engine_takes_over_and_the_first_one_stops() {
    let bed = Bed::new("fenced", 1, "");
    let mut first = bed.start_ready(1);
    let second = bed.start_ready(1);
    assert_eq!(first.wait(PATIENCE).code(), Some(3));
    assert!(first.log().contains("another process has taken this pipeline over"));
    bed.produce_numbered(0, 1, 10);
    wait_until("the incident", PATIENCE, || bed.incident_count() == 1);
    assert_eq!(second.stop(), Some(0));
}
