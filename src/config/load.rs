//! Layers: defaults, then the file, then `FLOODMARK_*`, then flags. Every value knows where it came from.

use super::file::File;
use super::rules::{Wrong, rules};
use super::{Config, KafkaConfig, LimitsConfig, Secret, TimeConfig};
use figment::providers::{Env, Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use std::path::Path;

/// A wrong configuration: one line that names key, value, origin and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// What flags say: dotted keys of the file with their values.
#[derive(Clone, Debug, Default)]
pub struct Flags(pub Vec<(&'static str, Value)>);

impl Provider for Flags {
    fn metadata(&self) -> Metadata {
        Metadata::named("command line flag")
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        let mut dict = Dict::new();
        for (key, value) in &self.0 {
            insert(&mut dict, key, value.clone());
        }
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

fn insert(dict: &mut Dict, key: &str, value: Value) {
    match key.split_once('.') {
        None => _ = dict.insert(key.to_owned(), value),
        Some((section, rest)) => {
            let inner = dict.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
            if let Value::Dict(_, inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// A configuration and the layers that it came from.
pub struct Loaded {
    /// The effective configuration.
    pub config: Config,
    pub(super) figment: Figment,
}

/// Reads all layers.
///
/// # Errors
///
/// A key that is unknown, or a value that cannot be; with where it stands and what would be right.
pub fn load(file: Option<&Path>, flags: Flags) -> Result<Loaded, ConfigError> {
    let mut figment = Figment::from(Serialized::defaults(File::default()));
    if let Some(path) = file {
        if !path.is_file() {
            return Err(ConfigError(format!("--config {}: there is no such file", path.display())));
        }
        figment = figment.merge(Toml::file_exact(path));
    }
    let figment = figment.merge(environment()).merge(flags);
    let file: File = figment.extract().map_err(|error| explain(&error))?;
    let config = effective(file, &figment)?;
    Ok(Loaded { config, figment })
}

/// `FLOODMARK_POSTGRES`, `FLOODMARK_KAFKA__TOPIC`, ...: a double underscore steps into a section. What the project's own
/// scripts, build and compose file use is not configuration.
fn environment() -> Env {
    Env::prefixed("FLOODMARK_")
        .filter(|key| {
            let own = ["TEST_", "DEV_", "CONFIG", "LOG", "COMMIT", "POSTGRES_PASSWORD", "CLICKHOUSE_PASSWORD"];
            !own.iter().any(|prefix| key.as_str().to_ascii_uppercase().starts_with(prefix))
        })
        .map(|key| match key.as_str().to_ascii_lowercase().as_str() {
            "brokers" => "kafka.brokers".into(),
            other => other.replace("__", ".").into(),
        })
}

/// One line for the first thing that is wrong.
fn explain(error: &figment::Error) -> ConfigError {
    let mut text = error.clone().into_iter().next().map_or_else(|| error.to_string(), |first| first.to_string());
    // figment names its default profile as part of a key, which is nothing that anybody wrote.
    text = text.replace("default.", "").replace("`one of ", "one of ").replace("``", "`");
    // Keys of the environment come in capitals, with figment's own words around them.
    if let Some((what, rest)) = text.split_once("for key \"")
        && let Some((key, _)) = rest.split_once("\" in `FLOODMARK_`")
    {
        let (name, key) = (key.replace('.', "__").to_uppercase(), key.to_lowercase());
        text = format!("{what}for key \"{key}\" in FLOODMARK_{name} of the environment");
    }
    ConfigError(format!("configuration: {}", text.replace('\n', " ")))
}

fn effective(file: File, figment: &Figment) -> Result<Config, ConfigError> {
    let wrong = |key: &str, value: &dyn std::fmt::Debug, right: &str| {
        let origin = origin(figment, key);
        Err(ConfigError(format!("configuration: {key} = {value:?} in {origin}: {right}")))
    };
    if file.workers == 0 || file.workers > 1_024 {
        return wrong("workers", &file.workers, "must be between 1 and 1024");
    }
    if file.kafka.backfill_topic == file.kafka.topic || file.kafka.backfill_topic.is_empty() {
        return wrong("kafka.backfill_topic", &file.kafka.backfill_topic, "another topic than kafka.topic");
    }
    if file.pipeline.is_empty() || file.pipeline.len() > 128 {
        return wrong("pipeline", &file.pipeline, "a name of 1 to 128 bytes");
    }
    let rules = rules(file.rules).map_err(|Wrong { key, value, right }| {
        ConfigError(format!("configuration: {key} = {value} in {}: {right}", origin(figment, &key)))
    })?;
    for (key, span) in [
        ("time.lateness", file.time.lateness),
        ("time.max_future", file.time.max_future),
        ("time.idle_after", file.time.idle_after),
        ("reconcile.every", file.reconcile.every),
    ] {
        if span.0 > 30 * 86_400_000 {
            return wrong(key, &span, "at most 30d");
        }
    }
    let Ok(zone) = jiff::tz::TimeZone::get(&file.time.zone) else {
        return wrong("time.zone", &file.time.zone, "an IANA name such as UTC or Europe/Berlin");
    };
    for (key, value) in [
        ("limits.max_record_bytes", file.limits.max_record_bytes.0),
        ("limits.max_tenants", file.limits.max_tenants),
        ("limits.max_event_ids", file.limits.max_event_ids),
        ("limits.max_row_bytes", file.limits.max_row_bytes.0),
    ] {
        if value == 0 {
            return wrong(key, &value, "at least 1");
        }
    }
    if file.limits.max_fingerprints == 0 {
        return wrong("limits.max_fingerprints", &0, "at least 1");
    }
    if file.limits.max_panes < file.workers {
        return wrong("limits.max_panes", &file.limits.max_panes, "at least one for each worker");
    }
    Ok(Config {
        pipeline: file.pipeline,
        workers: file.workers,
        listen: Some(file.listen),
        kafka: KafkaConfig {
            brokers: file.kafka.brokers.unwrap_or_default(),
            topic: file.kafka.topic,
            backfill_topic: file.kafka.backfill_topic,
            group: file.kafka.group,
            client: file.kafka.client,
            accept_data_loss: file.kafka.accept_data_loss,
        },
        postgres: Secret::new(file.postgres.unwrap_or_default()),
        clickhouse: Secret::new(file.clickhouse.unwrap_or_default()),
        redis: file.redis.map(Secret::new),
        time: TimeConfig {
            lateness_ms: file.time.lateness.0,
            max_future_ms: file.time.max_future.0,
            idle_after_ms: file.time.idle_after.0,
            zone,
        },
        limits: LimitsConfig {
            max_panes: file.limits.max_panes,
            max_fingerprints: file.limits.max_fingerprints,
            max_record_bytes: file.limits.max_record_bytes.0,
            max_tenants: file.limits.max_tenants,
            max_event_ids: file.limits.max_event_ids,
            max_row_bytes: file.limits.max_row_bytes.0,
        },
        rules,
        store_unmatched: file.store_unmatched,
        reconcile_every_ms: file.reconcile.every.0,
        mapping: file.mapping,
    })
}

/// Where the value of a key came from, for people.
pub(super) fn origin(figment: &Figment, key: &str) -> String {
    let section = key.split('[').next().unwrap_or(key);
    figment.find_metadata(section).map_or_else(|| "the defaults".into(), origin_of)
}

/// The same, from what figment notes with a value.
pub(super) fn origin_of(metadata: &figment::Metadata) -> String {
    match &metadata.source {
        Some(figment::Source::File(path)) => path.display().to_string(),
        _ if metadata.name.contains("environment") => "the environment".into(),
        _ if metadata.name.contains("flag") => "a flag".into(),
        _ => "the defaults".into(),
    }
}
