//! The incident store against a real Postgres (`FLOODMARK_TEST_POSTGRES`, see `dev/services`).
//!
//! Every test has a database of its own. A missing server fails the test.

#![allow(clippy::unwrap_used)]

mod episodes;
mod failures;
mod fencing;
mod fixture;
#[path = "../incident_store/mod.rs"]
mod incident_store;
mod incidents;
mod pipelines;
mod proxy;
mod rules;
mod schema;
mod superseding;
