//! How floodmark's Kafka clients are set up: one place, each setting with its reason.

use crate::KafkaError;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError as ClientError;
use std::collections::BTreeMap;
use std::fmt;

/// Settings of every Kafka client. Its `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    brokers: String,
    client_id: String,
    properties: BTreeMap<String, String>,
}

/// How much one reader's queue may hold, in KiB of record values. With the default settings a reader of many
/// partitions stays below 40 MB, all overheads included; more does not read faster.
pub(crate) const QUEUE_KBYTES: usize = 8 * 1024;

/// How much a broker answers to one fetch, in bytes as compressed as it is stored. The queue overshoots by that much.
pub(crate) const FETCH_BYTES: usize = 4 * 1024 * 1024;

/// How long a record may wait for its acknowledgement before it counts as failed.
pub(crate) const MESSAGE_TIMEOUT_MS: u64 = 30_000;

/// Settings that floodmark's guarantees rest on, and where to turn instead.
const OWNED: &[(&str, &str)] = &[
    ("bootstrap.servers", "use `brokers`"),
    ("metadata.broker.list", "use `brokers`"),
    ("client.id", "use `client_id`"),
    ("group.id", "it follows from the pipeline's name"),
    ("group.instance.id", "partitions are assigned by hand"),
    ("group.protocol", "partitions are assigned by hand"),
    ("enable.auto.commit", "progress is committed behind both stores"),
    ("auto.commit.enable", "progress is committed behind both stores"),
    ("enable.auto.offset.store", "progress is committed behind both stores"),
    ("auto.offset.reset", "a lost offset is an error, never skipped silently"),
    ("enable.partition.eof", "idleness needs it"),
    ("isolation.level", "aborted records are no occurrences"),
    ("check.crcs", "a corrupt record must be seen"),
    ("queued.max.messages.kbytes", "memory and idleness depend on it"),
    ("queued.min.messages", "memory and idleness depend on it"),
    ("fetch.max.bytes", "memory and idleness depend on it"),
    ("enable.idempotence", "a record must not be written twice"),
    ("acks", "accepted means durable"),
    ("request.required.acks", "accepted means durable"),
    ("transactional.id", "no transactions are used"),
    ("message.timeout.ms", "waiting for acknowledgements depends on it"),
    ("delivery.timeout.ms", "waiting for acknowledgements depends on it"),
    ("plugin.library.paths", "no foreign code is loaded"),
];

impl KafkaSettings {
    /// Settings for the cluster at `brokers` (`host:port`, comma separated). `client_id` names this process in
    /// the brokers' logs and quotas. `properties` go to librdkafka as they are: `security.protocol`, `sasl.*`,
    /// `ssl.*` and any other that floodmark's guarantees do not rest on.
    ///
    /// # Errors
    /// No broker, a property that floodmark owns, one that librdkafka does not know, or a value that it refuses.
    pub fn new(
        brokers: impl Into<String>,
        client_id: impl Into<String>,
        properties: BTreeMap<String, String>,
    ) -> Result<Self, KafkaError> {
        let settings = Self { brokers: brokers.into(), client_id: client_id.into(), properties };
        if settings.brokers.split(',').all(|broker| broker.trim().is_empty()) {
            let reason = "names no broker: give at least one `host:port`".into();
            return Err(KafkaError::Setting { key: "brokers".into(), reason });
        }
        for key in settings.properties.keys() {
            if let Some((_, instead)) = OWNED.iter().find(|(owned, _)| owned == key) {
                let reason = format!("cannot be set, since floodmark's guarantees rest on it: {instead}");
                return Err(KafkaError::Setting { key: key.clone(), reason });
            }
        }
        // librdkafka knows its properties best; asked here, a wrong one fails before anything is started.
        settings.client().create_native_config().map_err(|error| refused(&error))?;
        Ok(settings)
    }

    /// The brokers, as given.
    #[must_use]
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// What every client has.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", &self.client_id)
            // Firewalls forget connections that are silent; the kernel keeps them awake.
            .set("socket.keepalive.enable", "true")
            // A broker that restarts is found again within a second; the default waits up to ten.
            .set("reconnect.backoff.max.ms", "1000")
            // Brokers close idle connections by design: not worth a line in the log.
            .set("log.connection.close", "false");
        for (key, value) in &self.properties {
            config.set(key, value);
        }
        config
    }

    /// A reader of partitions that are assigned by hand. librdkafka assigns none without a `group`, though no group
    /// is joined.
    pub(crate) fn reader(&self, group: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            // Latency: a fetch returns with the first record. Only one is under way per broker, so a partition that
            // has room again waits for it at most this long; the end of a partition is known as late.
            .set("fetch.wait.max.ms", "50")
            .set("fetch.min.bytes", "1")
            // How soon a reader whose queue was full fetches again; the default of a second stalls it.
            .set("fetch.queue.backoff.ms", "2")
            // Likewise after an error, such as a change of leader.
            .set("fetch.error.backoff.ms", "100")
            // One partition's share of a fetch, so that busy ones do not starve the others.
            .set("fetch.message.max.bytes", "1048576");
        self.override_with_properties(&mut config);
        config
            .set("group.id", group)
            // Progress lives in Postgres, behind both stores (G-3): neither librdkafka nor a group commits for us.
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // A place that the log no longer holds is data loss, to be named and decided by a human.
            .set("auto.offset.reset", "error")
            // T-4: idleness starts at the end of a partition, not in silence.
            .set("enable.partition.eof", "true")
            // What a transaction aborted never happened.
            .set("isolation.level", "read_committed")
            // Without it a flipped bit becomes somebody's error message.
            .set("check.crcs", "true")
            // Memory: the queue is shared by all partitions of the reader. Whichever of both is reached first stops
            // fetching; a queued record costs 300 bytes beside its value.
            .set("queued.max.messages.kbytes", QUEUE_KBYTES.to_string())
            .set("queued.min.messages", "20000")
            .set("fetch.max.bytes", FETCH_BYTES.to_string());
        config
    }

    /// A producer whose records are on all in-sync replicas, once and in order, when it says so (G-1).
    pub(crate) fn producer(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            // Batches of what arrives within a few milliseconds: an open flood pays one request for many records.
            .set("linger.ms", "2")
            .set("compression.type", "lz4")
            // Longer than any record that is accepted; the brokers and the topic have limits of their own.
            .set("message.max.bytes", "16777216")
            // What one request carries; without it the limit above would be that as well.
            .set("batch.size", "1000000");
        self.override_with_properties(&mut config);
        config
            // A retried request must not write its records twice; not the default in librdkafka.
            .set("enable.idempotence", "true")
            .set("acks", "all")
            // Longer than any outage worth waiting for; a caller that gave up earlier may still be delivered.
            .set("message.timeout.ms", MESSAGE_TIMEOUT_MS.to_string())
            // Bounds memory: a full queue makes `send_all` wait.
            .set("queue.buffering.max.messages", "100000")
            .set("queue.buffering.max.kbytes", "65536");
        config
    }

    /// Puts what every client has, and the user's properties, over the defaults in `config`.
    fn override_with_properties(&self, config: &mut ClientConfig) {
        for (key, value) in self.client().config_map() {
            config.set(key, value);
        }
    }
}

