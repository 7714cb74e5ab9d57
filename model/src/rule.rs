//! Rules: what is counted, and from which count on a human is paged (`semantics.md`, section 4).

use crate::{Level, Occurrence};
use serde::{Deserialize, Serialize};

/// One rule. An occurrence is counted once for each rule that matches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its name: part of an incident's identity (Q51).
    pub name: String,
    /// Window length in milliseconds.
    pub window_ms: i64,
    /// N: an incident is due from this count on (W-2). At least 1.
    pub threshold: u32,
    /// Whether bursts over a window boundary count (W-3).
    pub straddle: bool,
    /// B: buckets of a window; divides `window_ms`.
    pub buckets: u16,
    /// What it looks at.
    pub matches: RuleMatch,
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

/// Index of a rule in the configuration of this run. Never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleIndex(pub u16);

impl Default for Rule {
    /// The default rule: ten of one bug in five minutes, level `warn` and above.
    fn default() -> Self {
        Self {
            name: "default".into(),
            window_ms: 300_000,
            threshold: 10,
            straddle: true,
            buckets: 10,
            matches: RuleMatch { tenants: Vec::new(), services: Vec::new(), level: Level::Warn },
        }
    }
}

impl Rule {
    /// Length of a bucket in milliseconds.
    #[must_use]
    pub fn bucket_ms(&self) -> i64 {
        self.window_ms / i64::from(self.buckets)
    }

    /// Whether the rule counts this occurrence.
    #[must_use]
    pub fn counts(&self, occurrence: &Occurrence<'_>) -> bool {
        self.counts_fields(&occurrence.tenant, &occurrence.service, occurrence.level)
    }

    /// Whether the rule counts an occurrence with these fields.
    #[must_use]
    pub fn counts_fields(&self, tenant: &str, service: &str, level: Level) -> bool {
        let names = |list: &[String], name: &str| list.is_empty() || list.iter().any(|known| known == name);
        level >= self.matches.level && names(&self.matches.tenants, tenant) && names(&self.matches.services, service)
    }
}
