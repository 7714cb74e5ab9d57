//! Counts of keys that memory does not hold (W-8, Q46).

use super::records::{MINUTE, Records, WINDOW};
use floodmark_model::rule::RuleMatch;
use floodmark_model::{EventTime, Fingerprint, Identity, Level, Rule, Window};
use floodmark_sinks::{FACTS_MAX, KeySpan, OccurrenceStore};

const BUCKET: i64 = 30_000;
const DAY: i64 = 24 * 60 * MINUTE;

fn span(tenant: &str, fingerprint: u128, from: i64, until: i64) -> KeySpan {
    KeySpan {
        tenant: tenant.into(),
        fingerprint: Fingerprint::from_bits(fingerprint),
        from: EventTime(from),
        until: EventTime(until),
    }
}

type Count = (String, u128, i64, u64);

fn count(tenant: &str, fingerprint: u128, bucket_start: i64, count: u64) -> Count {
    (tenant.into(), fingerprint, bucket_start, count)
}

async fn counts(store: &impl OccurrenceStore, rule: &Rule, spans: &[KeySpan]) -> Vec<Count> {
    let counts = store.key_counts(rule, spans).await.unwrap();
    counts.iter().map(|row| count(&row.tenant, row.fingerprint.bits(), row.bucket_start.0, row.count)).collect()
}

/// A key's counts are distinct ones, per bucket, of its own spans and nobody else's.
pub(crate) async fn w8_the_counts_of_a_key_are_those_of_its_own_spans(store: &impl OccurrenceStore) {
    let mut records = Records::default();
    // In front of the first span, at both of its ends, and in the gap between it and the next.
    records.put("acme", 1, [-WINDOW - 1, -WINDOW, -WINDOW + 1, -BUCKET, -1, 0, WINDOW]);
    records.put("acme", 1, [3 * WINDOW, 3 * WINDOW + BUCKET, 3 * WINDOW + BUCKET]);
    // The same bug of another tenant, and another bug of the same tenant, where only the first one has a span.
    records.put("beta", 1, [-BUCKET, WINDOW, 3 * WINDOW]);
    records.put("acme", 2, [-BUCKET, WINDOW, 3 * WINDOW]);
    // A retry is the same occurrence (I-2).
    records.put("acme", 1, [3 * WINDOW + 5; 2]);
    let retry = Identity::of_event("acme", "an id");
    records.0.iter_mut().rev().take(2).for_each(|record| {
        record.identity = retry;
        record.event_id = "an id".into();
    });
    records.insert(store).await;

    let first = [count("acme", 1, -WINDOW, 2), count("acme", 1, -BUCKET, 2)];
    let later = [count("acme", 1, 3 * WINDOW, 2), count("acme", 1, 3 * WINDOW + BUCKET, 2)];
    let rule = Rule::default();
    let spans = [span("acme", 1, -WINDOW, 0), span("acme", 1, 3 * WINDOW, 4 * WINDOW)];
    assert_eq!(counts(store, &rule, &spans).await, [&first[..], &later].concat());

    let mut spans = spans.to_vec();
    spans.extend([span("beta", 1, 0, 2 * WINDOW), span("acme", 2, 3 * WINDOW, 9 * WINDOW), span("none", 1, 0, DAY)]);
    // Those of one key that overlap count once; an empty one is none.
    spans.extend([span("acme", 1, -WINDOW, 0), span("acme", 2, 4 * WINDOW, 5 * WINDOW), span("beta", 1, DAY, DAY)]);
    spans.reverse();
    let others = [count("acme", 2, 3 * WINDOW, 1), count("beta", 1, WINDOW, 1)];
    assert_eq!(counts(store, &rule, &spans).await, [&first[..], &later, &others].concat());
    assert_eq!(counts(store, &rule, &[]).await, []);
}

