//! Whether what stands is what must stand, and a list of differences for a human if not.

use super::expectation::Occurrences;
use super::{Counters, Expectation, Labels, Scenario};
use floodmark_model::{EventTime, Fingerprint};
use std::collections::BTreeMap;

/// What a runner found at the end of a scenario of occurrences, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actual {
    /// The incidents that are neither superseded nor withdrawn. A list, so that one that stands twice is seen (W-6).
    pub incidents: Vec<ActualIncident>,
    /// Totals of all windows that are not empty.
    pub totals: Vec<ActualTotal>,
    /// What became of the records.
    pub counters: Counters,
    /// (tenant, window start) of each `cardinality` incident (W-12).
    pub cardinality: Vec<(String, EventTime)>,
}

/// An incident that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActualIncident {
    /// The tenant.
    pub tenant: String,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// First instant of the window.
    pub window_start: EventTime,
    /// count(w).
    pub count: u64,
    /// First instant of the window of the episode's first incident; `None` if that has no row.
    pub episode: Option<EventTime>,
}

/// A total that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActualTotal {
    /// The tenant.
    pub tenant: String,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// First instant of the window.
    pub window_start: EventTime,
    /// Distinct occurrences in it.
    pub total: u64,
}

impl Scenario {
    /// Compares what was found with what is expected.
    ///
    /// # Errors
    /// A line for each difference, with labels, and times relative to the base.
    pub fn compare(&self, labels: &Labels, actual: &Actual) -> Result<(), String> {
        let Expectation::Occurrences(expected) = &self.expect else {
            return Err(format!("{} expects incidents of alerts", self.id));
        };
        let differences = expected_facts(expected).differences(&self.actual_facts(labels, actual));
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!("{}: {}\n{}", self.id, self.title, differences.join("\n")))
    }

    fn actual_facts(&self, labels: &Labels, actual: &Actual) -> Facts {
        let relative = |time: EventTime| time.0 - self.base_ms;
        let mut facts = Facts::default();
        for found in &actual.incidents {
            let episode = found.episode.map(relative);
            let fingerprint = labels.name(found.fingerprint);
            facts.incident(&found.tenant, &fingerprint, relative(found.window_start), found.count, episode);
        }
        for found in &actual.totals {
            facts.total(&found.tenant, &labels.name(found.fingerprint), relative(found.window_start), found.total);
        }
        for (tenant, window_start) in &actual.cardinality {
            facts.crowd(tenant, relative(*window_start));
        }
        facts.counters(&actual.counters);
        facts
    }
}

fn expected_facts(expected: &Occurrences) -> Facts {
    let mut facts = Facts::default();
    for wanted in &expected.incidents {
        let (count, episode) = (wanted.count, Some(wanted.episode));
        facts.incident(&wanted.tenant, &wanted.fingerprint, wanted.window_start, count, episode);
    }
    for wanted in &expected.totals {
        facts.total(&wanted.tenant, &wanted.fingerprint, wanted.window_start, wanted.total);
    }
    for wanted in &expected.cardinality {
        facts.crowd(&wanted.tenant, wanted.window_start);
    }
    facts.counters(&expected.counters);
    facts
}

/// What stands, as text: by what it is about, all that is said about it.
#[derive(Default)]
struct Facts(BTreeMap<String, Vec<String>>);

impl Facts {
    fn incident(&mut self, tenant: &str, fingerprint: &str, window: i64, count: u64, episode: Option<i64>) {
        let episode = episode.map_or("without a row".to_owned(), |start| start.to_string());
        self.add(format!("incident {tenant:?} {fingerprint} {window}"), format!("count {count} episode {episode}"));
    }

    fn total(&mut self, tenant: &str, fingerprint: &str, window: i64, total: u64) {
        self.add(format!("total {tenant:?} {fingerprint} {window}"), total.to_string());
    }

    fn crowd(&mut self, tenant: &str, window: i64) {
        self.add(format!("cardinality {tenant:?} {window}"), "over the limit".to_owned());
    }

    fn counters(&mut self, counters: &Counters) {
        for (name, count) in counters.named() {
            self.add(format!("counter {name}"), count.to_string());
        }
    }

    fn add(&mut self, about: String, said: String) {
        self.0.entry(about).or_default().push(said);
    }

    /// One line for each thing about which the two do not say the same.
    fn differences(&self, actual: &Self) -> Vec<String> {
        let said = |facts: &Self, about: &String| {
            let mut said = facts.0.get(about).cloned().unwrap_or_default();
            said.sort();
            if said.is_empty() { "nothing".to_owned() } else { said.join(", and ") }
        };
        let mut about: Vec<&String> = self.0.keys().chain(actual.0.keys()).collect();
        about.sort();
        about.dedup();
        let lines = about.into_iter().map(|about| (about, said(self, about), said(actual, about)));
        lines
            .filter(|(_, expected, actual)| expected != actual)
            .map(|(about, expected, actual)| format!("  {about:<44} expected {expected:<28} found {actual}"))
            .collect()
    }
}
