//! Every scenario file against the oracle: which proves the reader, the oracle and the product's decoder at once.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use floodmark_testkit::reference;
use floodmark_testkit::scenario::{FingerprintLabels, Kind, Labels, Runner, Scenario, labels};
use std::path::PathBuf;

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
