//! What `offsets.rs` promises.

use crate::harness::{ScratchTopic, eventually, settings};
use floodmark_kafka::GroupOffsets;
use std::time::Duration;

#[test]
fn lag_tools_see_what_was_committed() {
    let topic = ScratchTopic::new(2);
    topic.write(0, 0..10);
    let offsets = GroupOffsets::new(&settings(), &topic.name).unwrap();
    eventually("the offsets are there", || {
        offsets.commit(&topic.name, [(0, 7)]).ok()?;
        let committed = offsets.committed(&topic.name, [0, 1], Duration::from_secs(5)).ok()?;
        (committed == [(0, Some(7)), (1, None)]).then_some(())
    });
    eventually("a later commit replaces them", || {
        offsets.commit(&topic.name, [(0, 9)]).ok()?;
        let committed = offsets.committed(&topic.name, [0], Duration::from_secs(5)).ok()?;
        (committed == [(0, Some(9))]).then_some(())
    });
}
