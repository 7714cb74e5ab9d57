//! What a topic holds, for people who asked for something else.

use crate::shown_time::shown_time;
use floodmark_kafka::{Event, KafkaError, KafkaSettings, PartitionReader, Start, Topic};
use floodmark_model::{EventTime, RecordTime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the times may be looked for.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL_WAIT: Duration = Duration::from_millis(100);
/// Partitions that are named one by one.
const PARTITIONS_SHOWN: usize = 4;

/// The offsets of a topic's partitions, each `low..high`, and the times of their first and last records, in words.
pub(super) fn describe(settings: &KafkaSettings, topic: &Topic, held: &[(i64, i64)]) -> String {
    let name = &topic.name;
    let filled: Vec<(i32, i64, i64)> =
        (0..).zip(held).filter(|(_, (low, high))| low < high).map(|(n, (low, high))| (n, *low, high - 1)).collect();
    if filled.is_empty() {
        return format!("topic {name} is empty");
    }
    let shown = filled.iter().take(PARTITIONS_SHOWN);
    let offsets: Vec<String> =
        shown.map(|(partition, first, last)| format!("{first} to {last} in partition {partition}")).collect();
    let more = if filled.len() > PARTITIONS_SHOWN { ", ..." } else { "" };
    let times = |last: bool| {
        let places = filled.iter().map(|(partition, low, high)| (*partition, if last { *high } else { *low }));
        times_at(settings, topic, places.collect()).unwrap_or_default()
    };
    let (first, last) = (times(false).into_iter().min(), times(true).into_iter().max());
    let span = first
        .zip(last)
        .map(|(first, last)| format!(", of {} to {}", shown_time(EventTime(first.0)), shown_time(EventTime(last.0))));
    format!("topic {name} holds the offsets {}{more}{}", offsets.join(", "), span.unwrap_or_default())
}

/// Record times at these offsets of partitions, as far as they can be read soon.
fn times_at(
    settings: &KafkaSettings,
    topic: &Topic,
    places: BTreeMap<i32, i64>,
) -> Result<Vec<RecordTime>, KafkaError> {
    let start = |(&partition, &next_offset)| Start { partition, next_offset, is_empty: false, lost: None };
    let starts: Vec<Start> = places.iter().map(start).collect();
    let mut reader = PartitionReader::new(settings, "floodmark-backfill", topic.clone())?;
    reader.add(&starts)?;
    let (mut found, started, mut clock_ms) = (BTreeMap::new(), Instant::now(), 0);
    while found.len() < places.len() && started.elapsed() < PATIENCE {
        clock_ms += 1;
        reader.poll_some(clock_ms, POLL_WAIT, 1_000, &mut |event| {
            if let Event::Record(record) = event {
                found.entry(record.at.partition).or_insert(record.record_time);
            }
        })?;
    }
    Ok(found.into_values().flatten().collect())
}
