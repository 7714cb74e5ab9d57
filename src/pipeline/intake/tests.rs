use super::*;
use crate::pipeline::recent::RecentMessages;
use crate::pipeline::retry_filter::MemoryFilter;
use floodmark_model::wire::{DecodeSettings, json};
use floodmark_model::{Identity, RecordTime};
use floodmark_sinks::rows::{decode_dead_letters, decode_occurrences};

const LIVE: TopicId = TopicId([1; 16]);
const FILE: TopicId = TopicId([2; 16]);
const ASIDE: PartitionKey = PartitionKey { topic_id: TopicId([3; 16]), partition: 0 };

fn intake() -> Intake {
    let mut intake = Intake::new(Arc::new(IntakeShared {
        rules: vec![Rule::default()],
        store_unmatched: false,
        tenants: Tenants::new(10),
        retries: Box::new(MemoryFilter::new(1_000)),
        recent: RecentMessages::default(),
        budget: Budget::new(1 << 20),
        metrics: Arc::default(),
    }));
    intake.assign(ASIDE, None, 0, Reading::Aside);
    intake
}

fn at(topic_id: TopicId, offset: i64) -> Coordinates {
    Coordinates { topic_id, partition: 0, offset }
}

/// A record of the backfill topic at `offset`, for the one at `origin`.
fn backfill(intake: &mut Intake, offset: i64, origin: Coordinates, payload: &str) {
    let at = Coordinates { topic_id: ASIDE.topic_id, partition: 0, offset };
    let raw = RawRecord { at, record_time: RecordTime(5_000), payload: Some(payload.as_bytes()) };
    intake.backfilled(raw, Some(origin), LIVE, json::decode(raw, &DecodeSettings::default()).map(Some));
}

struct Taken {
    identities: Vec<Identity>,
    dead: Vec<Coordinates>,
    events: usize,
    update: PartitionUpdate,
}

fn take(intake: &mut Intake) -> Taken {
    let Some(Batch::Read { events, rows, partitions }) = intake.take() else { panic!("nothing was taken in") };
    let block = rows.map(|rows| rows.block.clone()).unwrap_or_default();
    Taken {
        identities: decode_occurrences(block.occurrences.bytes()).map(|row| row.unwrap().identity).collect(),
        dead: decode_dead_letters(block.dead_letters.bytes()).map(|row| row.unwrap().at).collect(),
        events: events.len(),
        update: partitions[0],
    }
}

const ERROR: &str = r#"{"ts":"1970-01-01T00:00:01Z","message":"x"}"#;

#[test]
fn g2_what_came_in_any_order_is_tallied_when_all_of_it_is_in() {
    let mut intake = intake();
    backfill(&mut intake, 7, at(FILE, 70), ERROR);
    let taken = take(&mut intake);
    assert_eq!((taken.identities.len(), taken.events), (1, 1));
    assert_eq!((taken.update.next_offset, taken.update.tallies), (0, Tallies::default()), "6 is still to come");
    assert_eq!(taken.update.greatest, None, "it says nothing of the watermark");
    backfill(&mut intake, 6, at(FILE, 60), "{");
    backfill(&mut intake, 5, at(FILE, 70), ERROR);
    intake.gathered_to(ASIDE, 8);
    let taken = take(&mut intake);
    assert_eq!(taken.update.next_offset, 8);
    assert_eq!(taken.update.tallies, Tallies { stored: 1, retried: 1, dead: 1, unmatched: 0, unique: 0 });
    assert_eq!(taken.update.reading, Reading::Aside);
}

#[test]
fn i2_the_same_origin_again_is_a_retry_as_long_as_memory_holds_its_window() {
    let mut intake = intake();
    backfill(&mut intake, 0, at(FILE, 70), ERROR);
    backfill(&mut intake, 1, at(FILE, 70), ERROR);
    backfill(&mut intake, 2, at(FILE, 71), ERROR);
    let taken = take(&mut intake);
    assert_eq!(taken.identities, [Identity::of_record(at(FILE, 70)), Identity::of_record(at(FILE, 71))]);
    assert_eq!(taken.events, 2);
    // Behind that the occurrence store replaces it, and nothing is remembered.
    intake.shared.retries.forget_before(EventTime(3_600_000));
    backfill(&mut intake, 3, at(FILE, 70), ERROR);
    backfill(&mut intake, 4, at(FILE, 70), ERROR);
    assert_eq!(take(&mut intake).identities.len(), 2);
}

#[test]
fn i1_what_stands_in_the_live_topic_is_counted_there_while_memory_holds_its_window() {
    let mut intake = intake();
    backfill(&mut intake, 0, at(LIVE, 70), ERROR);
    intake.gathered_to(ASIDE, 1);
    let taken = take(&mut intake);
    assert_eq!((taken.identities.len(), taken.events, taken.update.tallies.retried), (0, 0, 1));
    intake.shared.retries.forget_before(EventTime(3_600_000));
    backfill(&mut intake, 1, at(LIVE, 70), ERROR);
    assert_eq!(take(&mut intake).identities, [Identity::of_record(at(LIVE, 70))]);
}

#[test]
fn a_line_that_cannot_be_read_is_one_dead_letter_however_often_it_comes() {
    let mut intake = intake();
    backfill(&mut intake, 0, at(FILE, 70), "{");
    backfill(&mut intake, 1, at(FILE, 70), "{");
    assert_eq!(take(&mut intake).dead, [at(FILE, 70), at(FILE, 70)], "one place, and so one row");
}
