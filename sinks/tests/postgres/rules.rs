//! Versions of rules, for each pipeline its own.

use crate::fixture::{fresh, store};
use crate::incident_store::promises;
use floodmark_model::Rule;
use floodmark_sinks::{Failure, IncidentStore};

promises! {
    fresh:
    rules::versions_of_rules_come_back_as_they_were_stored,
    rules::what_is_stored_of_a_rule_becomes_what_is_given,
    rules::a_process_that_was_overtaken_stores_no_rules,
}

#[tokio::test]
async fn pipelines_in_one_database_have_rules_of_their_own() {
    let (one, database) = fresh().await;
    let other = store(&database, "other");
    let (ours, theirs) = (one.take_over().await.unwrap(), other.take_over().await.unwrap());
    let five = Rule { threshold: 5, ..Rule::default() };
    one.store_rules(ours, &[Rule::default()]).await.unwrap();
    other.store_rules(theirs, std::slice::from_ref(&five)).await.unwrap();
    assert_eq!(one.rules().await.unwrap(), [Rule::default()]);
    assert_eq!(other.rules().await.unwrap(), [five]);
}

#[tokio::test]
async fn a_version_that_cannot_be_read_is_named() {
    let (store, database) = fresh().await;
    database
        .execute("INSERT INTO rules (pipeline, name, version, content) VALUES ('main', 'odd', 1, '{\"buckets\": -1}')");
    let error = store.rules().await.unwrap_err();
    assert_eq!(error.failure, Failure::Permanent);
    assert!(error.to_string().contains("version 1 of rule \"odd\""), "{error}");
}
