//! Q51: each window is counted by the match of its own version of the rule.

use crate::fixture::{Database, T0, at_place, block, key, progress};
use floodmark_model::rule::RuleMatch;
use floodmark_model::{EventTime, Level, Occurrence, Rule, Window};
use floodmark_sinks::{OccurrenceStore, Selection};
use std::collections::BTreeMap;

/// The start of a window of the default rule.
fn window(n: i64) -> i64 {
    Window::containing(EventTime(T0), 300_000).start.0 + n * 300_000
}

fn version(from: i64, tenants: &[&str], services: &[&str], level: Level) -> Rule {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let matches = RuleMatch { tenants: names(tenants), services: names(services), level };
    Rule { from: EventTime(from), matches, threshold: 1, ..Rule::default() }
}

/// Four versions, of which two match alike.
fn rule() -> Rule {
    let versions = vec![
        version(i64::MIN, &[], &[], Level::Warn),
        version(window(1), &["acme", "it's"], &["cart"], Level::Info),
        version(window(2), &["acme", "it's"], &["cart"], Level::Info),
        version(window(3), &["acme"], &[], Level::Fatal),
    ];
    Rule::of_versions(versions).unwrap()
}

fn records() -> Vec<Occurrence<'static>> {
    let mut records = Vec::new();
    for n in -1..5 {
        for ts in [window(n), window(n) + 299_999] {
            for tenant in ["acme", "it's", "other"] {
                for (service, level) in [("cart", Level::Info), ("", Level::Error), ("cart", Level::Fatal)] {
                    let at = at_place(ts, 0, records.len() as i64);
                    records.push(Occurrence { tenant: tenant.into(), service: service.into(), level, ..at });
                }
            }
        }
    }
    records
}

#[tokio::test]
async fn q51_every_question_counts_each_window_by_its_own_version() {
    let database = Database::migrated("versions").await;
    let (rule, records, store) = (rule(), records(), &database.store);
    store.insert(&[block(&records)]).await.unwrap();
    let mut expected = BTreeMap::<(String, i64), u64>::new();
    for record in records.iter().filter(|record| rule.counts(record)) {
        let start = Window::containing(record.ts, rule.window_ms).start.0;
        *expected.entry((record.tenant.to_string(), start)).or_default() += 1;
    }
    assert_eq!(expected.len(), 3 + 3 + 2 + 2 + 1 + 1, "the versions differ");

    let totals = store.totals(&rule, &Selection::default()).await.unwrap();
    let totals: BTreeMap<_, _> = totals.into_iter().map(|row| ((row.tenant, row.window_start.0), row.total)).collect();
    assert_eq!(totals, expected);

    let mut buckets = BTreeMap::<(String, i64), u64>::new();
    let each = |bucket: floodmark_sinks::BucketCount| {
        let start = Window::containing(bucket.bucket_start, rule.window_ms).start.0;
        *buckets.entry((bucket.tenant.to_string(), start)).or_default() += bucket.count;
    };
    store.bucket_counts(&rule, EventTime(i64::MIN), &progress([(0, 1_000)]), each).await.unwrap();
    assert_eq!(buckets, expected);

    let keys: Vec<_> = (-1..5).map(|n| key(&rule, 1, window(n))).collect();
    let facts = store.window_facts(&rule, &keys).await.unwrap();
    let of_acme: Vec<u64> = (-1..5).map(|n| expected[&("acme".to_owned(), window(n))]).collect();
    assert_eq!(facts.iter().map(|facts| facts.total).collect::<Vec<_>>(), of_acme);
    database.drop().await;
}

#[tokio::test]
async fn q46_candidates_reach_the_threshold_of_their_tenant_and_version() {
    let database = Database::migrated("tenant_thresholds").await;
    let first = Rule { threshold: 9, tenant_thresholds: [("acme".into(), 3)].into(), ..Rule::default() };
    let second = Rule { threshold: 3, from: EventTime(window(1)), tenant_thresholds: BTreeMap::new(), ..first.clone() };
    let rule = Rule::of_versions(vec![first, second]).unwrap();
    let mut records = Vec::new();
    for (tenant, start, count) in [("acme", window(0), 3), ("other", window(0), 8), ("other", window(1), 3)] {
        for _ in 0..count {
            let at = at_place(start, 0, records.len() as i64);
            records.push(Occurrence { tenant: tenant.into(), ..at });
        }
    }
    database.store.insert(&[block(&records)]).await.unwrap();
    let over = async |start: i64| {
        let keys = database.store.candidates(&rule, EventTime(start)).await.unwrap();
        keys.into_iter().map(|(tenant, _)| tenant.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(over(window(0)).await, ["acme"]);
    assert_eq!(over(window(1)).await, ["other"]);
    database.drop().await;
}
