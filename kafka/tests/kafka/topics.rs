//! What `topics.rs`, `monitor.rs` and `admin.rs` promise.

use crate::harness::{ScratchTopic, eventually, topics};
use floodmark_kafka::{KafkaError, KafkaSettings, Observation, TopicMonitor, Topics};
use std::collections::BTreeMap;
use std::time::Duration;

fn monitor(topic: &ScratchTopic, partitions: i32) -> TopicMonitor {
    TopicMonitor::new(topics(), topic.topic(), partitions)
}

#[test]
fn i1_a_topic_created_anew_has_another_id() {
    let topic = ScratchTopic::new(1);
    let first = topic.topic().id;
    assert_eq!(topic.topic().id, first);
    let mut monitor = monitor(&topic, 1);
    assert_eq!(monitor.ask(), Observation::Same { leaders: vec![true], new_partitions: 1..1 });

    topic.admin.delete_topic(&topic.name).unwrap();
    eventually("the topic is gone", || (monitor.ask() == Observation::Gone).then_some(()));
    topic.admin.create_topic(&topic.name, 1, &[]).unwrap();
    let second = topic.wait_for_leaders(1).id;
    assert_ne!(first, second);
    assert_eq!(monitor.ask(), Observation::Recreated { old: first, new: second });
}

#[test]
fn the_id_is_the_one_that_kafkas_own_tools_show() {
    let topic = ScratchTopic::new(1);
    // A version-4 UUID: its variant and version bits stand where they should, so no half is swapped.
    let id = topic.topic().id.0;
    assert_eq!(id[6] >> 4, 4, "{id:?}");
    assert_eq!(id[8] >> 6, 0b10, "{id:?}");
}

#[test]
fn new_partitions_are_told_once() {
    let topic = ScratchTopic::new(1);
    let mut monitor = monitor(&topic, 1);
    topic.admin.grow_topic(&topic.name, 3).unwrap();
    topic.wait_for_leaders(3);
    assert_eq!(monitor.ask(), Observation::Same { leaders: vec![true; 3], new_partitions: 1..3 });
    assert_eq!(monitor.ends(), vec![Some(0); 3]);
    assert_eq!(monitor.ask(), Observation::Same { leaders: vec![true; 3], new_partitions: 3..3 });
}

#[test]
fn a_missing_topic_is_named() {
    match topics().describe("test-kafka-never-created") {
        Err(KafkaError::TopicMissing { topic }) => assert_eq!(topic, "test-kafka-never-created"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_no_topic_can_have_are_errors() {
    for name in ["", "a\0b", "with space"] {
        assert!(topics().describe(name).is_err(), "{name:?}");
    }
}

#[test]
fn what_a_partition_holds() {
    let topic = ScratchTopic::new(2);
    topic.write(1, 0..10);
    topic.admin.delete_records(&topic.name, 1, 4).unwrap();
    assert_eq!(topics().watermarks(&topic.name, 0).unwrap(), (0, 0));
    assert_eq!(topics().watermarks(&topic.name, 1).unwrap(), (4, 10));
    assert!(topics().watermarks(&topic.name, 2).is_err());
}

#[test]
fn without_a_broker_the_answer_is_transient_and_says_why() {
    let settings = KafkaSettings::new("127.0.0.1:1", "floodmark-test", BTreeMap::new()).unwrap();
    let topics = Topics::new(&settings, Duration::from_millis(500)).unwrap();
    let error = topics.describe("any").unwrap_err();
    assert!(error.is_transient());
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn creating_a_topic_twice_and_deleting_none_are_errors() {
    let topic = ScratchTopic::new(1);
    assert!(!topic.admin.create_topic(&topic.name, 1, &[]).unwrap_err().is_transient());
    assert!(matches!(topic.admin.delete_topic("test-kafka-never-created"), Err(KafkaError::TopicMissing { .. })));
}