/// A rule's counts are of what it matches, and in its own buckets.
pub(crate) async fn w8_the_counts_of_a_key_are_what_the_rule_counts(store: &impl OccurrenceStore) {
    let mut records = Records::default();
    for (service, level) in [("checkout", Level::Fatal), ("checkout", Level::Info), ("search", Level::Error)] {
        records.put("it's", 1, [WINDOW + 50_000]);
        records.last().service = service.into();
        records.last().level = level;
    }
    records.insert(store).await;
    let of = |tenants: &[&str], services: &[&str], level| {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let matches = RuleMatch { tenants: list(tenants), services: list(services), level };
        Rule { matches, window_ms: WINDOW, buckets: 5, ..Rule::default() }
    };
    for (rule, expected) in [
        (of(&[], &[], Level::Trace), 3),
        (of(&[], &[], Level::Warn), 2),
        (of(&["it's"], &["checkout"], Level::Trace), 2),
        (of(&["it's", "none"], &["search", "none"], Level::Warn), 1),
        (of(&[], &["search"], Level::Fatal), 0),
        (of(&["none"], &[], Level::Trace), 0),
    ] {
        let found = counts(store, &rule, &[span("it's", 1, 0, 2 * WINDOW)]).await;
        // 50 s lie in the first of five buckets.
        let expected: Vec<_> = (expected > 0).then(|| count("it's", 1, WINDOW, expected)).into_iter().collect();
        assert_eq!(found, expected, "{rule:?}");
        let is_candidate = !store.candidates(&rule, EventTime(WINDOW)).await.unwrap().is_empty();
        assert!(!is_candidate, "none has ten");
    }
}

/// As many spans as one call may have, over years and with names that need escaping, fit.
pub(crate) async fn w8_many_keys_and_long_spans_fit_into_one_call(store: &impl OccurrenceStore) {
    let mut records = Records::default();
    let tenant = |n: usize| format!("{n:04}{}", "'\\".repeat(120));
    for n in 0..FACTS_MAX {
        let day = (n % 40) as i64 * 50 * DAY;
        records.put(&tenant(n), u128::MAX, [day, day + 7]);
    }
    records.insert(store).await;
    let rule = Rule::default();
    let spans: Vec<_> = (0..FACTS_MAX)
        .map(|n| span(&tenant(n), u128::MAX, (n % 40) as i64 * 50 * DAY - DAY, (n % 40) as i64 * 50 * DAY + DAY))
        .collect();
    let found = counts(store, &rule, &spans).await;
    assert_eq!(found.len(), FACTS_MAX);
    assert!(
        found
            .iter()
            .enumerate()
            .all(|(n, found)| *found == count(&tenant(n), u128::MAX, (n % 40) as i64 * 50 * DAY, 2))
    );
    let all = [span(&tenant(7), u128::MAX, -10_000 * DAY, 20_000 * DAY)];
    assert_eq!(counts(store, &rule, &all).await, [count(&tenant(7), u128::MAX, 7 * 50 * DAY, 2)]);
}

/// The keys that may have an incident in a window: one in it, and N in it and the one before.
pub(crate) async fn q46_candidates_have_enough_in_the_window_and_the_one_before(store: &impl OccurrenceStore) {
    let mut records = Records::default();
    for (fingerprint, before, during) in [(1, 0, 3), (2, 0, 2), (3, 2, 1), (4, 3, 0), (5, 1, 1), (6, 9, 1)] {
        for start in [-WINDOW, 2 * WINDOW] {
            records.put("acme", fingerprint, (0..before).map(|n| start - 1 - n * BUCKET));
            records.put("acme", fingerprint, (0..during).map(|n| start + n * BUCKET));
        }
    }
    records.put("beta", 2, [-WINDOW; 3]);
    // What comes in the next window, or came in the one before the one before, does not matter.
    records.put("acme", 5, [0, -2 * WINDOW - 1]);
    records.insert(store).await;
    let candidates = async |straddle, start| {
        let rule = Rule { threshold: 3, straddle, ..Rule::default() };
        let window = Window::containing(EventTime(start), rule.window_ms);
        let keys = store.candidates(&rule, window.start).await.unwrap();
        keys.iter().map(|(tenant, fingerprint)| (tenant.to_string(), fingerprint.bits())).collect::<Vec<_>>()
    };
    let key = |tenant: &str, fingerprint: u128| (tenant.to_owned(), fingerprint);
    let acme = [1, 3, 6].map(|fingerprint| key("acme", fingerprint));
    assert_eq!(candidates(true, -WINDOW).await, [&acme[..], &[key("beta", 2)]].concat());
    assert_eq!(candidates(true, 2 * WINDOW).await, acme);
    assert_eq!(candidates(false, -WINDOW).await, [key("acme", 1), key("beta", 2)]);
    assert_eq!(candidates(true, 10 * WINDOW).await, []);
}
