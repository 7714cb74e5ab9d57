//! Records to put in.

use floodmark_model::{Coordinates, EventTime, Fingerprint, Identity, Level, Occurrence, RecordTime, TopicId};
use floodmark_sinks::OccurrenceStore;
use floodmark_sinks::rows::RowBlock;
use std::borrow::Cow;

pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const WINDOW: i64 = 5 * MINUTE;

pub(crate) const TOPIC: TopicId = TopicId([7; 16]);

/// The record at this place, with event time `ts`: the default rule counts it.
pub(crate) fn occurrence(at: Coordinates, ts: i64) -> Occurrence<'static> {
    Occurrence {
        tenant: "acme".into(),
        fingerprint: Fingerprint::from_bits(1),
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
        origin: None,
        record_time: RecordTime(0),
        raw: Cow::Borrowed(b"{}"),
    }
}

/// Records of one topic, each at its own place.
#[derive(Default)]
pub(crate) struct Records(pub(crate) Vec<Occurrence<'static>>);

impl Records {
    pub(crate) fn put(&mut self, tenant: &str, fingerprint: u128, times: impl IntoIterator<Item = i64>) {
        for ts in times {
            let at = Coordinates { topic_id: TOPIC, partition: 0, offset: self.0.len() as i64 };
            let (tenant, fingerprint) = (Cow::Owned(tenant.into()), Fingerprint::from_bits(fingerprint));
            self.0.push(Occurrence { tenant, fingerprint, ..occurrence(at, ts) });
        }
    }

    pub(crate) fn last(&mut self) -> &mut Occurrence<'static> {
        self.0.last_mut().unwrap()
    }

    /// Every record is inserted twice, in two calls: what counts is what is distinct.
    pub(crate) async fn insert(&self, store: &impl OccurrenceStore) {
        for _ in 0..2 {
            for some in self.0.chunks(50_000) {
                let mut block = RowBlock::default();
                some.iter().for_each(|occurrence| block.push_occurrence(occurrence));
                store.insert(&[block]).await.unwrap();
            }
        }
    }
}
