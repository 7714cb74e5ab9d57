//! The embedded store, through its public interface and on real files.

#![allow(clippy::unwrap_used)]

mod builders;
mod episodes;
mod history;
#[path = "../incident_store/mod.rs"]
mod incident_store;
mod incidents;
mod inputs;
mod inspect;
mod keys;
#[path = "../occurrence_store/mod.rs"]
mod occurrence_store;
mod occurrences;
mod opening;
mod progress;
mod rules;
mod superseding;
