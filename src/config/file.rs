//! The configuration as it is written: sections and keys of the TOML file. Unknown keys are errors.

use super::units::{Size, Span};
use floodmark_model::Level;
use floodmark_model::rule::Severity;
use floodmark_model::wire::mapping::Mapping;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The whole file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) pipeline: String,
    pub(super) workers: usize,
    pub(super) listen: SocketAddr,
    pub(super) store_unmatched: bool,
    pub(super) postgres: Option<String>,
    pub(super) clickhouse: Option<String>,
    pub(super) redis: Option<String>,
    pub(super) kafka: Kafka,
    pub(super) time: Time,
    pub(super) limits: Limits,
    pub(super) reconcile: Reconcile,
    pub(super) rules: Vec<RuleEntry>,
    pub(super) mapping: Option<Mapping>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Kafka {
    pub(super) brokers: Option<String>,
    pub(super) topic: String,
    pub(super) backfill_topic: String,
    pub(super) group: String,
    pub(super) accept_data_loss: bool,
    pub(super) client: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Time {
    pub(super) lateness: Span,
    pub(super) max_future: Span,
    pub(super) idle_after: Span,
    pub(super) zone: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    pub(super) max_panes: usize,
    pub(super) max_fingerprints: u32,
    pub(super) max_record_bytes: Size,
    pub(super) max_tenants: usize,
    pub(super) max_event_ids: usize,
    pub(super) max_row_bytes: Size,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Reconcile {
    pub(super) every: Span,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleEntry {
    pub(super) name: String,
    pub(super) window: Span,
    pub(super) threshold: u32,
    pub(super) tenant_thresholds: BTreeMap<String, u32>,
    pub(super) straddle: bool,
    pub(super) straddle_buckets: u16,
    pub(super) severity: Severity,
    pub(super) tenants: Vec<String>,
    pub(super) services: Vec<String>,
    pub(super) level: Level,
}

impl Default for File {
    fn default() -> Self {
        Self {
            pipeline: "default".into(),
            workers: 2,
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            store_unmatched: false,
            postgres: None,
            clickhouse: None,
            redis: None,
            kafka: Kafka::default(),
            time: Time::default(),
            limits: Limits::default(),
            reconcile: Reconcile::default(),
            rules: vec![RuleEntry::default()],
            mapping: None,
        }
    }
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            brokers: None,
            topic: "occurrences".into(),
            backfill_topic: "occurrences.backfill".into(),
            group: "floodmark".into(),
            accept_data_loss: false,
            client: BTreeMap::new(),
        }
    }
}

impl Default for Time {
    fn default() -> Self {
        let time = super::TimeConfig::default();
        Self {
            lateness: Span(time.lateness_ms),
            max_future: Span(time.max_future_ms),
            idle_after: Span(time.idle_after_ms),
            zone: "UTC".into(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let limits = super::LimitsConfig::default();
        Self {
            max_panes: limits.max_panes,
            max_fingerprints: limits.max_fingerprints,
            max_record_bytes: Size(limits.max_record_bytes),
            max_tenants: limits.max_tenants,
            max_event_ids: limits.max_event_ids,
            max_row_bytes: Size(limits.max_row_bytes),
        }
    }
}

impl Default for Reconcile {
    fn default() -> Self {
        Self { every: Span(3_600_000) }
    }
}

impl Default for RuleEntry {
    fn default() -> Self {
        let rule = floodmark_model::Rule::default();
        Self {
            name: rule.name,
            window: Span(rule.window_ms),
            threshold: rule.threshold,
            tenant_thresholds: rule.tenant_thresholds,
            straddle: rule.straddle,
            straddle_buckets: rule.buckets,
            severity: rule.severity,
            tenants: rule.matches.tenants,
            services: rule.matches.services,
            level: rule.matches.level,
        }
    }
}
