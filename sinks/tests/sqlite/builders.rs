//! Short names for what the tests put in.

use floodmark_model::incident::{NewIncident, WindowFacts};
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::{
    Coordinates, Detection, EventTime, Fingerprint, Identity, IncidentKey, Level, Occurrence, RecordTime, Rule,
    TopicId, Window,
};
use floodmark_sinks::rows::RowBlock;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{OccurrenceStore, Selection, TotalRow};
use std::borrow::Cow;

pub(crate) const TOPIC: TopicId = TopicId([7; 16]);
pub(crate) const WINDOW_MS: i64 = 300_000;

/// The record at this offset of partition 0, with event time `ts`: the default rule counts it.
pub(crate) fn occurrence(offset: i64, ts: i64) -> Occurrence<'static> {
    let at = Coordinates { topic_id: TOPIC, partition: 0, offset };
    Occurrence {
        tenant: "acme".into(),
        fingerprint: fingerprint(1),
        ts: EventTime(ts),
        ts_missing: false,
        ts_clamped: false,
        ts_original: "".into(),
        level: Level::Error,
        service: "checkout".into(),
        host: "".into(),
        source: "".into(),
        kind: "".into(),
        template_id: "".into(),
        message: "boom".into(),
        exception_type: "".into(),
        event_id: "".into(),
        identity: Identity::of_record(at),
        at,
        record_time: RecordTime(1_000_000),
        raw: Cow::Borrowed(b"{}"),
    }
}

/// The same with a client's id (I-2).
pub(crate) fn event(offset: i64, ts: i64, event_id: &str) -> Occurrence<'static> {
    let identity = Identity::of_event("acme", event_id);
    Occurrence { event_id: event_id.to_owned().into(), identity, ..occurrence(offset, ts) }
}

pub(crate) fn fingerprint(bits: u128) -> Fingerprint {
    Fingerprint::from_bits(bits)
}

pub(crate) fn block(occurrences: &[Occurrence<'_>]) -> RowBlock {
    let mut block = RowBlock::default();
    occurrences.iter().for_each(|occurrence| block.push_occurrence(occurrence));
    block
}

pub(crate) async fn insert(store: &SqliteStore, occurrences: &[Occurrence<'_>]) {
    store.insert(&[block(occurrences)]).await.unwrap();
}

/// Key of the default rule, in the window that begins at `start`.
pub(crate) fn key(start: i64) -> IncidentKey {
    IncidentKey {
        rule: "default".into(),
        tenant: "acme".into(),
        fingerprint: fingerprint(1),
        window: Window { start: EventTime(start), size_ms: WINDOW_MS },
    }
}

pub(crate) fn incident(start: i64) -> NewIncident {
    let detection = Detection::Window;
    NewIncident { key: key(start), detection, count: 10, opened_at: EventTime(start + 9), message: None }
}

pub(crate) fn facts(start: i64, total: u64) -> WindowFacts {
    let (first_ts, last_ts) = (EventTime(start), EventTime(start + 100));
    WindowFacts { key: key(start), total, first_ts, last_ts, samples: Vec::new() }
}

/// Records of partition 0 below `next_offset` are durable.
pub(crate) fn progress(next_offset: i64) -> Progress {
    let at = PartitionProgress { next_offset, watermark: EventTime(0), tallies: Tallies::default() };
    let partitions = [(PartitionKey { topic_id: TOPIC, partition: 0 }, at)].into();
    Progress { partitions, ..Progress::default() }
}

/// (window start, total) of the default rule, over all keys.
pub(crate) async fn totals(store: &SqliteStore) -> Vec<(i64, u64)> {
    let rows: Vec<TotalRow> = store.totals(&Rule::default(), &Selection::default()).await.unwrap();
    rows.iter().map(|row| (row.window_start.0, row.total)).collect()
}
