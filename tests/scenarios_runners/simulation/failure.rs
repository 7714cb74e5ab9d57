//! What a failure shows: its seed, the run as a scenario, and the least part of it that still fails.

use super::draw::{Happening, Run};
use floodmark_testkit::reference;
use floodmark_testkit::scenario::{Actual, Labels, Scenario};
use serde_json::{Value, json};
use std::fmt;

/// The name of the scenario.
pub(super) const NAME: &str = "O99";

/// A run that failed.
pub(super) struct Failure {
    drawn: Run,
    least: Run,
    why: String,
}

impl Failure {
    /// Looks for the least part of the run that `fails`.
    pub(super) fn of(drawn: Run, fails: impl Fn(&Run) -> Option<String>) -> Self {
        let why = fails(&drawn).unwrap_or_else(|| "it does not fail again: it depends on threads".to_owned());
        let mut failure = Self { least: drawn.clone(), drawn, why };
        failure.shrink(&fails);
        failure
    }

    /// Leaves parts of what happens out, smaller and smaller ones, as long as it fails without them.
    fn shrink(&mut self, fails: &impl Fn(&Run) -> Option<String>) {
        let mut part = self.least.happenings.len() / 2;
        while part > 0 {
            let mut at = 0;
            while at < self.least.happenings.len() {
                let mut shorter = self.least.clone();
                let end = (at + part).min(shorter.happenings.len());
                shorter.happenings.drain(at..end);
                match fails(&shorter) {
                    Some(why) => (self.least, self.why) = (shorter, why),
                    None => at += part,
                }
            }
            part /= 2;
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.drawn.seed;
        writeln!(f, "seed {seed}: {}", self.why)?;
        writeln!(
            f,
            "repeat it: FLOODMARK_SIMULATION_SEEDS={seed}..{} cargo test --test scenarios simulation",
            seed + 1
        )?;
        writeln!(f, "{:?}", self.drawn.settings)?;
        writeln!(f, "the run as a scenario:\n{}", expected(&self.drawn))?;
        writeln!(f, "the least part of it that fails:\n{}", expected(&self.least))?;
        self.least
            .happenings
            .iter()
            .filter(|one| !matches!(one, Happening::Send(_)))
            .try_for_each(|one| writeln!(f, "  {one:?}"))
    }
}

/// A run as a scenario, as far as that can say it: of what happens between the records, the restarts.
pub(super) fn scenario(run: &Run, expect: Option<Value>) -> String {
    let rule = &run.settings.rules[0];
    let mut steps: Vec<Value> = run
        .happenings
        .iter()
        .filter_map(|happening| match happening {
            Happening::Send(step) => Some(step.clone()),
            Happening::Crash { .. } => Some(json!({"restart": "kill"})),
            Happening::Stop { .. } => Some(json!({"restart": "stop"})),
            _ => None,
        })
        .collect();
    // A partition that never had a time would hold the watermark: each ends with a record that only lets time pass.
    let times = steps.iter().flat_map(|step| [step["t"].as_i64(), step["rt"].as_i64()]).flatten();
    let last = times.max().unwrap_or(0);
    steps.extend((0..run.settings.partitions).map(|partition| {
        json!({"t": last, "rt": last, "tenant": "acme", "fp": "alpha", "level": "debug", "partition": partition})
    }));
    let mut params = json!({
        "threshold": rule.threshold, "straddle": rule.straddle, "window": rule.window_ms, "buckets": rule.buckets,
    });
    if let Some(limit) = run.settings.max_fingerprints {
        params["max_fingerprints"] = limit.into();
    }
    let nothing = json!({"incidents": [], "counters": {}, "totals": []});
    let scenario = json!({
        "format": 1, "id": NAME, "title": format!("seed {}", run.seed), "rules": ["W-7"], "assumes": [],
        "kind": "occurrences", "runs": ["pure", "dataflow"], "params": params, "records": steps,
        "expect": expect.unwrap_or(nothing),
    });
    serde_json::to_string(&scenario).expect("it is JSON already")
}

/// The same with what the oracle expects.
fn expected(run: &Run) -> String {
    let parsed = Scenario::parse(NAME, &scenario(run, None)).expect("a run draws what can be written");
    let steps = parsed.steps(floodmark_testkit::scenario::FingerprintLabels::Given);
    let oracle = reference::oracle(&parsed.params);
    let actual = reference::judge(&parsed.params.rule(), &oracle, reference::distinct_records(&steps));
    scenario(run, Some(expectation(&parsed, &actual)))
}

fn expectation(scenario: &Scenario, actual: &Actual) -> Value {
    let labels = Labels::given(scenario);
    let incidents: Vec<Value> = actual
        .incidents
        .iter()
        .map(|found| {
            json!({
                "tenant": found.tenant, "fingerprint": labels.name(found.fingerprint),
                "window_start": found.window_start.0 - scenario.base_ms, "count": found.count,
                "episode": found.episode.map_or(0, |episode| episode.0 - scenario.base_ms),
            })
        })
        .collect();
    let totals: Vec<Value> = actual
        .totals
        .iter()
        .map(|found| {
            json!({
                "tenant": found.tenant, "fingerprint": labels.name(found.fingerprint),
                "window_start": found.window_start.0 - scenario.base_ms, "total": found.total,
            })
        })
        .collect();
    let cardinality: Vec<Value> = actual
        .cardinality
        .iter()
        .map(|(tenant, start)| json!({"tenant": tenant, "window_start": start.0 - scenario.base_ms}))
        .collect();
    let counters = &actual.counters;
    json!({
        "incidents": incidents, "totals": totals, "cardinality": cardinality,
        "counters": {
            "client_retry": counters.client_retry, "dead_letter": counters.dead_letter,
            "unmatched": counters.unmatched, "ts_missing": counters.ts_missing, "ts_clamped": counters.ts_clamped,
        },
    })
}
