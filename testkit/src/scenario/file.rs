//! A scenario as it is written: the README's tables as structs. A field that is not there is an error.

use floodmark_model::Rule;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) format: u32,
    pub(super) id: String,
    pub(super) title: String,
    pub(super) rules: Vec<String>,
    pub(super) assumes: Vec<String>,
    pub(super) kind: Kind,
    pub(super) runs: Vec<Runner>,
    #[serde(rename = "note")]
    _note: Option<String>,
    pub(super) base: Option<i64>,
    pub(super) params: Params,
    pub(super) now: Option<i64>,
    pub(super) settled: Option<bool>,
    pub(super) records: Vec<Step>,
    /// Read when the kind is known.
    pub(super) expect: serde_json::Value,
}

/// What a scenario is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Section 5 of the semantics.
    Alerts,
    /// Sections 2 to 4.
    Occurrences,
}

/// What runs scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// The plain state code.
    Pure,
    /// The whole timely graph.
    Dataflow,
    /// Real Kafka, Postgres and ClickHouse, and the embedded store.
    Kafka,
}

/// Settings that differ from the defaults. Durations are milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// N of W-2.
    pub threshold: Option<u32>,
    /// W-3 on or off.
    pub straddle: Option<bool>,
    /// Length of a window.
    pub window: Option<i64>,
    /// B of W-3.
    pub buckets: Option<u16>,
    /// Cap of fingerprints for each (rule, tenant, window), W-12; no limit by default.
    pub max_fingerprints: Option<usize>,
    /// L of section 5.
    pub lateness: Option<i64>,
    ///
    pub tie: Option<Tie>,
    /// H of A-8.
    pub pair_hold: Option<i64>,
    /// S of A-9.
    pub skew_tolerance: Option<i64>,
    /// A of A-10.
    pub auto_resolve: Option<i64>,
    ///
    pub reopen: Option<Reopen>,
    /// R of A-11.
    pub reopen_within: Option<i64>,
    ///
    pub flap_changes: Option<u32>,
    ///
    pub flap_window: Option<i64>,
    ///
    pub flap_quiet: Option<i64>,
}

impl Params {
    /// The rule that counts occurrences.
    #[must_use]
    pub fn rule(&self) -> Rule {
        let default = Rule::default();
        Rule {
            threshold: self.threshold.unwrap_or(default.threshold),
            straddle: self.straddle.unwrap_or(default.straddle),
            window_ms: self.window.unwrap_or(default.window_ms),
            buckets: self.buckets.unwrap_or(default.buckets),
            ..default
        }
    }
}

/// Which of two alerts with one `created_ts` comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tie {
    /// The one that was sent first.
    Arrival,
    /// Fired, so that resolved has the last word.
    ResolvedWins,
    /// Resolved, so that fired has the last word.
    FiredWins,
}

/// What a fired event after a close does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reopen {
    /// A new row that names the old one.
    NewRow,
    /// The same row opens again.
    SameRow,
}

/// One step; which fields make which step is decided when it is expanded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Step {
    pub(super) t: Option<i64>,
    pub(super) ts_text: Option<String>,
    pub(super) rt: Option<i64>,
    pub(super) tenant: Option<String>,
    pub(super) event_id: Option<String>,
    pub(super) obj: Option<String>,
    pub(super) metric: Option<String>,
    pub(super) state: Option<String>,
    pub(super) value: Option<serde_json::Value>,
    pub(super) fp: Option<String>,
    pub(super) level: Option<String>,
    pub(super) extra: Option<serde_json::Map<String, serde_json::Value>>,
    pub(super) raw: Option<String>,
    pub(super) partition: Option<i32>,
    pub(super) n: Option<u32>,
    pub(super) step: Option<i64>,
    pub(super) id: Option<String>,
    pub(super) same_record_as: Option<String>,
    pub(super) cut: Option<bool>,
    pub(super) watermark: Option<i64>,
    pub(super) restart: Option<super::Restart>,
    pub(super) recreate_topic: Option<bool>,
    pub(super) user_resolve: Option<i64>,
}
