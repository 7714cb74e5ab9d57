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
use e2e::records::{T0, error, expected, flood};
use floodmark_model::{RecordTime, Rule};
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

const WINDOW_MS: i64 = 300_000;

/// W-8: nine occurrences of one bug and a close, ClickHouse away, one late occurrence of it and of many other bugs, the
/// engine killed and started again in between, ClickHouse back.
fn late_occurrences_wait() {
    let bed = Bed::new("late_outage", 1, "");
    let engine = bed.start_ready(2);
    let after = T0 + 10 * WINDOW_MS;
    let nine = (0..9).flat_map(|n| (0..50).map(move |bug| (T0 + n, error("acme", bug, T0 + n))));
    let records = nine.chain([(after, error("acme", 99, after))]);
    bed.topic.produce(records.map(|(ts, payload)| (0, RecordTime(ts), payload)));
    bed.wait_until_durable(451);
    let closed = format!(
        "SELECT count(*) FROM pipeline WHERE closed_watermark >= to_timestamp({}::double precision)",
        (T0 + 5 * WINDOW_MS) / 1_000
    );
    wait_until("the close", PATIENCE, || bed.postgres.number(&closed) == 1);

    let outage = Outage::of(Service::ClickHouse, Control::Kill);
    bed.topic.produce((0..50).map(|bug| (0, RecordTime(after), error("acme", bug, T0 + 20_000))));
    wait_until("late occurrences", PATIENCE, || {
        engine.metric("floodmark_occurrences_late_total", "").is_some_and(|late| late >= 50.0)
    });
    assert_eq!(bed.durable(), 451, "none of them is judged, so progress stands before them");
    engine.kill();
    let mut engine = bed.start(1);
    wait_until("the store to be named", PATIENCE, || {
        engine.get("/readyz").is_some_and(|answer| answer.status == 503 && answer.body.contains("clickhouse"))
    });
    drop(outage);
    engine.wait_until_ready();
    bed.wait_until_durable(501);
    let late = "SELECT count(*) FROM incidents WHERE detection = 'late' AND status = 'closed' AND total = 10";
    wait_until("every late incident", PATIENCE, || bed.postgres.number(late) == 50);
    assert_eq!(bed.postgres.number("SELECT count(*) FROM incidents"), 50);
    assert_eq!(engine.stop(), Some(0));
}

#[test]
fn g7_stores_that_are_killed_or_restarted_are_waited_for_and_all_is_exact_afterwards() {
    survives("clickhouse_killed", Service::ClickHouse, Control::Kill);
    late_occurrences_wait();
    survives("postgres_restarted", Service::Postgres, Control::Stop);
    survives("postgres_killed", Service::Postgres, Control::Kill);
}
