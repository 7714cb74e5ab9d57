//! What `consumer.rs` and `start.rs` promise.

use crate::harness::{DEADLINE, ScratchTopic, Seen, now_ms, settings};
use floodmark_kafka::{Event, KafkaSettings, Outgoing, PartitionReader, Producer, Start, Topic, owned};
use floodmark_model::{RecordTime, TopicId};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

/// Reads the first record of partition 0 and shows it to `look`.
fn first_record(topic: &ScratchTopic, look: &mut impl FnMut(floodmark_kafka::Record<'_>)) {
    let mut reader = topic.reader();
    reader.add(&topic.starts(&[(0, None)])).unwrap();
    crate::harness::eventually("a record comes", || {
        let mut has_come = false;
        let mut sink = |event: Event<'_>| {
            if let Event::Record(record) = event {
                look(record);
                has_come = true;
            }
        };
        reader.poll(now_ms(), Duration::from_millis(100), &mut sink).unwrap();
        has_come.then_some(())
    });
}

#[test]
fn records_come_in_order_and_the_end_after_them() {
    let topic = ScratchTopic::new(2);
    topic.write(0, 0..5_000);
    let mut reader = topic.reader();
    reader.add(&topic.starts(&[(0, None), (1, None)])).unwrap();
    let mut seen = Seen::default();
    seen.poll_until("both ends are reached", &mut reader, |seen| seen.ends.len() == 2);
    assert_eq!(seen.offsets(0), (0..5_000).collect::<Vec<_>>());
    assert!(seen.ends.contains(&(0, 5_000, 5_000)), "the end of 0 is told after its last record: {:?}", seen.ends);
    assert!(seen.ends.iter().any(|end| (end.0, end.1) == (1, 0)), "an empty partition has an end, too");

    topic.write(0, 5_000..5_001);
    seen.poll_until("the end is told again after more", &mut reader, |seen| seen.ends.contains(&(0, 5_001, 5_001)));
}

#[test]
fn a_record_comes_with_its_time_key_headers_and_topic_id() {
    let topic = ScratchTopic::new(1);
    let record = Outgoing {
        key: Some(b"key".into()),
        headers: vec![("other", b"x".into()), ("floodmark-identity", b"file:7".into())],
        ..Outgoing::new(b"value".to_vec()).to(0).at(RecordTime(1_234_567))
    };
    Producer::new(&settings()).unwrap().send_all(&topic.name, [record]).unwrap();
    let id = topic.topic().id;
    first_record(&topic, &mut |record| {
        assert_eq!(record.record_time, Some(RecordTime(1_234_567)));
        assert_eq!(record.key(), Some(b"key".as_slice()));
        assert_eq!(record.header("floodmark-identity"), Some(b"file:7".as_slice()));
        assert_eq!(record.header("absent"), None);
        let raw = record.raw().unwrap();
        assert_eq!((raw.at.topic_id, raw.at.partition, raw.at.offset), (id, 0, 0));
        assert_eq!((raw.record_time, raw.payload), (RecordTime(1_234_567), Some(b"value".as_slice())));
    });
}

#[test]
fn q39_the_time_is_the_brokers_where_the_topic_says_so() {
    let topic = ScratchTopic::with(1, &[("message.timestamp.type", "LogAppendTime")]);
    let before = now_ms();
    topic.write(0, 0..1);
    first_record(&topic, &mut |record| assert!(record.record_time.unwrap().0 >= before));
}

#[test]
fn a_record_without_a_time_says_so() {
    let topic = ScratchTopic::new(1);
    let record = Outgoing::new(b"value".to_vec()).to(0).at(RecordTime(-1));
    Producer::new(&settings()).unwrap().send_all(&topic.name, [record]).unwrap();
    first_record(&topic, &mut |record| {
        assert_eq!(record.record_time, None);
        assert!(record.raw().is_none());
    });
}

#[test]
fn a_record_without_a_value_has_none() {
    let topic = ScratchTopic::new(1);
    Producer::new(&settings()).unwrap().send_all(&topic.name, [Outgoing::default().to(0)]).unwrap();
    first_record(&topic, &mut |record| assert_eq!(record.payload, None));
}

#[test]
fn reading_begins_at_the_next_offset() {
    let topic = ScratchTopic::new(1);
    topic.write(0, 0..100);
    let mut reader = topic.reader();
    reader.add(&topic.starts(&[(0, Some(97))])).unwrap();
    let mut seen = Seen::default();
    seen.poll_until("the end is reached", &mut reader, |seen| !seen.ends.is_empty());
    assert_eq!(seen.offsets(0), [97, 98, 99]);
    assert_eq!(reader.positions()[&0], 100);
}

#[test]
fn a_place_below_the_logs_start_is_found_before_reading() {
    let topic = ScratchTopic::new(1);
    topic.write(0, 0..10);
    topic.admin.delete_records(&topic.name, 0, 7).unwrap();
    let start = topic.starts(&[(0, Some(4))]).remove(0);
    let lost = start.lost.unwrap();
    assert_eq!((lost.offsets(), lost.resume_at()), (4..7, 7));
    assert_eq!(topic.starts(&[(0, None)])[0].next_offset, 7, "without progress nothing is lost");
}

#[test]
fn a_place_beyond_the_logs_end_is_found_before_reading() {
    let topic = ScratchTopic::new(1);
    topic.write(0, 0..10);
    let start = topic.starts(&[(0, Some(12))]).remove(0);
    assert_eq!(start.lost.unwrap().offsets(), 10..12);
}

