//! What the oracle says about the records of a run: records in, everything that must stand in the end out.

use crate::scenario::{Actual, ActualIncident, ActualTotal, Params, Record, Step};
use floodmark_model::wire::{DecodeSettings, json};
use floodmark_model::{Rule, identity::Coordinates};
use floodmark_oracle::{Observation, Oracle, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// The oracle for a scenario's settings.
#[must_use]
pub fn oracle(params: &Params) -> Oracle {
    let oracle = Oracle::new([params.rule()]);
    match params.max_fingerprints {
        Some(limit) => oracle.max_fingerprints(limit),
        None => oracle,
    }
}

/// The records of a run, each once, in the order in which they were sent.
#[must_use]
pub fn distinct_records(steps: &[Step]) -> Vec<&Record> {
    let mut seen = BTreeSet::<Coordinates>::new();
    let records = steps.iter().filter_map(|step| match step {
        Step::Record(record) | Step::Redeliver(record) => Some(record),
        _ => None,
    });
    records.filter(|record| seen.insert(record.at)).collect()
}

/// Decodes the records, counts what is no occurrence, and lets the oracle judge the rest. One rule, as in scenarios.
#[must_use]
pub fn judge<'a>(rule: &Rule, oracle: &Oracle, records: impl IntoIterator<Item = &'a Record>) -> Actual {
    let settings = DecodeSettings::default();
    let mut actual = Actual::default();
    let mut distinct = BTreeMap::new();
    for record in records {
        match json::decode(record.as_raw(), &settings) {
            Err(_) => actual.counters.dead_letter += 1,
            Ok(occurrence) if !rule.counts(&occurrence) => actual.counters.unmatched += 1,
            Ok(occurrence) if distinct.contains_key(&occurrence.identity) => actual.counters.client_retry += 1,
            Ok(occurrence) => {
                actual.counters.ts_missing += u64::from(occurrence.ts_missing);
                actual.counters.ts_clamped += u64::from(occurrence.ts_clamped);
                distinct.insert(occurrence.identity, Observation::from(&occurrence));
            }
        }
    }
    with_outcome(actual, oracle.judge(distinct.into_values()))
}

fn with_outcome(actual: Actual, outcome: Outcome) -> Actual {
    let incidents = outcome.incidents.into_iter().map(|incident| ActualIncident {
        tenant: incident.tenant,
        fingerprint: incident.fingerprint,
        window_start: incident.window_start,
        count: incident.count,
        episode: Some(incident.episode),
    });
    let totals = outcome.totals.into_iter().map(|(key, total)| ActualTotal {
        tenant: key.tenant,
        fingerprint: key.fingerprint,
        window_start: key.window_start,
        total,
    });
    let crowds = outcome.crowds.into_iter().map(|crowd| (crowd.tenant, crowd.window_start));
    Actual { incidents: incidents.collect(), totals: totals.collect(), cardinality: crowds.collect(), ..actual }
}
