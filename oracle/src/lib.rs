//! What floodmark promises about occurrences, computed the slow and obvious way.
//!
//! [`Oracle::judge`] takes all occurrences at once and says which incidents and totals must stand in the end (W-1 to
//! W-4, W-11, W-12): for every order of arrival, batch cut, number of workers, crash and lateness (W-7). Each window is
//! counted and judged by the version of its own start (Q51). It shares no code with the engine, counts with loops and
//! keeps everything: to be read beside `docs/semantics.md`, and to be believed when the engine disagrees. Tests use it.

mod key;

use floodmark_model::{EventTime, Fingerprint, Identity, Level, Occurrence, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// What the oracle looks at in an occurrence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Observation {
    /// When it happened, after T-1 and T-2.
    pub ts: EventTime,
    /// Which records are this same occurrence.
    pub identity: Identity,
    /// The tenant.
    pub tenant: String,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// The service, for the rules' match.
    pub service: String,
    /// The level, for the rules' match.
    pub level: Level,
}

impl From<&Occurrence<'_>> for Observation {
    fn from(occurrence: &Occurrence<'_>) -> Self {
        Self {
            ts: occurrence.ts,
            identity: occurrence.identity,
            tenant: occurrence.tenant.to_string(),
            fingerprint: occurrence.fingerprint,
            service: occurrence.service.to_string(),
            level: occurrence.level,
        }
    }
}

/// An incident that must stand, neither superseded nor withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incident {
    /// The rule's name.
    pub rule: String,
    /// The tenant.
    pub tenant: String,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// First instant of the window.
    pub window_start: EventTime,
    /// count(w).
    pub count: u64,
    /// W-11: first instant of the window of the episode's first incident.
    pub episode: EventTime,
}

/// What a total is about: one key of one rule in one window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowKey {
    /// The rule's name.
    pub rule: String,
    /// The tenant.
    pub tenant: String,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// First instant of the window.
    pub window_start: EventTime,
}

/// A window in which a tenant has more fingerprints than is allowed (W-12, Q46).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crowd {
    /// The rule's name.
    pub rule: String,
    /// The tenant.
    pub tenant: String,
    /// First instant of the window.
    pub window_start: EventTime,
}

/// What must stand in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All incidents.
    pub incidents: BTreeSet<Incident>,
    /// W-9: count(w) of every window that is not empty.
    pub totals: BTreeMap<WindowKey, u64>,
    /// The windows over [`Oracle::max_fingerprints`].
    pub crowds: BTreeSet<Crowd>,
}

/// The reference.
#[derive(Clone, Debug)]
pub struct Oracle {
    rules: Vec<Rule>,
    max_fingerprints: Option<usize>,
}

impl Oracle {
    /// A reference for these rules.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect(), max_fingerprints: None }
    }

    /// The same with a limit of fingerprints for each (rule, tenant, window); without one there are no
    /// [`Outcome::crowds`].
    #[must_use]
    pub fn max_fingerprints(mut self, limit: usize) -> Self {
        self.max_fingerprints = Some(limit);
        self
    }

    /// Judges all occurrences, in any order and with any number of repeats.
    ///
    /// What no rule matches is no occurrence (W-1), and its identity is not remembered (Q48). Of several observations
    /// with one identity the earliest stands for it; Q35 leaves open which when they differ.
    #[must_use]
    pub fn judge(&self, observations: impl IntoIterator<Item = Observation>) -> Outcome {
        let counts =
            |rule: &Rule, seen: &Observation| rule.counts_fields(seen.ts, &seen.tenant, &seen.service, seen.level);
        let matched = observations.into_iter().filter(|seen| self.rules.iter().any(|rule| counts(rule, seen)));
        let in_order: BTreeSet<Observation> = matched.collect();
        let mut distinct = BTreeMap::new();
        for seen in in_order {
            distinct.entry(seen.identity).or_insert(seen);
        }

        let mut outcome = Outcome::default();
        for rule in &self.rules {
            let mut times_by_key = BTreeMap::<(&str, Fingerprint), Vec<i64>>::new();
            for seen in distinct.values().filter(|seen| counts(rule, seen)) {
                times_by_key.entry((&seen.tenant, seen.fingerprint)).or_default().push(seen.ts.0);
            }
            for ((tenant, fingerprint), times) in times_by_key {
                outcome.add(rule, tenant, fingerprint, &times);
            }
        }
        outcome.crowds = self.crowds(&outcome.totals);
        outcome
    }

    fn crowds(&self, totals: &BTreeMap<WindowKey, u64>) -> BTreeSet<Crowd> {
        let Some(limit) = self.max_fingerprints else { return BTreeSet::new() };
        let mut fingerprints = BTreeMap::<Crowd, usize>::new();
        for WindowKey { rule, tenant, window_start, .. } in totals.keys().cloned() {
            *fingerprints.entry(Crowd { rule, tenant, window_start }).or_default() += 1;
        }
        fingerprints.into_iter().filter(|(_, count)| *count > limit).map(|(crowd, _)| crowd).collect()
    }
}

impl Outcome {
    fn add(&mut self, rule: &Rule, tenant: &str, fingerprint: Fingerprint, times: &[i64]) {
        for judged in key::judge(rule, tenant, times) {
            let (rule, tenant, window_start) = (rule.name.clone(), tenant.to_owned(), EventTime(judged.start));
            if let Some(episode) = judged.episode.map(EventTime) {
                let (rule, tenant, count) = (rule.clone(), tenant.clone(), judged.count);
                self.incidents.insert(Incident { rule, tenant, fingerprint, window_start, count, episode });
            }
            self.totals.insert(WindowKey { rule, tenant, fingerprint, window_start }, judged.count);
        }
    }
}