#[test]
fn a_place_that_is_lost_while_reading_stops_its_partition_until_the_loss_is_accepted() {
    let topic = ScratchTopic::new(2);
    topic.write(0, 0..10);
    topic.admin.delete_records(&topic.name, 0, 7).unwrap();
    topic.write(1, 0..10);
    let mut reader = topic.reader();
    // As if the records had been deleted between the question and the first fetch.
    let stale = |partition| Start { partition, next_offset: 4, is_empty: false, lost: None };
    reader.add(&[stale(0), stale(1)]).unwrap();
    let mut seen = Seen::default();
    seen.poll_until("the loss is told, and the other partition goes on", &mut reader, |seen| {
        !seen.lost.is_empty() && seen.ends.iter().any(|end| end.0 == 1)
    });
    assert_eq!(seen.lost.len(), 1);
    assert_eq!((seen.lost[0].partition, seen.lost[0].offsets()), (0, 4..7));
    assert_eq!(seen.offsets(1), (4..10).collect::<Vec<_>>(), "each once, in spite of the new assignment");
    assert_eq!(seen.offsets(0), [] as [i64; 0]);

    reader.resume(&seen.lost[0].clone()).unwrap();
    seen.poll_until("the partition goes on", &mut reader, |seen| seen.ends.iter().any(|end| end.0 == 0));
    assert_eq!(seen.offsets(0), [7, 8, 9]);
    assert_eq!(seen.offsets(1), (4..10).collect::<Vec<_>>());
    assert_eq!(seen.lost.len(), 1);
}

#[test]
fn a_partition_added_while_the_queue_is_full_costs_no_record_and_repeats_none() {
    let topic = ScratchTopic::new(2);
    topic.write(0, 0..20_000);
    topic.write(1, 0..20_000);
    let mut reader = topic.reader();
    reader.add(&topic.starts(&[(0, None)])).unwrap();
    let mut seen = Seen::default();
    seen.poll_until("some records have come", &mut reader, |seen| !seen.records.is_empty());
    assert!(seen.offsets(0).len() < 20_000, "the rest waits in the queue");
    reader.add(&topic.starts(&[(1, None)])).unwrap();
    seen.poll_until("both are read", &mut reader, |seen| seen.records.len() >= 40_000);
    for partition in 0..2 {
        assert_eq!(seen.offsets(partition), (0..20_000).collect::<Vec<_>>());
    }
}

#[test]
fn a_partition_that_the_topic_has_grown_by_is_read_from_its_beginning() {
    let topic = ScratchTopic::new(1);
    let mut reader = topic.reader();
    reader.add(&topic.starts(&[(0, None)])).unwrap();
    let mut seen = Seen::default();
    seen.poll_until("the first is read", &mut reader, |seen| !seen.ends.is_empty());
    topic.admin.grow_topic(&topic.name, 2).unwrap();
    topic.wait_for_leaders(2);
    topic.write(1, 0..3);
    reader.add(&topic.starts(&[(1, None)])).unwrap();
    seen.poll_until("the second is read", &mut reader, |seen| seen.records.len() == 3);
    assert_eq!(seen.offsets(1), [0, 1, 2]);
}

#[test]
fn more_workers_than_partitions_read_each_record_once() {
    let topic = ScratchTopic::new(2);
    topic.write(0, 0..10);
    topic.write(1, 0..10);
    let mut seen = Seen::default();
    for worker in 0..3 {
        let mine: Vec<_> = owned(2, worker, 3).map(|partition| (partition, None)).collect();
        let mut reader = topic.reader();
        reader.add(&topic.starts(&mine)).unwrap();
        let ends = seen.ends.len() + mine.len();
        seen.poll_until("its partitions are read", &mut reader, |seen| seen.ends.len() >= ends);
        seen.poll(&mut reader);
    }
    for partition in 0..2 {
        assert_eq!(seen.offsets(partition), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn what_the_reader_has_seen_moves_with_the_clock_only_while_it_polls() {
    let topic = ScratchTopic::new(1);
    topic.write(0, 0..10);
    let mut reader = topic.reader();
    reader.add(&topic.starts(&[(0, None)])).unwrap();
    let mut seen = Seen::default();
    seen.poll_until("the end is reached", &mut reader, |seen| !seen.ends.is_empty());
    let polled = reader.poll(77_000_000_000_000, Duration::ZERO, &mut |_| ()).unwrap();
    assert_eq!((polled.records, polled.seen_until_ms), (0, 77_000_000_000_000));
}

#[test]
fn without_a_broker_a_reader_waits_and_can_be_dropped() {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let settings = KafkaSettings::new("127.0.0.1:1", "floodmark-test", BTreeMap::new()).unwrap();
        let topic = Topic { name: "absent".into(), id: TopicId([1; 16]) };
        let mut reader = PartitionReader::new(&settings, "floodmark-test", topic).unwrap();
        reader.add(&[Start { partition: 0, next_offset: 5, is_empty: false, lost: None }]).unwrap();
        let mut trouble = Vec::new();
        crate::harness::eventually("the trouble is told", || {
            let mut sink = |event: Event<'_>| {
                if let Event::Trouble(reason) = event {
                    trouble.push(reason);
                }
            };
            reader.poll(now_ms(), Duration::from_millis(100), &mut sink).unwrap();
            (!trouble.is_empty()).then_some(())
        });
        assert!(trouble[0].contains("127.0.0.1:1"), "{trouble:?}");
        drop(reader);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(DEADLINE).expect("the reader was dropped");
}
