//! Records of a flood, and what must stand after them.

use floodmark_model::identity::Coordinates;
use floodmark_model::wire::{DecodeSettings, json};
use floodmark_model::{EventTime, RawRecord, RecordTime, Rule, TopicId};
use floodmark_oracle::{Observation, Oracle};
use std::collections::BTreeMap;

/// The start of a window of every length that divides a day: 2026-01-01T00:00:00Z.
pub(crate) const T0: i64 = 1_767_225_600_000;

/// splitmix64: the same numbers on every machine.
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub(crate) struct Produced {
    pub(crate) partition: i32,
    pub(crate) record_time: RecordTime,
    pub(crate) payload: String,
}

/// One error, which names its bug.
pub(crate) fn error(tenant: &str, bug: u64, ts: i64) -> String {
    let message = format!("upstream {bug} answers 503");
    format!(
        r#"{{"tenant":"{tenant}","service":"checkout","level":"error","ts":{ts},"message":"{message}","fingerprint":"{:032x}"}}"#,
        u128::from(bug.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(bug)
    )
}

/// A flood over `partitions`, at a thousand records a second of event time, out of order by less than the lateness of a
/// minute. One in a hundred is a client's retry of an earlier one, in any partition; one in a hundred is an `info`, which
/// no rule counts; one in a thousand is cut off. A last record in each partition closes all windows before it.
pub(crate) fn flood(seed: u64, records: i64, partitions: i32) -> Vec<Produced> {
    const BUGS: u64 = 5_000;
    let mut numbers = Numbers(seed);
    let mut flood: Vec<Produced> = Vec::with_capacity(records as usize + partitions as usize);
    let mut with_id: Vec<String> = Vec::new();
    for n in 0..records {
        let now = T0 + n;
        let ts = now - numbers.below(30_000) as i64;
        // The smaller a bug's number, the more frequent.
        let bug = numbers.below(BUGS).min(numbers.below(BUGS)).min(numbers.below(BUGS));
        let tenant = format!("tenant-{}", bug % 7);
        let payload = match numbers.below(1_000) {
            0 => r#"{"tenant":"tenant-0","message":"#.to_owned(),
            1..=10 => error(&tenant, bug, ts).replace("\"error\"", "\"info\""),
            11..=20 => {
                let event = error(&tenant, bug, ts).replacen('{', &format!("{{\"event_id\":\"e{n}\","), 1);
                with_id.push(event.clone());
                event
            }
            21..=30 if with_id.len() > 10 => {
                // Young enough not to be late.
                let back = 1 + numbers.below(10) as usize;
                with_id[with_id.len() - back].clone()
            }
            _ => error(&tenant, bug, ts),
        };
        let partition = numbers.below(partitions as u64) as i32;
        flood.push(Produced { partition, record_time: RecordTime(now), payload });
    }
    let after = T0 + records + 1_200_000;
    flood.extend((0..partitions).map(|partition| Produced {
        partition,
        record_time: RecordTime(after),
        payload: error("tenant-0", u64::MAX, after),
    }));
    flood
}

/// What must stand in the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Tenant, fingerprint and window start of each incident, with count(w).
    pub(crate) incidents: BTreeMap<(String, String, i64), i64>,
    /// The same for each total.
    pub(crate) totals: BTreeMap<(String, String, i64), u64>,
    pub(crate) distinct: u64,
    pub(crate) unmatched: i64,
    pub(crate) dead: i64,
}

/// Judges what was produced the slow way.
pub(crate) fn expected(rule: &Rule, produced: &[Produced]) -> Expected {
    let settings = DecodeSettings::default();
    let mut offsets = BTreeMap::new();
    let (mut expected, mut distinct) = (Expected::default(), BTreeMap::new());
    for record in produced {
        let offset: &mut i64 = offsets.entry(record.partition).or_default();
        let at = Coordinates { topic_id: TopicId([0; 16]), partition: record.partition, offset: *offset };
        *offset += 1;
        let raw = RawRecord { at, record_time: record.record_time, payload: Some(record.payload.as_bytes()) };
        match json::decode(raw, &settings) {
            Err(_) => expected.dead += 1,
            Ok(occurrence) if !rule.counts(&occurrence) => expected.unmatched += 1,
            Ok(occurrence) => _ = distinct.entry(occurrence.identity).or_insert_with(|| Observation::from(&occurrence)),
        }
    }
    expected.distinct = distinct.len() as u64;
    let outcome = Oracle::new([rule.clone()]).judge(distinct.into_values());
    let start = |time: EventTime| time.0;
    expected.incidents = outcome
        .incidents
        .into_iter()
        .map(|found| ((found.tenant, found.fingerprint.to_string(), start(found.window_start)), found.count as i64))
        .collect();
    expected.totals = outcome
        .totals
        .into_iter()
        .map(|(key, total)| ((key.tenant, key.fingerprint.to_string(), start(key.window_start)), total))
        .collect();
    expected
}
