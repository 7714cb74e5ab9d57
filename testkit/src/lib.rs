//! The test harness of floodmark.
//!
//! - [`scenario`]: the files in `tests/scenarios`, what they expect, and how far this version is.
//! - [`mod@reference`]: what the oracle says about the same records.
//! - [`services`]: real Kafka, Postgres and ClickHouse, and the binary as a child process.
//! - [`wait`]: waiting for a condition with a deadline; tests never sleep.
//!
//! A dev-dependency only. Its functions panic where a test could do nothing but fail.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

pub mod reference;
pub mod scenario;
pub mod services;
pub mod wait;
