//! floodmark turns floods of error events into incidents: one per bug and window, exactly once, within milliseconds,
//! with totals that can be audited.
//!
//! This crate is where the parts are wired; `ARCHITECTURE.md` is the map.

pub mod cli;
pub mod config;
pub mod input;
pub mod metrics;
pub mod pipeline;
pub mod recovery;
pub mod web;
