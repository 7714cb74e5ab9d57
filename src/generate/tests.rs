#![allow(clippy::unwrap_used)]
use super::*;
use floodmark_model::wire::{DecodeSettings, json};
use floodmark_model::{Coordinates, Fingerprint, Identity, Level, RawRecord, RecordTime, TopicId};
use std::collections::{BTreeMap, BTreeSet};

const START: EventTime = EventTime(1_767_225_600_000);
const SPAN_MS: i64 = 30_000;
const MINUTE_MS: i64 = 60_000;
const THRESHOLD: usize = 10;

/// What the tests look at in a decoded record.
struct Seen {
    ts: EventTime,
    tenant: String,
    service: String,
    fingerprint: Fingerprint,
    level: Level,
    message: String,
    exception_type: String,
    event_id: String,
    identity: Identity,
    fingerprint_given: bool,
}

/// Decodes a record as floodmark does, which refuses dead letters.
fn seen(offset: i64, generated: &Generated) -> Seen {
    let record = RawRecord {
        at: Coordinates { topic_id: TopicId([7; 16]), partition: 0, offset },
        record_time: RecordTime(generated.ts.0),
        payload: Some(generated.json.as_bytes()),
    };
    let occurrence = json::decode(record, &DecodeSettings::default()).unwrap();
    assert_eq!(occurrence.ts, generated.ts, "{}", generated.json);
    assert!(!occurrence.ts_missing && !occurrence.ts_clamped);
    Seen {
        ts: occurrence.ts,
        tenant: occurrence.tenant.into(),
        service: occurrence.service.into(),
        fingerprint: occurrence.fingerprint,
        level: occurrence.level,
        message: occurrence.message.into(),
        exception_type: occurrence.exception_type.into(),
        event_id: occurrence.event_id.into(),
        identity: occurrence.identity,
        fingerprint_given: generated.json.contains("\"fingerprint\":"),
    }
}

fn flood(seed: u64, span_ms: i64) -> Vec<Seen> {
    (0..).zip(Flood::new(seed, START, span_ms)).map(|(offset, generated)| seen(offset, &generated)).collect()
}

/// The most distinct occurrences of each bug and tenant in any half-open interval of a minute, level `warn` and above.
fn most_a_minute(records: &[Seen]) -> BTreeMap<(Fingerprint, &str), usize> {
    let mut times: BTreeMap<(Fingerprint, &str), Vec<EventTime>> = BTreeMap::new();
    let mut identities = BTreeSet::new();
    for record in records.iter().filter(|record| record.level >= Level::Warn) {
        if identities.insert(record.identity.0) {
            times.entry((record.fingerprint, &*record.tenant)).or_default().push(record.ts);
        }
    }
    let within = |times: &[EventTime]| times.partition_point(|&ts| ts < times[0].plus(MINUTE_MS));
    let most = |times: &[EventTime]| (0..times.len()).map(|from| within(&times[from..])).max().unwrap_or(0);
    times.iter().map(|(&key, times)| (key, most(times))).collect()
}

/// All fingerprints that a line has had in many renderings.
fn fingerprints_of(line: &'static Line) -> BTreeSet<Fingerprint> {
    let pace = Pace::Steady { per_second: 100.0 };
    let feed = Feed::new(std::slice::from_ref(line), &stories::TENANTS, 4, pace, 0);
    let only = Flood { feeds: vec![feed], ..Flood::new(5, START, 2_000) };
    (0..).zip(only).map(|(offset, generated)| seen(offset, &generated).fingerprint).collect()
}

fn story_fingerprints() -> BTreeSet<Fingerprint> {
    stories::STORIES.iter().flat_map(|story| story.lines).flat_map(fingerprints_of).collect()
}

#[test]
fn the_same_seed_gives_the_same_flood_and_another_seed_another() {
    let of_seed = |seed| Flood::new(seed, START, SPAN_MS).collect::<Vec<_>>();
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
}

#[test]
fn records_come_in_order_within_the_span_and_each_on_one_line() {
    for span_ms in [1, 999, SPAN_MS, 90_001] {
        let mut before = START;
        for generated in Flood::new(3, START, span_ms) {
            assert!(before <= generated.ts && generated.ts < START.plus(span_ms));
            assert!(!generated.json.contains(['\n', '\r']), "{}", generated.json);
            before = generated.ts;
        }
    }
}

#[test]
fn a_span_of_nothing_is_an_empty_flood_and_the_end_stays_the_end() {
    for span_ms in [i64::MIN, -1, 0] {
        assert_eq!(Flood::new(1, START, span_ms).next(), None);
    }
    let mut flood = Flood::new(1, START, 500);
    assert!(flood.by_ref().count() > 0);
    assert_eq!(flood.next(), None);
}

#[test]
fn the_longest_span_and_the_edges_of_time_do_no_harm() {
    for start in [EventTime::EARLIEST, EventTime(-1), EventTime::LATEST, EventTime(i64::MAX)] {
        assert_eq!(Flood::new(1, start, i64::MAX).take(100).count(), 100);
    }
}

#[test]
fn every_template_is_filled_and_collapses_to_one_fingerprint() {
    let steady = &stories::STEADY[0];
    let noise_and_notices = stories::NOISE.iter().chain(stories::NOTICES.iter().map(|notice| &notice.line));
    let lines = stories::STORIES.iter().flat_map(|story| story.lines).chain(noise_and_notices).chain(steady.lines);
    let mut of_line = BTreeMap::new();
    for line in lines {
        let fingerprints = fingerprints_of(line);
        assert_eq!(fingerprints.len(), 1, "{}", line.message);
        of_line.entry(fingerprints).or_insert_with(Vec::new).push(line.level);
    }
    let shared: Vec<_> = of_line.values().filter(|levels| levels.len() > 1).collect();
    assert_eq!(shared, [&vec!["error", "fatal"]], "only the payment's tries and its last try are one bug");
}