/// Whether the value of a librdkafka property is a secret, to be masked wherever settings are shown. In doubt it is.
#[must_use]
pub fn is_secret(property: &str) -> bool {
    const SECRET: [&str; 9] = ["password", "secret", "pem", "key", "username", "config", "claim", "jwt", "token"];
    let is_place = property.ends_with(".location") || property.ends_with(".file");
    !is_place && property.split('.').any(|part| SECRET.contains(&part))
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: BTreeMap<&str, &str> = self
            .properties
            .iter()
            .map(|(key, value)| (key.as_str(), if is_secret(key) { "***" } else { value.as_str() }))
            .collect();
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("properties", &shown)
            .finish()
    }
}

/// The error of a property that librdkafka refuses. Its own message repeats the value, so it is left out for secrets.
fn refused(error: &ClientError) -> KafkaError {
    match error {
        ClientError::ClientConfig(_, _, key, _) if is_secret(key) => {
            KafkaError::Setting { key: key.clone(), reason: "librdkafka refuses its value".into() }
        }
        ClientError::ClientConfig(_, reason, key, _) => {
            KafkaError::Setting { key: key.clone(), reason: reason.clone() }
        }
        other => KafkaError::failed("check settings", other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn with(properties: &[(&str, &str)]) -> Result<KafkaSettings, KafkaError> {
        let properties = properties.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        KafkaSettings::new("kafka:9092", "floodmark", properties)
    }

    #[test]
    fn a_property_that_floodmark_owns_is_refused_by_name() {
        for (key, _) in OWNED {
            let error = with(&[(key, "x")]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{error}");
        }
    }

    #[test]
    fn a_property_that_librdkafka_does_not_know_is_refused_by_name() {
        let error = with(&[("security.protocl", "ssl")]).unwrap_err().to_string();
        assert!(error.contains("security.protocl"), "{error}");
    }

    #[test]
    fn no_broker_is_refused() {
        assert!(KafkaSettings::new(" ,", "floodmark", BTreeMap::new()).is_err());
    }

    #[test]
    fn secrets_are_never_shown() {
        let settings = with(&[
            ("security.protocol", "sasl_ssl"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.password", "hunter2"),
            ("ssl.key.password", "hunter2"),
            ("ssl.key.pem", "hunter2"),
            ("ssl.keystore.password", "hunter2"),
            ("ssl.key.location", "/etc/key"),
        ])
        .unwrap();
        let shown = format!("{settings:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("sasl_ssl") && shown.contains("/etc/key") && shown.contains("PLAIN"), "{shown}");
    }

    #[test]
    fn every_property_that_librdkafka_calls_sensitive_is_a_secret_but_names_of_files() {
        for secret in [
            "ssl.key.password",
            "ssl.key.pem",
            "ssl.ca.pem",
            "ssl.keystore.password",
            "sasl.username",
            "sasl.password",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.private.key.pem",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for shown in ["security.protocol", "sasl.mechanism", "ssl.ca.location", "ssl.key.location"] {
            assert!(!is_secret(shown), "{shown}");
        }
    }

    #[test]
    fn a_refused_secret_is_not_in_the_error() {
        let secret = ClientError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value \"hunter2\"".into(),
            "sasl.password".into(),
            "hunter2".into(),
        );
        assert!(!refused(&secret).to_string().contains("hunter2"));
    }

    #[test]
    fn tuning_can_be_overridden_and_guarantees_cannot() {
        let config = with(&[("fetch.wait.max.ms", "7")]).unwrap().reader("group");
        assert_eq!(config.get("fetch.wait.max.ms"), Some("7"));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
    }

    #[test]
    fn librdkafka_takes_every_setting() {
        let settings = with(&[]).unwrap();
        for config in [settings.client(), settings.reader("group"), settings.producer()] {
            assert!(config.create_native_config().is_ok());
        }
    }
}
