//! What `producer.rs` promises.

use crate::harness::{ScratchTopic, Seen, settings, topics};
use floodmark_kafka::{Outgoing, Producer};

#[test]
fn what_is_sent_is_there_when_it_returns() {
    let topic = ScratchTopic::new(1);
    let mut producer = Producer::new(&settings()).unwrap();
    // More than the client's queue holds, so that sending has to wait for room.
    let records = (0..150_000).map(|n: i64| Outgoing::new(n.to_string().into_bytes()).to(0));
    assert_eq!(producer.send_all(&topic.name, records).unwrap(), 150_000);
    assert_eq!(topics().watermarks(&topic.name, 0).unwrap(), (0, 150_000));
}

#[test]
fn one_key_stays_in_one_partition_and_in_order() {
    let topic = ScratchTopic::new(4);
    let records =
        (0..1_000).map(|n: i64| Outgoing { key: Some(b"key".into()), ..Outgoing::new(n.to_string().into_bytes()) });
    Producer::new(&settings()).unwrap().send_all(&topic.name, records).unwrap();
    let mut reader = topic.reader();
    reader.add(&topic.starts(&[(0, None), (1, None), (2, None), (3, None)])).unwrap();
    let mut seen = Seen::default();
    seen.poll_until("all are read", &mut reader, |seen| seen.records.len() == 1_000);
    assert!(seen.records.iter().all(|record| record.0 == seen.records[0].0));
    assert!(seen.records.iter().map(|record| record.2.parse::<i64>().unwrap()).eq(0..1_000));
}

#[test]
fn a_record_that_cannot_be_written_is_an_error_and_the_next_call_works() {
    let topic = ScratchTopic::new(1);
    let mut producer = Producer::new(&settings()).unwrap();
    let error = producer.send_all(&topic.name, [Outgoing::new(b"x".to_vec()).to(99)]).unwrap_err().to_string();
    assert!(error.contains(&topic.name) && error.contains("partition"), "{error}");
    let error = producer.send_all(&topic.name, [Outgoing::new(vec![0; 17 << 20]).to(0)]).unwrap_err();
    assert!(!error.is_transient(), "{error}");
    assert_eq!(producer.send_all(&topic.name, [Outgoing::new(b"x".to_vec()).to(0)]).unwrap(), 1);
}
