//! Rust values as columns, and back.

use super::STORE;
use crate::ledger::{self, Change};
use crate::{Failure, StoreError, StoredIncident};
use floodmark_model::incident::{IncidentRow, JudgedIncident, Sample, Status, WindowFacts};
use floodmark_model::{Detection, EventTime, Fingerprint, IncidentKey, IncidentKind, Reach, TopicId, Window};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::Row;

/// Longest message of a sample, in characters.
const MESSAGE_CHARS_MAX: usize = 1_024;

/// A time as `timestamptz`, exact to the millisecond; one before year 1 or after year 9999 becomes their first or last
/// instant (events lie between [`EventTime::EARLIEST`] and [`EventTime::LATEST`], `since` and `until` anywhere).
pub(super) fn stamp(time: EventTime) -> SystemTime {
    const YEAR_1: i64 = -62_135_596_800_000;
    const YEAR_9999_END: i64 = 253_402_300_799_999;
    let ms = time.0.clamp(YEAR_1, YEAR_9999_END);
    let distance = Duration::from_millis(ms.unsigned_abs());
    if ms >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
}

/// A time that may be unknown.
pub(super) fn known_stamp(time: EventTime) -> Option<SystemTime> {
    (time > EventTime::MIN).then(|| stamp(time))
}

/// A partition's watermark: `infinity` for one that never holds anything back.
pub(super) fn watermark_stamp(watermark: EventTime) -> Option<SystemTime> {
    if watermark == EventTime::MAX { Some(infinity()) } else { known_stamp(watermark) }
}

/// A watermark as it was stored.
pub(super) fn watermark(stamp: Option<SystemTime>) -> EventTime {
    match stamp {
        None => EventTime::MIN,
        Some(stamp) if stamp == infinity() => EventTime::MAX,
        Some(stamp) => time(stamp),
    }
}

/// What Postgres sends for `infinity`: the greatest number of microseconds since 2000.
fn infinity() -> SystemTime {
    const YEAR_2000: Duration = Duration::from_secs(946_684_800);
    UNIX_EPOCH + YEAR_2000 + Duration::from_micros(i64::MAX.unsigned_abs())
}

/// A `timestamptz` as a time.
pub(super) fn time(stamp: SystemTime) -> EventTime {
    EventTime(match stamp.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    })
}

/// Postgres holds no NUL: it is shown as U+2400 (Q52).
pub(super) fn shown(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

fn samples_json(samples: &[Sample]) -> serde_json::Value {
    let shown: Vec<_> = samples
        .iter()
        .map(|sample| {
            let message: String = sample.message.chars().take(MESSAGE_CHARS_MAX).collect();
            Sample { message: self::shown(&message), count: sample.count }
        })
        .collect();
    serde_json::to_value(shown).unwrap_or_default()
}

/// The ids of the same key in the window before and in the window after.
pub(super) fn neighbours(key: &IncidentKey) -> (String, String) {
    (ledger::previous(key).id().to_string(), ledger::next(key).id().to_string())
}

/// New incidents by column, sorted by id.
#[derive(Default)]
pub(super) struct NewRows {
    pub(super) ids: Vec<String>,
    pub(super) kinds: Vec<&'static str>,
    pub(super) tenants: Vec<String>,
    pub(super) rules: Vec<String>,
    pub(super) fingerprints: Vec<String>,
    pub(super) starts: Vec<SystemTime>,
    pub(super) ends: Vec<SystemTime>,
    pub(super) detections: Vec<&'static str>,
    pub(super) reaches: Vec<&'static str>,
    pub(super) counts: Vec<i64>,
    pub(super) opened: Vec<SystemTime>,
    pub(super) samples: Vec<serde_json::Value>,
    pub(super) episodes: Vec<String>,
}

impl NewRows {
    /// Those of the changes that are new.
    pub(super) fn of(changes: &[Change<'_>]) -> Self {
        let mut rows = Self::default();
        for change in by_id(changes) {
            if let (None, Some(opening)) = (change.before, change.opening) {
                rows.push(change, opening);
            }
        }
        rows
    }

    fn push(&mut self, change: &Change<'_>, opening: &JudgedIncident) {
        let (key, now) = (change.key, &change.now);
        let sample = opening.message.as_ref().map(|message| Sample { message: message.to_string(), count: 1 });
        self.ids.push(change.id.to_string());
        self.kinds.push(key.kind.name());
        self.tenants.push(shown(&key.tenant));
        self.rules.push(shown(&key.rule));
        self.fingerprints.push(key.fingerprint.to_string());
        self.starts.push(stamp(key.window.start));
        self.ends.push(stamp(key.window.end()));
        self.detections.push(opening.detection.name());
        self.reaches.push(now.reach.name());
        self.counts.push(now.count.cast_signed());
        self.opened.push(stamp(opening.opened_at));
        self.samples.push(samples_json(sample.as_slice()));
        self.episodes.push(now.episode.to_string());
    }
}

/// Where rows that are there stand now, by column, sorted by id.
#[derive(Default)]
pub(super) struct Standings {
    pub(super) ids: Vec<String>,
    pub(super) befores: Vec<&'static str>,
    pub(super) statuses: Vec<&'static str>,
    pub(super) superseded_by: Vec<Option<String>>,
    pub(super) reaches: Vec<&'static str>,
    pub(super) counts: Vec<i64>,
    pub(super) episodes: Vec<String>,
    pub(super) transitions: Vec<Option<&'static str>>,
    pub(super) reasons: Vec<Option<String>>,
}

impl Standings {
    /// Those of rows that are there.
    pub(super) fn of<'a>(changes: impl IntoIterator<Item = &'a Change<'a>>) -> Self {
        let mut rows = Self::default();
        for change in by_id(changes) {
            let (Some(before), now) = (change.before, &change.now) else { continue };
            rows.ids.push(change.id.to_string());
            rows.befores.push(before.status.name());
            rows.statuses.push(now.status.name());
            rows.superseded_by.push(now.superseded_by.map(|id| id.to_string()));
            rows.reaches.push(now.reach.name());
            rows.counts.push(now.count.cast_signed());
            rows.episodes.push(now.episode.to_string());
            rows.transitions.push(change.transition());
            rows.reasons.push(change.reason());
        }
        rows
    }
}

fn by_id<'a>(changes: impl IntoIterator<Item = &'a Change<'a>>) -> Vec<&'a Change<'a>> {
    let mut sorted: Vec<_> = changes.into_iter().collect();
    sorted.sort_by_key(|change| change.id);
    sorted
}

