//! What the occurrence store says of keys and windows: answers for the judges (W-8, Q46), and what closing reads (W-9).

use crate::pipeline::tenants::Tenants;
use floodmark_dataflow::message::{Answer, KeyAnswer, KeyQuestion, PaneKey, Question};
use floodmark_model::incident::{ClosedWindow, WindowFacts};
use floodmark_model::{EventTime, Fingerprint, IncidentKey, Reach, Rule};
use floodmark_sinks::{BucketCount, FACTS_MAX, KeySpan, OccurrenceStore, StoreError};
use std::collections::HashMap;
use std::sync::Arc;

/// Answers a judge's question.
///
/// # Errors
///
/// When the store cannot be read.
pub async fn answer(
    store: &impl OccurrenceStore,
    rules: &[Rule],
    tenants: &Tenants,
    question: &Question,
) -> Result<Answer, StoreError> {
    match question {
        Question::Keys(keys) => Ok(Answer::Keys(key_answers(store, rules, tenants, keys).await?)),
        Question::Window { rule, window_start } => {
            let candidates = store.candidates(&rules[usize::from(rule.0)], *window_start).await?;
            // A tenant without a number was never counted by this run: the directory is full, and says so itself.
            let pane = |(tenant, fingerprint): (Arc<str>, Fingerprint)| {
                tenants.number(&tenant).map(|tenant| PaneKey { fingerprint, tenant })
            };
            Ok(Answer::Window(candidates.into_iter().filter_map(pane).collect()))
        }
    }
}

async fn key_answers(
    store: &impl OccurrenceStore,
    rules: &[Rule],
    tenants: &Tenants,
    questions: &[KeyQuestion],
) -> Result<Vec<KeyAnswer>, StoreError> {
    let mut answers = vec![KeyAnswer::new(); questions.len()];
    for (index, rule) in rules.iter().enumerate() {
        let mut spans = Vec::new();
        let mut places = HashMap::new();
        for (place, question) in questions.iter().enumerate().filter(|(_, key)| usize::from(key.rule.0) == index) {
            let (tenant, fingerprint) = (tenants.name(question.pane.tenant), question.pane.fingerprint);
            places.insert((Arc::clone(&tenant), fingerprint), place);
            spans.extend(question.spans.iter().map(|(from, until)| KeySpan {
                tenant: Arc::clone(&tenant),
                fingerprint,
                from: *from,
                until: *until,
            }));
        }
        for some in spans.chunks(FACTS_MAX) {
            for BucketCount { tenant, fingerprint, bucket_start, count } in store.key_counts(rule, some).await? {
                if let Some(place) = places.get(&(tenant, fingerprint)) {
                    answers[*place].push((bucket_start, u32::try_from(count).unwrap_or(u32::MAX)));
                }
            }
        }
    }
    Ok(answers)
}

/// What the store says of windows that have closed: total, times and samples, and whether they were due (Q42). At most
/// [`FACTS_MAX`] keys, all of `rule`.
///
/// # Errors
///
/// When the store cannot be read.
pub async fn closed_windows(
    store: &impl OccurrenceStore,
    rule: &Rule,
    keys: &[IncidentKey],
) -> Result<Vec<ClosedWindow>, StoreError> {
    let facts = store.window_facts(rule, keys).await?;
    let threshold = |key: &IncidentKey| rule.threshold_at(key.window.start, &key.tenant);
    let is_short = |facts: &&WindowFacts| facts.total < u64::from(threshold(&facts.key));
    // Only these need more than their total to be judged, and few incidents are: those of a burst over a boundary.
    let short: Vec<IncidentKey> = facts.iter().filter(is_short).map(|facts| facts.key.clone()).collect();
    let counts = counts_around(store, rule, &short).await?;
    let judge = |facts: WindowFacts| {
        let reach = if is_short(&&facts) { reach_of_short(rule, &counts, &facts) } else { Reach::Own };
        ClosedWindow { facts, reach }
    };
    Ok(facts.into_iter().map(judge).collect())
}

/// Counts per bucket of some keys.
type Counts = HashMap<(Arc<str>, Fingerprint), HashMap<EventTime, u32>>;

/// The counts of each window and of the one before it.
async fn counts_around(store: &impl OccurrenceStore, rule: &Rule, keys: &[IncidentKey]) -> Result<Counts, StoreError> {
    let mut counts = Counts::new();
    let span = |key: &IncidentKey| KeySpan {
        tenant: Arc::clone(&key.tenant),
        fingerprint: key.fingerprint,
        from: key.window.previous().start,
        until: key.window.end(),
    };
    let straddles = |key: &&IncidentKey| rule.at(key.window.start).straddle;
    let spans: Vec<_> = keys.iter().filter(straddles).map(span).collect();
    for some in spans.chunks(FACTS_MAX) {
        for bucket in store.key_counts(rule, some).await? {
            let count = u32::try_from(bucket.count).unwrap_or(u32::MAX);
            counts.entry((bucket.tenant, bucket.fingerprint)).or_default().insert(bucket.bucket_start, count);
        }
    }
    Ok(counts)
}

/// The reach of a window whose own count is below the threshold. Without an occurrence of its own it has none (W-3).
fn reach_of_short(rule: &Rule, counts: &Counts, facts: &WindowFacts) -> Reach {
    let key = &facts.key;
    let Some(counts) = counts.get(&(Arc::clone(&key.tenant), key.fingerprint)).filter(|_| facts.total > 0) else {
        return Reach::Below;
    };
    let of = |start: EventTime| {
        let bucket = move |index: u16| start.plus(rule.bucket_ms() * i64::from(index));
        (0..usize::from(rule.buckets)).map(move |index| counts.get(&bucket(index as u16)).copied().unwrap_or(0))
    };
    let version = rule.at(key.window.start);
    let threshold = version.threshold_for(&key.tenant);
    Reach::of(of(key.window.previous().start), of(key.window.start), threshold, version.straddle)
}
