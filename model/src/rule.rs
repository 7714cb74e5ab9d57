//! Rules: what is counted, and from which count on a human is paged (`semantics.md`, section 4).
//!
//! A rule may change from one start to the next, and windows that lie before the change are judged as before: a [`Rule`]
//! is its newest version, and carries the earlier ones (Q51).

mod versions;

use crate::{EventTime, Level, Occurrence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use versions::{MatchSpan, VERSIONS_MAX, VersionError};

/// One rule. An occurrence is counted once for each rule that matches it.
///
/// All versions of a rule have its name, its window length and its buckets. Its own fields are those of the newest
/// version; [`Rule::at`] gives the version of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Its name: part of an incident's identity (Q51).
    pub name: String,
    /// Window length in milliseconds.
    pub window_ms: i64,
    /// N: an incident is due from this count on (W-2). At least 1.
    pub threshold: u32,
    /// N for single tenants, in place of `threshold`. At least 1.
    pub tenant_thresholds: BTreeMap<String, u32>,
    /// Whether bursts over a window boundary count (W-3).
    pub straddle: bool,
    /// B: buckets of a window; divides `window_ms`.
    pub buckets: u16,
    /// How urgent its incidents are.
    pub severity: Severity,
    /// What it looks at.
    pub matches: RuleMatch,
    /// The first window start that this version judges; [`EventTime::MIN`] in a rule that has never changed.
    #[serde(skip, default = "always")]
    pub from: EventTime,
    /// The versions before this one, oldest first, each up to where the next one begins. They have no earlier ones of
    /// their own.
    #[serde(skip)]
    pub earlier: Vec<Rule>,
}

fn always() -> EventTime {
    EventTime::MIN
}

/// What a rule looks at. An empty list stands for every tenant, or every service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMatch {
    /// Tenants; empty: all.
    pub tenants: Vec<String>,
    /// Services; empty: all.
    pub services: Vec<String>,
    /// The least level.
    pub level: Level,
}

/// How urgent an incident is. floodmark shows it, and decides nothing by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// To be looked at during the day.
    Warning,
    /// To be looked at now.
    #[default]
    Critical,
}

/// Index of a rule in the configuration of this run. Never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleIndex(pub u16);

impl Severity {
    /// The name in configuration and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Default for Rule {
    /// The default rule: ten of one bug in five minutes, level `warn` and above.
    fn default() -> Self {
        Self {
            name: "default".into(),
            window_ms: 300_000,
            threshold: 10,
            tenant_thresholds: BTreeMap::new(),
            straddle: true,
            buckets: 10,
            severity: Severity::default(),
            matches: RuleMatch::default(),
            from: always(),
            earlier: Vec::new(),
        }
    }
}

impl Default for RuleMatch {
    /// Every tenant and service, level `warn` and above.
    fn default() -> Self {
        Self { tenants: Vec::new(), services: Vec::new(), level: Level::Warn }
    }
}

impl Rule {
    /// Length of a bucket in milliseconds.
    #[must_use]
    pub fn bucket_ms(&self) -> i64 {
        self.window_ms / i64::from(self.buckets)
    }

    /// N for this tenant, in this version.
    #[must_use]
    pub fn threshold_for(&self, tenant: &str) -> u32 {
        self.tenant_thresholds.get(tenant).copied().unwrap_or(self.threshold)
    }

    /// N for this tenant in one window: that of the window's version.
    #[must_use]
    pub fn threshold_at(&self, window_start: EventTime, tenant: &str) -> u32 {
        self.at(window_start).threshold_for(tenant)
    }

    /// The least N of any version and tenant.
    #[must_use]
    pub fn least_threshold(&self) -> u32 {
        self.thresholds().min().unwrap_or(self.threshold)
    }

    /// The greatest N of any version and tenant: a counter that saturates there decides as an exact one does.
    #[must_use]
    pub fn greatest_threshold(&self) -> u32 {
        self.thresholds().max().unwrap_or(self.threshold)
    }

    fn thresholds(&self) -> impl Iterator<Item = u32> {
        self.versions().flat_map(|version| version.tenant_thresholds.values().copied().chain([version.threshold]))
    }

    /// Whether the rule counts this occurrence.
    #[must_use]
    pub fn counts(&self, occurrence: &Occurrence<'_>) -> bool {
        self.counts_fields(occurrence.ts, &occurrence.tenant, &occurrence.service, occurrence.level)
    }

    /// Whether the rule counts an occurrence with these fields: the version of the window that it lies in decides.
    #[must_use]
    pub fn counts_fields(&self, ts: EventTime, tenant: &str, service: &str, level: Level) -> bool {
        self.at(ts).matches.holds(tenant, service, level)
    }
}

impl RuleMatch {
    /// Whether an occurrence with these fields is looked at.
    #[must_use]
    pub fn holds(&self, tenant: &str, service: &str, level: Level) -> bool {
        let names = |list: &[String], name: &str| list.is_empty() || list.iter().any(|known| known == name);
        level >= self.level && names(&self.tenants, tenant) && names(&self.services, service)
    }
}

#[cfg(test)]
mod tests;
