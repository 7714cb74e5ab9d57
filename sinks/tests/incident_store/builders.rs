//! Short names for what the tests put in.

use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, WindowFacts};
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::{Detection, EventTime, Fingerprint, IncidentKey, IncidentKind, Reach, TopicId, Verdict, Window};
use floodmark_sinks::{IncidentStore, Selection};

pub(crate) const TOPIC: TopicId = TopicId([7; 16]);
pub(crate) const WINDOW_MS: i64 = 300_000;

pub(crate) fn fingerprint(bits: u128) -> Fingerprint {
    Fingerprint::from_bits(bits)
}

/// Key of the default rule and this tenant, in the window that begins at `start`.
pub(crate) fn key_of(tenant: &str, start: i64) -> IncidentKey {
    IncidentKey {
        kind: IncidentKind::Burst,
        rule: "default".into(),
        tenant: tenant.into(),
        fingerprint: fingerprint(1),
        window: Window { start: EventTime(start), size_ms: WINDOW_MS },
    }
}

/// The same of tenant `acme`.
pub(crate) fn key(start: i64) -> IncidentKey {
    key_of("acme", start)
}

pub(crate) fn incident_of(key: IncidentKey) -> JudgedIncident {
    let opened_at = EventTime(key.window.start.0 + 9);
    JudgedIncident { verdict: Verdict::Own, key, detection: Detection::Window, count: 10, opened_at, message: None }
}

/// What the judge says of a key.
pub(crate) fn judged_of(key: IncidentKey, verdict: Verdict) -> JudgedIncident {
    JudgedIncident { verdict, ..incident_of(key) }
}

pub(crate) fn incident(start: i64) -> JudgedIncident {
    incident_of(key(start))
}

pub(crate) fn facts_of(key: IncidentKey, total: u64) -> WindowFacts {
    let (first_ts, last_ts) = (key.window.start, EventTime(key.window.start.0 + 100));
    WindowFacts { key, total, first_ts, last_ts, samples: Vec::new() }
}

pub(crate) fn facts(start: i64, total: u64) -> WindowFacts {
    facts_of(key(start), total)
}

/// A window that has closed, with a threshold of 10 and no run over its start.
pub(crate) fn closed_of(key: IncidentKey, total: u64) -> ClosedWindow {
    let reach = if total >= 10 { Reach::Own } else { Reach::Below };
    ClosedWindow { facts: facts_of(key, total), reach }
}

pub(crate) fn closed(start: i64, total: u64) -> ClosedWindow {
    closed_of(key(start), total)
}

/// Records of partition 0 below `next_offset` are durable.
pub(crate) fn progress(next_offset: i64) -> Progress {
    let at = PartitionProgress { next_offset, watermark: EventTime(0), tallies: Tallies::default() };
    let partitions = [(PartitionKey { topic_id: TOPIC, partition: 0 }, at)].into();
    Progress { partitions, ..Progress::default() }
}

/// All incidents.
pub(crate) async fn rows(store: &impl IncidentStore) -> Vec<IncidentRow> {
    store.incidents(&Selection::default()).await.unwrap()
}

/// The only incident.
pub(crate) async fn row(store: &impl IncidentStore) -> IncidentRow {
    let mut rows = rows(store).await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}
