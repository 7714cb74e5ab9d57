//! What can go wrong with Kafka, classified once.

use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode as Code};

/// What the caller should do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Kafka is away, restarting, overloaded or electing: wait with back-off and repeat the same call.
    Transient,
    /// Repeating will not help: stop loudly.
    Permanent,
}

/// A failed call to Kafka. Messages say what was tried and what Kafka or its client said; never a password.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// The configuration cannot be used.
    #[error("kafka setting `{key}`: {reason}")]
    Setting {
        /// The setting.
        key: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// The topic is not there. Nothing creates one on the way: its partitions and retention are its owner's decision.
    #[error("kafka: topic `{topic}` does not exist: create it, or correct its name")]
    TopicMissing {
        /// Its name.
        topic: String,
    },
    /// A call failed.
    #[error("kafka: {action}: {detail}")]
    Failed {
        /// What was tried, such as `describe topic occurrences`.
        action: String,
        /// What the caller should do.
        failure: Failure,
        /// What Kafka or its client said.
        detail: String,
    },
}

impl KafkaError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Failed { failure: Failure::Transient, .. })
    }

    /// A failed `action`, classified by what the client says.
    pub(crate) fn failed(action: impl Into<String>, error: &ClientError) -> Self {
        match error {
            // Raised only while a client is made: settings that are each valid and do not go together, or name a
            // file that cannot be read.
            ClientError::ClientCreation(reason) => {
                Self::Setting { key: "(all)".into(), reason: format!("the client cannot be made: {reason}") }
            }
            _ => Self::Failed { action: action.into(), failure: classify(error), detail: error.to_string() },
        }
    }

    /// A failed `action`, by the code of the answer.
    pub(crate) fn answered(action: impl Into<String>, code: Code, detail: impl Into<String>) -> Self {
        Self::Failed { action: action.into(), failure: classify_code(code), detail: detail.into() }
    }
}

fn classify(error: &ClientError) -> Failure {
    match error {
        ClientError::MessageConsumptionFatal(_) | ClientError::Nul(_) | ClientError::AdminOpCreation(_) => {
            Failure::Permanent
        }
        ClientError::AdminOp(code) => classify_code(*code),
        _ => error.rdkafka_error_code().map_or(Failure::Transient, classify_code),
    }
}

/// The codes that no waiting cures. Everything else is transient: brokers come back, leaders are elected, quotas
/// pass, and a revoked right or a rotated password is given again while health says what is missing (G-7).
pub(crate) fn classify_code(code: Code) -> Failure {
    match code {
        // The records cannot be read, and the client goes on behind them: going on would lose them silently (G-2).
        Code::BadMessage | Code::BadCompression | Code::NotImplemented | Code::MessageSizeTooLarge
        // The client has given up.
        | Code::Fatal
        // The request itself is wrong.
        | Code::InvalidArgument | Code::InvalidTopic | Code::InvalidConfig | Code::InvalidRequest
        | Code::InvalidPartitions | Code::InvalidReplicationFactor | Code::InvalidReplicaAssignment
        | Code::InvalidGroupId | Code::InvalidTimestamp | Code::InvalidRecord | Code::PolicyViolation
        | Code::TopicAlreadyExists | Code::TopicDeletionDisabled
        // The broker is too old, or speaks another protocol.
        | Code::UnsupportedFeature | Code::UnsupportedVersion | Code::UnsupportedForMessageFormat
        | Code::UnsupportedSASLMechanism | Code::UnsupportedCompressionType => Failure::Permanent,
        _ => Failure::Transient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_the_client_skips_stop_the_reader() {
        let corrupt = ClientError::MessageConsumption(Code::BadMessage);
        assert!(!KafkaError::failed("read", &corrupt).is_transient());
    }

    #[test]
    fn an_absent_broker_is_waited_for() {
        for code in [Code::AllBrokersDown, Code::BrokerTransportFailure, Code::OperationTimedOut] {
            assert!(KafkaError::failed("read", &ClientError::MetadataFetch(code)).is_transient());
        }
    }

    #[test]
    fn the_message_says_what_was_tried() {
        let error = KafkaError::failed("describe topic `x`", &ClientError::AdminOp(Code::InvalidTopic));
        assert!(error.to_string().starts_with("kafka: describe topic `x`: "), "{error}");
        assert!(!error.is_transient());
    }
}
