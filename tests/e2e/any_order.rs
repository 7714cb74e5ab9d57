//! A real log, shuffled and split in three: fed live or by backfill, in any order, it gives what the oracle says (W-7).

use super::bed::Bed;
use super::real_input::{as_json, logs};
use super::records::{Numbers, Produced, error, expected};
use floodmark_model::{RecordTime, Rule};
use std::fs;

const FILES: usize = 3;
/// Later than any time of a record, so that nothing is clamped.
const RECORD_TIME: RecordTime = RecordTime(4_000_000_000_000);

/// The records of the logs, shuffled.
fn shuffled(seed: u64) -> Vec<String> {
    let mut numbers = Numbers(seed);
    let mut records: Vec<String> =
        logs().iter().flat_map(|path| as_json(path, RECORD_TIME)).map(|(_, payload)| payload).collect();
    for end in (1..records.len()).rev() {
        records.swap(end, numbers.below(end as u64 + 1) as usize);
    }
    records
}

/// What closes every window: a record of the year after.
fn after() -> String {
    error("after", 1, 1_514_764_800_000)
}

fn produced(partition: usize, payload: String) -> Produced {
    Produced { partition: partition as i32, record_time: RECORD_TIME, payload }
}

#[test]
fn a_real_log_shuffled_over_three_partitions_is_judged_as_if_it_came_in_order() {
    for seed in [1, 2] {
        let bed = Bed::new(&format!("any_order_{seed}"), FILES as i32, "");
        let records = shuffled(seed).into_iter().enumerate();
        let mut all: Vec<Produced> = records.map(|(n, payload)| produced(n % FILES, payload)).collect();
        all.extend((0..FILES).map(|partition| produced(partition, after())));
        bed.produce(&all);
        let engine = bed.start_ready(2);
        bed.assert_ends_as(&expected(&Rule::default(), &all));
        assert_eq!(engine.stop(), Some(0));
    }
}

#[test]
fn a_real_log_shuffled_into_three_files_is_judged_alike_by_backfill_in_any_order() {
    for (seed, order) in [(3, [0, 1, 2]), (3, [2, 0, 1])] {
        let bed = Bed::new(&format!("any_order_backfill_{}", order[0]), 1, "");
        let engine = bed.start_ready(2);
        bed.produce(&[produced(0, after())]);
        bed.wait_until_durable(1);
        let records = shuffled(seed);
        let length = records.len().div_ceil(FILES);
        for file in order {
            let part = &records[file * length..((file + 1) * length).min(records.len())];
            let path = bed.installation.folder().join(format!("part-{file}.ndjson"));
            fs::write(&path, part.join("\n") + "\n").unwrap();
            let done = bed.installation.output("backfill", ["--json", path.to_str().unwrap()]);
            assert_eq!(done.exit_code, Some(0), "{}", done.stderr);
        }
        let all: Vec<Produced> = records.into_iter().chain([after()]).map(|payload| produced(0, payload)).collect();
        bed.assert_stands(&expected(&Rule::default(), &all));
        assert!(bed.postgres.number("SELECT count(*) FROM incidents WHERE detection = 'late'") > 0);
        assert_eq!(engine.stop(), Some(0));
    }
}
