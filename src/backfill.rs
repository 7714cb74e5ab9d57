//! `floodmark backfill`: late records in bulk, as input of the engine that runs (design, decision 13).
//!
//! Files, or a range of a topic, go record by record into the backfill topic, each with the identity of its origin; the
//! engine reads them beside the live ones. Nothing here counts or judges.
//!
//! # Promises
//!
//! - What is produced twice is one occurrence: identity and record time are those of the origin.
//! - A backfill that was cut off goes on where every record before is acknowledged.
//! - A file that was changed where it was read already, or is read in another format, is refused before anything is sent.
//! - A file that cannot be read further costs its own rest, and no other file.
//! - Memory is bounded by one batch of records, whatever is read.

pub mod compare;
pub mod files;
pub mod find;
mod held;
pub mod range;
pub mod report;
pub mod send;
pub mod topic;
pub mod touched;
pub mod wait;

use floodmark_kafka::KafkaError;
use floodmark_sinks::StoreError;

/// Why a backfill fails.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The arguments are wrong.
    #[error("{0}")]
    Usage(String),
    /// A store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Kafka does not answer, or refuses.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// Everything is sent, and nobody has counted it in time.
    #[error("{0}")]
    NotCounted(String),
    /// The records to read are gone.
    #[error("{0}")]
    Lost(String),
}