/// Facts by column, sorted by id.
#[derive(Default)]
pub(super) struct FactRows {
    pub(super) ids: Vec<String>,
    pub(super) totals: Vec<i64>,
    pub(super) first: Vec<Option<SystemTime>>,
    pub(super) last: Vec<Option<SystemTime>>,
    pub(super) samples: Vec<serde_json::Value>,
}

impl FactRows {
    /// Of several facts of one key the last ones hold.
    pub(super) fn new<'a>(facts: impl IntoIterator<Item = &'a WindowFacts>) -> Self {
        let by_id: BTreeMap<_, _> = facts.into_iter().map(|facts| (facts.key.id(), facts)).collect();
        let mut rows = Self::default();
        for (id, facts) in by_id {
            let time = |time: EventTime| (facts.total > 0).then(|| stamp(time));
            rows.ids.push(id.to_string());
            rows.totals.push(facts.total.cast_signed());
            rows.first.push(time(facts.first_ts));
            rows.last.push(time(facts.last_ts));
            rows.samples.push(samples_json(&facts.samples));
        }
        rows
    }
}

/// A stored incident, as a start needs it.
pub(super) fn stored_incident(row: &Row) -> Result<StoredIncident, StoreError> {
    let (start, end) = (time(row.get("window_start")), time(row.get("window_end")));
    let key = IncidentKey {
        kind: parsed(row, "kind", IncidentKind::from_name)?,
        rule: row.get::<_, &str>("rule").into(),
        tenant: row.get::<_, &str>("tenant").into(),
        fingerprint: parsed(row, "fingerprint", Fingerprint::from_hex)?,
        window: Window { start, size_ms: end.0 - start.0 },
    };
    Ok(StoredIncident {
        key,
        status: parsed(row, "status", Status::from_name)?,
        is_closed: row.get("is_closed"),
        reach: parsed(row, "reach", Reach::from_name)?,
        detection: parsed(row, "detection", Detection::from_name)?,
    })
}

/// A stored incident, as people see it.
pub(super) fn incident_row(row: &Row) -> Result<IncidentRow, StoreError> {
    let maybe = |column: &str| row.get::<_, Option<SystemTime>>(column).map(time);
    let samples: serde_json::Value = row.get("samples");
    Ok(IncidentRow {
        id: row.get("id"),
        kind: row.get("kind"),
        tenant: row.get("tenant"),
        rule: row.get("rule"),
        fingerprint: row.get("fingerprint"),
        window_start: time(row.get("window_start")),
        window_end: time(row.get("window_end")),
        detection: parsed(row, "detection", Detection::from_name)?,
        status: parsed(row, "status", Status::from_name)?,
        count: row.get::<_, i64>("count").cast_unsigned(),
        total: row.get::<_, Option<i64>>("total").map(i64::cast_unsigned),
        first_ts: maybe("first_ts"),
        last_ts: maybe("last_ts"),
        opened_at: time(row.get("opened_at")),
        closed_at: maybe("closed_at"),
        episode_id: row.get("episode_id"),
        superseded_by: row.get("superseded_by"),
        samples: known(serde_json::from_value(samples).ok(), "list of samples", "json")?,
    })
}

/// A topic id as text that Postgres reads as a uuid.
pub(super) fn topic_id(text: &str) -> Option<TopicId> {
    let hex: String = text.chars().filter(|letter| *letter != '-').collect();
    u128::from_str_radix(&hex, 16).ok().map(|bits| TopicId(bits.to_be_bytes()))
}

/// The value that the text of a column stands for.
fn parsed<T>(row: &Row, column: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, StoreError> {
    let text: &str = row.get(column);
    known(parse(text), column, text)
}

/// What only another program can have written.
fn known<T>(value: Option<T>, what: &str, found: &str) -> Result<T, StoreError> {
    value.ok_or_else(|| StoreError {
        store: STORE,
        action: "read incidents",
        failure: Failure::Permanent,
        detail: format!("table incidents holds an unknown {what}: {found:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_both_ways_to_the_millisecond() {
        for ms in [0, 1, -1, 1_767_225_600_123, -2_208_988_800_000, 9_223_372_200_000] {
            assert_eq!(time(stamp(EventTime(ms))), EventTime(ms));
        }
        assert_eq!(known_stamp(EventTime::MIN), None);
        assert!(
            stamp(EventTime::MIN) < stamp(EventTime::EARLIEST) && stamp(EventTime(i64::MAX)) > stamp(EventTime::LATEST)
        );
    }

    #[test]
    fn topic_ids_go_both_ways() {
        let id = TopicId([0xab; 16]);
        assert_eq!(topic_id(&id.to_string()), Some(id));
    }
}
