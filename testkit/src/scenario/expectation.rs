//! What must stand at the end of a scenario, as written: labels for fingerprints, times relative to the base.

use super::file::Kind;
use anyhow::{Context, Result};
use serde::Deserialize;

/// What must stand at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Of a scenario of occurrences.
    Occurrences(Occurrences),
    /// Of a scenario of alerts.
    Alerts(Alerts),
}

impl Expectation {
    pub(super) fn read(kind: Kind, expect: serde_json::Value) -> Result<Self> {
        let read = match kind {
            Kind::Occurrences => serde_json::from_value(expect).map(Self::Occurrences),
            Kind::Alerts => serde_json::from_value(expect).map(Self::Alerts),
        };
        read.context("expect")
    }
}

/// Incidents of occurrences, counters and totals: each list is the whole set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occurrences {
    /// Those that are neither superseded nor withdrawn.
    pub incidents: Vec<Incident>,
    /// What became of the records.
    pub counters: Counters,
    /// Every window that is not empty.
    pub totals: Vec<Total>,
    /// The tenants' windows over `max_fingerprints` (W-12).
    #[serde(default)]
    pub cardinality: Vec<Crowd>,
}

/// An incident of occurrences.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// The tenant.
    pub tenant: String,
    /// The label of the fingerprint.
    pub fingerprint: String,
    /// First instant of the window.
    pub window_start: i64,
    /// count(w).
    pub count: u64,
    /// First instant of the window of the episode's first incident (W-11).
    pub episode: i64,
}

/// A total.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Total {
    /// The tenant.
    pub tenant: String,
    /// The label of the fingerprint.
    pub fingerprint: String,
    /// First instant of the window.
    pub window_start: i64,
    /// Distinct occurrences in it.
    pub total: u64,
}

/// A tenant's window over `max_fingerprints`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowd {
    /// The tenant.
    pub tenant: String,
    /// First instant of the window.
    pub window_start: i64,
}

/// What became of records and events. A counter that is not written is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counters {
    /// Distinct records that repeat an `event_id` (I-2).
    pub client_retry: u64,
    /// Distinct records that cannot be read (G-2).
    pub dead_letter: u64,
    /// Distinct records that no rule matches.
    pub unmatched: u64,
    /// Occurrences without a usable time (T-1).
    pub ts_missing: u64,
    /// Occurrences with a time too far in the future (T-2).
    pub ts_clamped: u64,
    /// Alerts: pairs shorter than the hold.
    pub suppressed_pairs: u64,
    /// Alerts: resolved events of a key without an incident.
    pub orphan_resolved: u64,
    /// Alerts: resolved events of a key whose incident is closed.
    pub extra_resolved: u64,
    /// Alerts: events that the fold ignores.
    pub late_ignored: u64,
}

impl Counters {
    /// Every counter with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("client_retry", self.client_retry),
            ("dead_letter", self.dead_letter),
            ("unmatched", self.unmatched),
            ("ts_missing", self.ts_missing),
            ("ts_clamped", self.ts_clamped),
            ("suppressed_pairs", self.suppressed_pairs),
            ("orphan_resolved", self.orphan_resolved),
            ("extra_resolved", self.extra_resolved),
            ("late_ignored", self.late_ignored),
        ]
    }
}

/// Incidents of alerts and counters: the list is the whole set, sorted by tenant, `obj` and `metric` (absent first),
/// then in the order of the key's life.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// The incidents.
    pub incidents: Vec<AlertIncident>,
    /// What became of the events.
    pub counters: Counters,
}

/// An incident of alerts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertIncident {
    /// The tenant.
    pub tenant: String,
    /// Object of the key; `None` is absent.
    pub obj: Option<String>,
    /// Metric of the key; `None` is absent.
    pub metric: Option<String>,
    /// When it opened.
    pub opened_at: i64,
    /// When it closed.
    pub closed_at: Option<i64>,
    /// `open` or `closed`.
    pub status: String,
    /// Why it closed.
    pub reason: Option<String>,
    /// Fired events.
    pub fires: u64,
    /// The last fired event.
    pub last_fired_at: i64,
    /// How often the row opened again.
    pub reopen_count: u64,
    /// `skew_clamped` and `flapping`.
    pub flags: Vec<String>,
    /// Index into the list of the incident it follows.
    pub reopened_from: Option<usize>,
}
