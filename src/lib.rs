//! floodmark turns floods of error events into incidents: one per bug and window, exactly once, within milliseconds,
//! with totals that can be audited.
//!
//! This crate is where the parts are wired; `ARCHITECTURE.md` is the map.

pub mod backfill;
pub mod chain;
pub mod cli;
pub mod config;
pub mod explain;
pub mod generate;
pub mod input;
pub mod metrics;
pub mod pipeline;
pub mod reconcile;
pub mod recovery;
pub mod rules;
mod shown_time;
pub mod web;
pub mod what_if;

/// The version, with the commit that it was built from where that is known.
pub const VERSION: &str = env!("BUILD_VERSION");
