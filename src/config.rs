//! What a run is told: one TOML file, then `FLOODMARK_*` from the environment, then flags (design, section 5).

mod file;
pub mod load;
mod rules;
pub mod show;
pub mod units;

use floodmark_model::identity::KeyHasher;
use floodmark_model::rule::Rule;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The effective configuration of one run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the pipeline: progress and generation are kept under it.
    pub pipeline: String,
    /// Timely workers of this process, at least 1.
    pub workers: usize,
    /// Where `/healthz`, `/readyz` and `/metrics` listen; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// Kafka.
    pub kafka: KafkaConfig,
    /// Postgres URL.
    pub postgres: Secret,
    /// ClickHouse URL.
    pub clickhouse: Secret,
    /// Redis URL. Accepted and not used yet: the retry filter is in memory.
    pub redis: Option<Secret>,
    /// Time (T-1 to T-4).
    pub time: TimeConfig,
    /// Bounds.
    pub limits: LimitsConfig,
    /// The rules as they are configured now, at least one. Which version judges a window is known when the stores were
    /// read: see [`crate::rules`].
    pub rules: Vec<Rule>,
    /// Whether records that no rule matches are stored, apart from the others.
    pub store_unmatched: bool,
    /// How often a run compares log, tallies, rows and incidents, in milliseconds; 0: never.
    pub reconcile_every_ms: i64,
    /// How records that are not floodmark's own JSON are read.
    pub mapping: Option<floodmark_model::wire::mapping::Mapping>,
}

/// Where Kafka is, and how to talk to it.
#[derive(Clone, Debug)]
pub struct KafkaConfig {
    /// `host:port[,host:port...]`.
    pub brokers: String,
    /// The topic of occurrences.
    pub topic: String,
    /// The topic of backfilled occurrences.
    pub backfill_topic: String,
    /// Consumer group under which offsets are shown to lag tools.
    pub group: String,
    /// Passed through to librdkafka: `security.protocol`, `sasl.*`, `ssl.*`, ...
    pub client: BTreeMap<String, String>,
    /// Go on where the broker no longer holds the next offset; the lost range is logged.
    pub accept_data_loss: bool,
}

/// Time (T-1 to T-4), in milliseconds.
#[derive(Clone, Debug)]
pub struct TimeConfig {
    /// T-3.
    pub lateness_ms: i64,
    /// T-2.
    pub max_future_ms: i64,
    /// T-4.
    pub idle_after_ms: i64,
    /// The zone of text without one.
    pub zone: floodmark_model::time::Zone,
}

/// Bounds of everything that grows.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// Panes of open windows, in this process (W-12).
    pub max_panes: usize,
    /// Panes of one tenant in one window of one rule; more bugs are an incident of their own (Q46).
    pub max_fingerprints: u32,
    /// Longest record in bytes; longer ones are dead letters.
    pub max_record_bytes: usize,
    /// Distinct tenants of one run; records of further ones are dead letters.
    pub max_tenants: usize,
    /// Event ids that the retry filter remembers (I-2).
    pub max_event_ids: usize,
    /// Encoded rows on their way to the occurrence store, in bytes.
    pub max_row_bytes: usize,
}

/// Text that is never shown: a URL that may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the client that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Where an embedded run reads from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputSource {
    /// Files.
    Files(Vec<PathBuf>),
    /// Standard input.
    Standard,
}

impl Config {
    /// Hash of all settings that identity or sort key depend on (design, decision 5): a start that finds another one
    /// stored deletes what is not committed, since it would be stored again under another identity.
    #[must_use]
    pub fn identity_hash(&self) -> u128 {
        let mut key = KeyHasher::new("settings");
        key.field(Some(&[floodmark_model::fingerprint::FINGERPRINT_VERSION]));
        key.field(Some(&self.time.max_future_ms.to_le_bytes()));
        key.field(self.time.zone.iana_name().map(str::as_bytes));
        let mapping = self.mapping.as_ref().map(|mapping| format!("{mapping:?}"));
        key.field(mapping.as_deref().map(str::as_bytes));
        key.finish()
    }
}

impl Default for TimeConfig {
    fn default() -> Self {
        Self {
            lateness_ms: 60_000,
            max_future_ms: 60_000,
            idle_after_ms: 5_000,
            zone: floodmark_model::time::Zone::UTC,
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            max_panes: 4_000_000,
            max_fingerprints: 1_000_000,
            max_record_bytes: 1 << 20,
            max_tenants: 100_000,
            max_event_ids: 2_000_000,
            max_row_bytes: 64 << 20,
        }
    }
}
