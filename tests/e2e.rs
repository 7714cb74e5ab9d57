//! The engine as a process against real Kafka, Postgres and ClickHouse.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod e2e {
    mod any_order;
    mod backfill;
    mod bad_input;
    mod bed;
    mod commands;
    mod inspect;
    mod kills;
    mod late;
    mod partitions;
    mod real_input;
    mod records;
    mod rules;
    mod straddle;
    mod topics;
    mod verdict;
    mod what_if;
}
