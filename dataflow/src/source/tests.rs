use super::*;
use crate::message::{PartitionUpdate, Reading, SourceWatermark};
use floodmark_model::progress::{PartitionKey, Tallies};
use floodmark_model::{EventTime, TopicId};

fn update(next_offset: i64, greatest: i64) -> PartitionUpdate {
    PartitionUpdate {
        key: PartitionKey { topic_id: TopicId([0; 16]), partition: 0 },
        next_offset,
        greatest: Some(EventTime(greatest)),
        reading: Reading::Active,
        tallies: Tallies::default(),
    }
}

#[test]
fn a_source_says_nothing_before_it_knows_its_partitions() {
    let mut state = SourceState { partitions: Partitions::new(10), is_assigned: false, has_spoken: false };
    let progress = WorkerProgress::default();
    state.take(Batch::<()>::Loaded(Vec::new()));
    state.leave(1, &progress, 0);
    assert_eq!(state.control(0, 0, 5), None);
    state.take(Batch::<()>::Assigned(vec![(update(0, 0), Some(EventTime(7)))]));
    let control = state.control(0, 1, 5).expect("assigned");
    assert_eq!((control.to, control.clock_ms, control.watermark), (1, 5, SourceWatermark::At(EventTime(7))));
}

#[test]
fn a_cut_says_how_far_its_epoch_has_read() {
    let mut state = SourceState { partitions: Partitions::new(10), is_assigned: false, has_spoken: false };
    let progress = WorkerProgress::default();
    state.take(Batch::<()>::Assigned(vec![(update(0, 0), None)]));
    state.take(Batch::Read { events: Vec::new(), rows: Some(()), partitions: vec![update(42, 100)] });
    state.leave(3, &progress, 0);
    state.take(Batch::Read { events: Vec::new(), rows: Some(()), partitions: vec![update(50, 130)] });
    state.leave(4, &progress, 0);
    let offsets = |epoch| {
        let cuts = progress.take_durable(|durable| durable <= epoch);
        cuts.iter().map(|cut| (cut.partitions[0].1.next_offset, cut.partitions[0].1.watermark.0)).collect::<Vec<_>>()
    };
    assert_eq!(offsets(3), [(42, 90)]);
    assert_eq!(offsets(4), [(50, 120)]);
}
