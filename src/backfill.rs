//! `floodmark backfill`: late records in bulk, as input of the engine that runs (design, decision 13).
//!
//! Files, or a range of a topic, go record by record into the backfill topic, each with the identity of its origin; the
//! engine reads them beside the live ones. Nothing here counts or judges.
//!
//! # Promises
//!
//! - What is produced twice is one occurrence: identity and record time are those of the origin.
//! - A backfill that was cut off goes on where every record before is acknowledged.
//! - Memory is bounded by one batch of records, whatever is read.

pub mod compare;
pub mod files;
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
    /// A file cannot be read further.
    #[error("{name}: cannot be read: {error}")]
    File {
        /// Its path.
        name: String,
        /// Why.
        error: std::io::Error,
    },
    /// The records to read are gone.
    #[error("{0}")]
    Lost(String),
}
