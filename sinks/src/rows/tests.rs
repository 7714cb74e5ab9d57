#![allow(clippy::unwrap_used)]

use super::*;
use floodmark_model::{Coordinates, DeadReason, Fingerprint, Identity, Level, RecordTime, TopicId};
use proptest::prelude::*;
use std::borrow::Cow;

fn coordinates() -> impl Strategy<Value = Coordinates> {
    (any::<[u8; 16]>(), any::<i32>(), any::<i64>()).prop_map(|(id, partition, offset)| Coordinates {
        topic_id: TopicId(id),
        partition,
        offset,
    })
}

fn text() -> impl Strategy<Value = Cow<'static, str>> {
    prop_oneof![Just(String::new()), ".{0,12}", "[a\u{0}\u{2400}\"']{100,300}"].prop_map(Cow::Owned)
}

fn occurrence() -> impl Strategy<Value = Occurrence<'static>> {
    let texts = (text(), text(), text(), text(), text(), text(), text(), text(), text(), text());
    let numbers = (any::<u128>(), any::<i64>(), any::<u128>(), any::<i64>(), 1..=6u8, any::<bool>(), any::<bool>());
    let raw = proptest::collection::vec(any::<u8>(), 0..20_000);
    (texts, numbers, coordinates(), raw).prop_map(|(texts, numbers, at, raw)| Occurrence {
        tenant: texts.0,
        ts_original: texts.1,
        service: texts.2,
        host: texts.3,
        source: texts.4,
        kind: texts.5,
        template_id: texts.6,
        event_id: texts.7,
        message: texts.8,
        exception_type: texts.9,
        fingerprint: Fingerprint::from_bits(numbers.0),
        ts: EventTime(numbers.1),
        identity: Identity(numbers.2),
        record_time: RecordTime(numbers.3),
        level: Level::from_number(numbers.4).unwrap(),
        ts_missing: numbers.5,
        ts_clamped: numbers.6,
        at,
        origin: None,
        raw: Cow::Owned(raw),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn occurrences_come_back_as_they_went_in(occurrences in proptest::collection::vec(occurrence(), 0..4)) {
        let mut block = RowBlock::default();
        for occurrence in &occurrences {
            block.push_occurrence(occurrence);
            block.push_unmatched(occurrence);
        }
        prop_assert_eq!(block.rows(), 2 * occurrences.len());
        for rows in [&block.occurrences, &block.unmatched] {
            let decoded: Result<Vec<_>, _> = decode_occurrences(rows.bytes()).collect();
            prop_assert_eq!(&decoded.unwrap(), &occurrences);
        }
        let days: BTreeSet<i32> = occurrences.iter().map(|occurrence| day_of(occurrence.ts)).collect();
        prop_assert_eq!(block.days, days);
    }

    #[test]
    fn dead_letters_come_back_as_they_went_in(
        at in coordinates(),
        record_time in any::<i64>(),
        reason in proptest::sample::select(&DeadReason::ALL),
        detail in text(),
        raw in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let letter = DeadLetter { at, record_time: RecordTime(record_time), reason, detail, raw: &raw };
        let mut block = RowBlock::default();
        block.push_dead_letter(&letter);
        block.push_dead_letter(&letter);
        let decoded: Result<Vec<_>, _> = decode_dead_letters(block.dead_letters.bytes()).collect();
        prop_assert_eq!(decoded.unwrap(), vec![letter.clone(), letter]);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode_occurrences(&bytes).count();
        let _ = decode_dead_letters(&bytes).count();
    }
}

fn simple() -> Occurrence<'static> {
    Occurrence {
        origin: None,
        tenant: "acme".into(),
        fingerprint: Fingerprint::from_bits(1),
        ts: EventTime(0),
        ts_missing: false,
        ts_clamped: false,
        ts_original: "".into(),
        level: Level::Error,
        service: "".into(),
        host: "".into(),
        source: "".into(),
        kind: "".into(),
        template_id: "".into(),
        message: "boom".into(),
        exception_type: "".into(),
        event_id: "".into(),
        identity: Identity(2),
        at: Coordinates { topic_id: TopicId([0; 16]), partition: 0, offset: 0 },
        record_time: RecordTime(0),
        raw: Cow::Borrowed(b"{}"),
    }
}

#[test]
fn a_row_that_is_cut_anywhere_is_an_error_and_the_last_item() {
    let mut block = RowBlock::default();
    block.push_occurrence(&simple());
    let bytes = block.occurrences.bytes();
    for cut in 1..bytes.len() {
        let decoded: Vec<_> = decode_occurrences(&bytes[..cut]).collect();
        assert_eq!(decoded, vec![Err(MalformedRow("cut off"))], "cut at {cut}");
    }
}

#[test]
fn g2_a_dead_letter_keeps_its_first_64_kib() {
    let raw = vec![b'x'; DeadLetter::RAW_BYTES_MAX + 1];
    let at = simple().at;
    let mut block = RowBlock::default();
    block.push_dead_letter(&DeadLetter {
        at,
        record_time: RecordTime(0),
        reason: DeadReason::TooLarge,
        detail: "".into(),
        raw: &raw,
    });
    let letter = decode_dead_letters(block.dead_letters.bytes()).next().unwrap().unwrap();
    assert_eq!(letter.raw.len(), DeadLetter::RAW_BYTES_MAX);
}

#[test]
fn a_day_before_1970_is_floored() {
    assert_eq!(day_of(EventTime(-1)), -1);
    assert_eq!(day_of(EventTime(0)), 0);
    assert_eq!(day_of(EventTime(DAY_MS)), 1);
    assert_eq!(day_of(EventTime(-DAY_MS)), -1);
    assert_eq!(day_of(EventTime(-DAY_MS - 1)), -2);
}

#[test]
fn rows_on_their_way_to_a_store_do_not_change_when_the_block_grows() {
    let mut block = RowBlock::default();
    block.push_occurrence(&simple());
    let sent = block.occurrences.shared();
    let length = block.occurrences.bytes().len();
    block.push_occurrence(&simple());
    assert_eq!(sent.len(), length);
    assert_eq!(block.occurrences.bytes().len(), 2 * length);
}

#[test]
fn rows_that_are_cut_out_leave_the_others_as_they_were() {
    let mut block = RowBlock::default();
    let mut ends = vec![0];
    for n in 0..5 {
        block.push_occurrence(&Occurrence { message: "x".repeat(n * 40).into(), ..simple() });
        ends.push(block.occurrences.bytes().len());
    }
    let row = |n: usize| ends[n]..ends[n + 1];
    for cut in [vec![], vec![0], vec![4], vec![1, 2], vec![0, 3], vec![0, 1, 2, 3, 4]] {
        let mut rows = block.occurrences.clone();
        rows.cut(&cut.iter().map(|n| row(*n)).collect::<Vec<_>>());
        let kept: Vec<u8> =
            (0..5).filter(|n| !cut.contains(n)).flat_map(|n| block.occurrences.bytes()[row(n)].to_vec()).collect();
        assert_eq!((rows.bytes(), rows.count()), (&*kept, 5 - cut.len()), "without {cut:?}");
    }
}
