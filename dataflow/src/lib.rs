//! The dataflow that counts in event time: no clock, no randomness, no I/O and no client, only bounded channels.
//!
//! ```text
//!  batches -> source --+-- rows -----------------> egress (occurrences) --+
//!                      |                               | acknowledged     |
//!                      +-- messages -> exchange -> window_judge           +--> probe -> durable cuts
//!                                          |-- due ------> egress --------+
//!                                          |-- closings -> egress --------+
//!                                          |-- crowds -> exchange -> crowds -> egress (due)
//!                                          +-- questions <-> occurrence store
//! ```
//!
//! The timestamp is an epoch of an injected clock; watermarks are data (`epoch`, `state::merged_watermark`). Operators
//! are thin shells around the structs in `state`.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod ask;
pub mod crowds;
pub mod egress;
pub mod epoch;
pub mod graph;
pub mod message;
mod prefetch;
pub mod progress;
pub mod replay;
pub mod source;
pub mod state;
pub mod wake;
pub mod window_judge;
