//! The occurrence store against a real ClickHouse (`FLOODMARK_TEST_CLICKHOUSE`, see `dev/services`).
//!
//! Every test has a database of its own. A missing server fails the test.
#![allow(clippy::unwrap_used)]

mod failures;
mod fixture;
mod history;
mod inserts;
mod inspect;
mod keys;
#[path = "../occurrence_store/mod.rs"]
mod occurrence_store;
mod recovery;
mod schema;
mod versions;
mod window_totals;
