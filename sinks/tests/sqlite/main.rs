//! The embedded store, through its public interface and on real files.

#![allow(clippy::unwrap_used)]

mod builders;
mod episodes;
#[path = "../incident_store/mod.rs"]
mod incident_store;
mod incidents;
mod inputs;
mod occurrences;
mod opening;
mod progress;
mod rules;
