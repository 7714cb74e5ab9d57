//! Stores that go away under a running engine. These tests take services down for everybody, so they have a binary of
//! their own, and run one after another.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

#[path = "e2e"]
mod e2e {
    pub(crate) mod bed;
    pub(crate) mod records;
    mod verdict;
}

use e2e::bed::{Bed, PATIENCE};
use e2e::records::{expected, flood};
use floodmark_model::Rule;
use floodmark_testkit::services::{Control, Outage, Service};
use floodmark_testkit::wait::wait_until;

const RECORDS: i64 = 300_000;
const PARTITIONS: i32 = 4;

/// Produces half, takes the store down, produces the rest, brings it back: the engine must have named the store, lived
/// through it, and be exact afterwards.
fn survives(name: &str, service: Service, how: Control) {
    let produced = flood(7, RECORDS, PARTITIONS);
    let (first, second) = produced.split_at(produced.len() / 2);
    let bed = Bed::new(name, PARTITIONS, "");
    bed.produce(first);
    let engine = bed.start_ready(2);
    wait_until("progress", PATIENCE, || bed.durable() > 0);
    let outage = Outage::of(service, how);
    bed.produce(second);
    wait_until("the store to be named", PATIENCE, || {
        engine.get("/readyz").is_some_and(|answer| answer.status == 503 && answer.body.contains(service.name()))
    });
    assert_eq!(engine.get("/healthz").unwrap().status, 200, "alive, not ready");
    drop(outage);
    bed.assert_ends_as(&expected(&Rule::default(), &produced));
    assert!(engine.is_ready());
    assert_eq!(engine.metric("floodmark_occurrences_late_total", ""), Some(0.0));
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn g7_stores_that_are_killed_or_restarted_are_waited_for_and_all_is_exact_afterwards() {
    survives("clickhouse_killed", Service::ClickHouse, Control::Kill);
    survives("postgres_restarted", Service::Postgres, Control::Stop);
    survives("postgres_killed", Service::Postgres, Control::Kill);
}
