//! Short names for what the tests put in.

pub(crate) use crate::incident_store::builders::*;
use crate::occurrence_store::records;
use floodmark_model::{Coordinates, Identity, Occurrence, RecordTime, Rule};
use floodmark_sinks::rows::RowBlock;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{OccurrenceStore, Selection, TotalRow};

/// A store that holds nothing.
pub(crate) async fn fresh() -> (SqliteStore, ()) {
    (SqliteStore::open_in_memory().unwrap(), ())
}

/// The record at this offset of partition 0, with event time `ts`: the default rule counts it.
pub(crate) fn occurrence(offset: i64, ts: i64) -> Occurrence<'static> {
    let at = Coordinates { topic_id: TOPIC, partition: 0, offset };
    Occurrence { record_time: RecordTime(1_000_000), ..records::occurrence(at, ts) }
}

/// The same with a client's id (I-2).
pub(crate) fn event(offset: i64, ts: i64, event_id: &str) -> Occurrence<'static> {
    let identity = Identity::of_event("acme", event_id);
    Occurrence { event_id: event_id.to_owned().into(), identity, ..occurrence(offset, ts) }
}

pub(crate) fn block(occurrences: &[Occurrence<'_>]) -> RowBlock {
    let mut block = RowBlock::default();
    occurrences.iter().for_each(|occurrence| block.push_occurrence(occurrence));
    block
}

pub(crate) async fn insert(store: &SqliteStore, occurrences: &[Occurrence<'_>]) {
    store.insert(&[block(occurrences)]).await.unwrap();
}

/// (window start, total) of the default rule, over all keys.
pub(crate) async fn totals(store: &SqliteStore) -> Vec<(i64, u64)> {
    let rows: Vec<TotalRow> = store.totals(&Rule::default(), &Selection::default()).await.unwrap();
    rows.iter().map(|row| (row.window_start.0, row.total)).collect()
}