#[test]
fn the_flood_is_as_large_as_a_shops() {
    for seed in 0..4 {
        let records = flood(seed, SPAN_MS);
        let mut a_second = vec![0; SPAN_MS as usize / 1_000];
        for record in &records {
            a_second[((record.ts.0 - START.0) / 1_000) as usize] += 1;
        }
        let peak = *a_second.iter().max().unwrap();
        assert!((1_200..=1_800).contains(&peak), "peak {peak}, {a_second:?}");
        for calm in [a_second[0], a_second[SPAN_MS as usize / 1_000 - 1]] {
            assert!((15..=90).contains(&calm), "calm {calm}, {a_second:?}");
        }
        let distinct = |of: fn(&Seen) -> &str| records.iter().map(of).collect::<BTreeSet<_>>().len();
        assert_eq!((distinct(|record| &record.tenant), distinct(|record| &record.service)), (3, 6));
        assert_eq!(records.iter().map(|record| record.level).collect::<BTreeSet<_>>().len(), 4);
    }
}

#[test]
fn thousands_of_messages_are_few_fingerprints() {
    let records = flood(1, SPAN_MS);
    let messages: BTreeSet<_> = records.iter().map(|record| &record.message).collect();
    let fingerprints: BTreeSet<_> = records.iter().map(|record| record.fingerprint).collect();
    assert!(messages.len() > 5_000, "{} messages", messages.len());
    assert!((30..=100).contains(&fingerprints.len()), "{} fingerprints", fingerprints.len());
    let share = |holds: fn(&Seen) -> bool| records.iter().filter(|record| holds(record)).count() * 100 / records.len();
    assert!((20..=80).contains(&share(|record| !record.exception_type.is_empty())));
    assert!(share(|record| record.fingerprint_given) < 5);
}

#[test]
fn every_story_is_an_incident_and_nothing_else_is() {
    let stories = story_fingerprints();
    for (seed, span_ms) in [(1, SPAN_MS), (2, SPAN_MS), (3, SPAN_MS), (4, 100_000)] {
        let records = flood(seed, span_ms);
        let most = most_a_minute(&records);
        let due: BTreeSet<_> = most.iter().filter(|(_, most)| **most >= THRESHOLD).map(|((bug, _), _)| *bug).collect();
        if let Some(bug) = due.symmetric_difference(&stories).next() {
            let lines: Vec<_> = records.iter().filter(|record| record.fingerprint == *bug).collect();
            panic!("seed {seed}: {} of {:?}", lines.len(), lines.first().map(|record| &record.message));
        }
        assert!(most.values().filter(|&&most| most < THRESHOLD).count() >= 20, "noise is there");
    }
}

#[test]
fn the_first_burst_begins_within_two_seconds() {
    for seed in 0..8 {
        let records = flood(seed, SPAN_MS);
        let end = records.partition_point(|record| record.ts < START.plus(2_000));
        let most = most_a_minute(&records[..end]);
        assert!(most.values().any(|&most| most >= THRESHOLD), "seed {seed}");
    }
}

#[test]
fn noise_never_reaches_the_threshold_in_five_minutes() {
    let mut random = Random::new(11);
    for _ in 0..20 {
        let mut pace = Pace::noise(&mut random);
        let mut times = vec![0];
        while *times.last().unwrap() < 100_000 * pace::SECOND_US {
            times.push(pace.next_us(*times.last().unwrap(), &mut random).unwrap());
        }
        let ten_span = times.windows(THRESHOLD).map(|ten| ten[THRESHOLD - 1] - ten[0]).min().unwrap();
        assert!(ten_span >= 300 * pace::SECOND_US, "ten in {ten_span} us");
    }
}

#[test]
fn an_oddity_comes_again_only_after_all_others() {
    let mut random = Random::new(1);
    let mut oddities = text::Oddities::new(&mut random);
    let scene = text::Scene { now: START, onset: START, host: "h" };
    let mut draw = || text::fill("{oddity}", &scene, &mut oddities, &mut random);
    let all: BTreeSet<String> = (0..text::Oddities::COUNT).map(|_| draw()).collect();
    assert_eq!(all.len(), text::Oddities::COUNT);
    let in_five_minutes = stories::STEADY[1].per_second * 300.0;
    assert!(in_five_minutes < text::Oddities::COUNT as f64 / 1.5);
}

#[test]
fn i2_about_one_in_a_hundred_event_ids_comes_twice_with_the_same_record() {
    let mut times_seen: BTreeMap<String, Vec<Generated>> = BTreeMap::new();
    let mut without = 0;
    for generated in Flood::new(1, START, 100_000) {
        match seen(0, &generated).event_id {
            event_id if event_id.is_empty() => without += 1,
            event_id => times_seen.entry(event_id).or_default().push(generated),
        }
    }
    let twice = times_seen.values().filter(|records| records.len() == 2).count();
    assert!(times_seen.values().all(|records| records.len() <= 2 && records[0] == records[records.len() - 1]));
    assert!((5..=15).contains(&(twice * 1_000 / times_seen.len())), "{twice} of {}", times_seen.len());
    assert!(without > 1_000, "not every client gives ids");
}
