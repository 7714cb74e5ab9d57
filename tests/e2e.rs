//! The engine as a process against real Kafka, Postgres and ClickHouse.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod e2e {
    mod bad_input;
    mod bed;
    mod commands;
    mod kills;
    mod partitions;
    mod real_input;
    mod records;
    mod rules;
    mod topics;
    mod verdict;
}
