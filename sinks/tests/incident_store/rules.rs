//! Versions of rules are kept (Q51).

use floodmark_model::rule::{RuleMatch, Severity};
use floodmark_model::{EventTime, Level, Rule};
use floodmark_sinks::{Failure, IncidentStore};

const WINDOW: i64 = 300_000;

/// A rule that uses every setting, with names that need care.
fn elaborate(name: &str) -> Rule {
    let names = |names: [&str; 2]| names.map(String::from).to_vec();
    Rule {
        name: name.into(),
        threshold: u32::MAX,
        tenant_thresholds: [("it's \"one\"\\".into(), 7), ("".into(), 1)].into(),
        straddle: false,
        severity: Severity::Info,
        matches: RuleMatch { tenants: names(["a", "ü%_"]), services: names(["", "b"]), level: Level::Fatal },
        ..Rule::default()
    }
}

fn changed(rule: Rule, threshold: u32, watermark: i64) -> Rule {
    let configured = Rule { threshold, earlier: Vec::new(), ..rule.clone() };
    rule.changed_to(&configured, Some(EventTime(watermark))).unwrap()
}

pub(crate) async fn versions_of_rules_come_back_as_they_were_stored(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    assert_eq!(store.rules().await.unwrap(), []);
    let twice = changed(changed(elaborate("b"), 3, -1), 4, 7 * WINDOW);
    assert_eq!(twice.versions().count(), 3);
    store.store_rules(generation, &[twice.clone(), elaborate("a'a"), elaborate("B")]).await.unwrap();
    assert_eq!(store.rules().await.unwrap(), [elaborate("B"), elaborate("a'a"), twice], "by name");
}

pub(crate) async fn what_is_stored_of_a_rule_becomes_what_is_given(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let (other, first) = (elaborate("other"), Rule::default());
    store.store_rules(generation, &[other.clone(), first.clone()]).await.unwrap();
    let second = changed(first.clone(), 3, 0);
    for rule in [&second, &second, &changed(second.clone(), 4, WINDOW), &changed(first.clone(), 9, 5 * WINDOW), &first]
    {
        store.store_rules(generation, std::slice::from_ref(rule)).await.unwrap();
        assert_eq!(store.rules().await.unwrap(), [rule.clone(), other.clone()], "the other one stays as it is");
    }
}

pub(crate) async fn a_process_that_was_overtaken_stores_no_rules(store: &impl IncidentStore) {
    let old = store.take_over().await.unwrap();
    store.store_rules(old, &[Rule::default()]).await.unwrap();
    store.take_over().await.unwrap();
    let error = store.store_rules(old, &[changed(Rule::default(), 3, 0)]).await.unwrap_err();
    assert_eq!(error.failure, Failure::Fenced, "{error}");
    assert_eq!(store.rules().await.unwrap(), [Rule::default()]);
}
