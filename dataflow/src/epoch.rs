//! The timely timestamp: steps of an injected clock, tied to nothing durable (design, decision 2).

/// A step of the clock, the same on every worker.
pub type Epoch = u64;

/// Milliseconds of one epoch: how often sources speak, and how often progress can be committed.
pub const EPOCH_MS: i64 = 100;

/// Where the dataflow gets the time from. It never reads a clock of its own.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970-01-01T00:00:00Z. May jump; epochs and watermarks never go back.
    fn now_ms(&self) -> i64;
}

/// The epoch of an instant.
#[must_use]
pub fn epoch_at(now_ms: i64) -> Epoch {
    u64::try_from(now_ms.div_euclid(EPOCH_MS)).unwrap_or(0)
}
