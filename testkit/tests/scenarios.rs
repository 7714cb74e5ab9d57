//! Every scenario file against the oracle: which proves the reader, the oracle and the product's decoder at once.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use floodmark_model::wire::{DecodeSettings, json};
use floodmark_model::{EventTime, Window};
use floodmark_testkit::reference;
use floodmark_testkit::scenario::pending::{Missing, PENDING, missing};
use floodmark_testkit::scenario::{Actual, FingerprintLabels, Kind, Labels, Runner, Scenario, Step, labels};
use std::collections::BTreeSet;
use std::path::PathBuf;

const ALL: [Missing; 3] = [Missing::Bridges, Missing::LateJudging, Missing::Cardinality];

fn scenarios(kind: &str) -> Vec<Scenario> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios").join(kind);
    Scenario::load_all(&folder).unwrap()
}

#[test]
fn the_oracle_meets_every_expectation_with_given_fingerprints() {
    let failures: Vec<String> = scenarios("occurrences")
        .iter()
        .filter_map(|scenario| {
            let (rule, oracle) = (scenario.params.rule(), reference::oracle(&scenario.params));
            let steps = scenario.steps(FingerprintLabels::Given);
            let actual = reference::judge(&rule, &oracle, reference::distinct_records(&steps));
            scenario.compare(&Labels::given(scenario), &actual).err()
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_oracle_meets_every_expectation_of_real_records_with_computed_fingerprints() {
    let failures: Vec<String> = scenarios("occurrences")
        .iter()
        .filter(|scenario| scenario.runs_on(Runner::Kafka))
        .filter_map(|scenario| {
            let (rule, oracle) = (scenario.params.rule(), reference::oracle(&scenario.params));
            let steps = scenario.steps(FingerprintLabels::Message);
            let actual = reference::judge(&rule, &oracle, reference::distinct_records(&steps));
            match labels::decoded(&rule, &steps) {
                Ok(labels) => scenario.compare(&labels, &actual).err(),
                Err(error) => Some(format!("{}: {error:#}", scenario.id)),
            }
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn all_files_are_read_and_say_their_kind() {
    let (occurrences, alerts) = (scenarios("occurrences"), scenarios("alerts"));
    assert_eq!((occurrences.len(), alerts.len()), (37, 65));
    assert!(occurrences.iter().all(|scenario| scenario.kind == Kind::Occurrences));
    assert!(alerts.iter().all(|scenario| scenario.kind == Kind::Alerts));
    assert!(alerts.iter().all(|scenario| !scenario.steps(FingerprintLabels::Given).is_empty()));
}

#[test]
fn the_pending_list_is_complete_and_has_nothing_too_much() {
    for scenario in scenarios("occurrences") {
        let alone_needed: Vec<Missing> = ALL.into_iter().filter(|rule| !passes_without(&scenario, &[*rule])).collect();
        assert_eq!(missing(&scenario.id), alone_needed, "{}: {}", scenario.id, scenario.title);
        assert_eq!(passes_without(&scenario, &ALL), alone_needed.is_empty(), "{}", scenario.id);
    }
    let names: BTreeSet<&str> = PENDING.iter().map(|(id, _)| *id).collect();
    assert_eq!(names.len(), PENDING.len(), "each once");
    let known = scenarios("occurrences");
    assert!(names.iter().all(|name| known.iter().any(|scenario| scenario.id == *name)));
}

/// Whether an engine in which these rules are missing, and no others, would pass.
fn passes_without(scenario: &Scenario, missing: &[Missing]) -> bool {
    let rule = scenario.params.rule();
    let mut oracle = reference::oracle(&scenario.params);
    if missing.contains(&Missing::Bridges) {
        oracle = oracle.without_bridges();
    }
    let steps = scenario.steps(FingerprintLabels::Given);
    let records = reference::distinct_records(&steps);
    let mut actual = reference::judge(&rule, &oracle, records.iter().copied());
    if missing.contains(&Missing::LateJudging) {
        // Late ones are stored, so they are in totals and counters, but nobody looks at their window.
        let late = late_offsets(scenario, &steps);
        let in_time = records.into_iter().filter(|record| !late.contains(&(record.at.partition, record.at.offset)));
        actual = Actual { incidents: reference::judge(&rule, &oracle, in_time).incidents, ..actual };
    }
    if missing.contains(&Missing::Cardinality) {
        actual.cardinality.clear();
    }
    scenario.compare(&Labels::given(scenario), &actual).is_ok()
}

/// (partition, offset) of the records that may be late: after each one the watermark is as far as T-3 allows, as if
/// all other partitions were idle, and windows close at once.
fn late_offsets(scenario: &Scenario, steps: &[Step]) -> BTreeSet<(i32, i64)> {
    const LATENESS_MS: i64 = 60_000;
    let (window_ms, settings) = (scenario.params.rule().window_ms, DecodeSettings::default());
    let (mut watermark, mut late) = (EventTime::MIN, BTreeSet::new());
    for step in steps {
        match step {
            Step::Record(record) => {
                let Ok(occurrence) = json::decode(record.as_raw(), &settings) else { continue };
                if Window::containing(occurrence.ts, window_ms).is_closed_at(watermark) {
                    late.insert((record.at.partition, record.at.offset));
                }
                watermark = watermark.max(occurrence.ts.minus(LATENESS_MS));
            }
            Step::Watermark(time) => watermark = watermark.max(*time),
            _ => {}
        }
    }
    late
}
