//! What librdkafka says aside: its log lines and its unasked errors.

use rdkafka::ClientContext;
use rdkafka::Statistics;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::{Mutex, PoisonError};

/// Sends librdkafka's log to `tracing`, and keeps the reason of the latest error: a call that timed out then can say
/// that it was the password.
#[derive(Default)]
pub(crate) struct Context {
    last_error: Mutex<Option<String>>,
}

impl Context {
    /// Takes the reason of the latest error.
    pub(crate) fn take_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::error!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", facility, "{message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // The end of a partition comes this way too, and is no error.
        if code == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        tracing::debug!(target: "librdkafka", %error, "{reason}");
        let mut last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        // That all brokers are down only sums up why the last of them is.
        if last_error.is_none() || code != Some(RDKafkaErrorCode::AllBrokersDown) {
            *last_error = Some(reason.to_owned());
        }
    }

    fn stats(&self, _: Statistics) {}
}

impl ConsumerContext for Context {}
