//! Each window is counted by the match and the thresholds of its own version of the rule (Q51).

use super::records::{Records, TOPIC, WINDOW};
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::rule::RuleMatch;
use floodmark_model::{EventTime, Fingerprint, IncidentKey, IncidentKind, Level, Rule, Window};
use floodmark_sinks::{BucketCount, OccurrenceStore, Selection};
use std::collections::BTreeMap;

/// The start of a window of the default rule.
fn window(n: i64) -> i64 {
    n * WINDOW
}

fn key_of_acme(start: i64) -> IncidentKey {
    IncidentKey {
        kind: IncidentKind::Burst,
        rule: "default".into(),
        tenant: "acme".into(),
        fingerprint: Fingerprint::from_bits(1),
        window: Window::containing(EventTime(start), WINDOW),
    }
}

fn progress(next_offset: i64) -> Progress {
    let at = PartitionProgress { next_offset, watermark: EventTime(0), tallies: Tallies::default() };
    let mut progress = Progress::default();
    progress.partitions.insert(PartitionKey { topic_id: TOPIC, partition: 0 }, at);
    progress
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

fn records() -> Records {
    let mut records = Records::default();
    for n in -1..5 {
        for ts in [window(n), window(n) + WINDOW - 1] {
            for tenant in ["acme", "it's", "other"] {
                for (service, level) in [("cart", Level::Info), ("", Level::Error), ("cart", Level::Fatal)] {
                    records.put(tenant, 1, [ts]);
                    let record = records.last();
                    (record.service, record.level) = (service.into(), level);
                }
            }
        }
    }
    records
}

pub(crate) async fn q51_every_question_counts_each_window_by_its_own_version(store: &impl OccurrenceStore) {
    let (rule, records) = (rule(), records());
    records.insert(store).await;
    let mut expected = BTreeMap::<(String, i64), u64>::new();
    for record in records.0.iter().filter(|record| rule.counts(record)) {
        let start = Window::containing(record.ts, rule.window_ms).start.0;
        *expected.entry((record.tenant.to_string(), start)).or_default() += 1;
    }
    assert_eq!(expected.len(), 3 + 3 + 2 + 2 + 1 + 1, "the versions differ");

    let totals = store.totals(&rule, &Selection::default()).await.unwrap();
    let totals: BTreeMap<_, _> = totals.into_iter().map(|row| ((row.tenant, row.window_start.0), row.total)).collect();
    assert_eq!(totals, expected);

    let mut buckets = BTreeMap::<(String, i64), u64>::new();
    let each = |bucket: BucketCount| {
        let start = Window::containing(bucket.bucket_start, rule.window_ms).start.0;
        *buckets.entry((bucket.tenant.to_string(), start)).or_default() += bucket.count;
    };
    store.bucket_counts(&rule, EventTime(i64::MIN), &progress(1_000), each).await.unwrap();
    assert_eq!(buckets, expected);

    let keys: Vec<_> = (-1..5).map(|n| key_of_acme(window(n))).collect();
    let facts = store.window_facts(&rule, &keys).await.unwrap();
    let of_acme: Vec<u64> = (-1..5).map(|n| expected[&("acme".to_owned(), window(n))]).collect();
    assert_eq!(facts.iter().map(|facts| facts.total).collect::<Vec<_>>(), of_acme);
}

pub(crate) async fn q46_candidates_reach_the_threshold_of_their_tenant_and_version(store: &impl OccurrenceStore) {
    let first = Rule { threshold: 9, tenant_thresholds: [("acme".into(), 3)].into(), ..Rule::default() };
    let second = Rule { threshold: 3, from: EventTime(window(1)), tenant_thresholds: BTreeMap::new(), ..first.clone() };
    let rule = Rule::of_versions(vec![first, second]).unwrap();
    let mut records = Records::default();
    for (tenant, start, count) in [("acme", window(0), 3), ("other", window(0), 8), ("other", window(1), 3)] {
        records.put(tenant, 1, std::iter::repeat_n(start, count));
    }
    records.insert(store).await;
    let over = async |start: i64| {
        let keys = store.candidates(&rule, EventTime(start)).await.unwrap();
        keys.into_iter().map(|(tenant, _)| tenant.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(over(window(0)).await, ["acme"]);
    assert_eq!(over(window(1)).await, ["other"]);
}
