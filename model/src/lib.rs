//! The vocabulary of floodmark: what an occurrence, a window, a rule and an incident *are*.
//!
//! No I/O, no clock, no randomness and no other crate of the workspace. Rule numbers such as `T-1` or `W-3`
//! refer to `docs/semantics.md`.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod fingerprint;
pub mod identity;
pub mod incident;
pub mod level;
pub mod occurrence;
pub mod predicate;
pub mod progress;
pub mod rule;
pub mod time;
pub mod window;
pub mod wire;

pub use fingerprint::Fingerprint;
pub use identity::{Coordinates, Identity, TopicId};
pub use incident::{Detection, IncidentId, IncidentKey, IncidentKind};
pub use level::Level;
pub use occurrence::{DeadLetter, DeadReason, Occurrence, RawRecord};
pub use predicate::{Reach, Verdict};
pub use rule::Rule;
pub use time::{EventTime, RecordTime};
pub use window::Window;
