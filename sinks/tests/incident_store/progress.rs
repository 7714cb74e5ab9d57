//! Progress goes forwards.

use super::builders::*;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_model::{EventTime, TopicId};
use floodmark_sinks::{Generation, IncidentStore};

fn at(next_offset: i64, watermark: i64, stored: u64) -> PartitionProgress {
    let tallies = Tallies { stored, retried: 1, unmatched: 2, dead: 3, unique: stored / 2 };
    PartitionProgress { next_offset, watermark: EventTime(watermark), tallies }
}

fn of(partitions: &[(i32, PartitionProgress)], closed: Option<i64>, settings_hash: u128) -> Progress {
    let partitions =
        partitions.iter().map(|&(partition, at)| (PartitionKey { topic_id: TOPIC, partition }, at)).collect();
    Progress { partitions, closed: closed.map(EventTime), settings_hash }
}

pub(crate) async fn a_pipeline_that_never_ran_has_no_progress_and_starts_at_generation_1(store: &impl IncidentStore) {
    assert_eq!(store.progress().await.unwrap(), Progress::default());
    assert_eq!(store.take_over().await.unwrap(), Generation(1));
    assert_eq!(store.progress().await.unwrap(), Progress::default());
    assert_eq!(store.take_over().await.unwrap(), Generation(2));
}

pub(crate) async fn progress_comes_back_as_it_was_committed(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let mut progress = of(&[(0, at(5, -70, 4)), (1, at(9, 30, 8))], Some(-100), u128::MAX - 1);
    progress.partitions.insert(PartitionKey { topic_id: TopicId([1; 16]), partition: 0 }, at(1, i64::MIN, 0));
    progress
        .partitions
        .insert(PartitionKey { topic_id: TopicId([0xfe; 16]), partition: 0 }, at(2, EventTime::LATEST.0, 1));
    progress
        .partitions
        .insert(PartitionKey { topic_id: TopicId([0xff; 16]), partition: i32::MAX }, at(2, EventTime::EARLIEST.0, 1));
    store.commit(generation, &progress).await.unwrap();
    assert_eq!(store.progress().await.unwrap(), progress);
}

pub(crate) async fn progress_never_goes_back(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    store.commit(generation, &of(&[(0, at(5, 70, 4)), (1, at(9, 30, 8))], Some(50), 1)).await.unwrap();
    store.commit(generation, &of(&[(0, at(4, 80, 3))], None, 2)).await.unwrap();
    store.commit(generation, &of(&[(1, at(10, 20, 9))], Some(40), 2)).await.unwrap();
    let expected = of(&[(0, at(5, 80, 4)), (1, at(10, 30, 9))], Some(50), 2);
    assert_eq!(store.progress().await.unwrap(), expected);
    store.commit(generation, &of(&[], None, 2)).await.unwrap();
    assert_eq!(store.progress().await.unwrap(), expected, "no news changes nothing");
}
