use super::*;
use proptest::prelude::*;

const AFTER: i64 = 5_000;

/// A reader of partitions 0 (holds records) and 2 (empty) that looks, and hears of leaders, every 100 ms.
struct Reader {
    idle: Idleness,
    now: i64,
}

impl Reader {
    fn new() -> Self {
        let mut idle = Idleness::new(AFTER, 0);
        idle.add(0, false);
        idle.add(2, true);
        Self { idle, now: 0 }
    }

    fn watch(&mut self, ms: i64) {
        let until = self.now + ms;
        while self.now < until {
            self.now = until.min(self.now + 100);
            self.idle.leaders(&[true; 3], self.now);
            self.idle.seen(self.now);
        }
    }

    /// Time passes, the brokers answer, and the reader cannot look.
    fn blocked(&mut self, ms: i64) {
        self.now += ms;
        self.idle.leaders(&[true; 3], self.now);
    }

    fn is_idle(&self, partition: i32) -> bool {
        self.idle.is_idle(partition, self.now)
    }
}

#[test]
fn t4_an_empty_partition_starts_idle_and_one_with_records_does_not() {
    let reader = Reader::new();
    assert!(reader.is_idle(2));
    assert!(!reader.is_idle(0));
    assert!(!reader.is_idle(1), "of another worker");
}

#[test]
fn t4_silence_before_the_end_is_not_idleness() {
    let mut reader = Reader::new();
    reader.watch(60_000);
    assert!(!reader.is_idle(0));
}

#[test]
fn t4_idle_after_the_end_and_the_silence() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER - 1);
    assert!(!reader.is_idle(0));
    reader.watch(1);
    assert!(reader.is_idle(0));
}

#[test]
fn t4_a_record_ends_idleness_until_the_end_is_reached_again() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER);
    reader.idle.record(0);
    assert!(!reader.is_idle(0));
    reader.watch(60_000);
    assert!(!reader.is_idle(0), "the end was not reached again");
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER);
    assert!(reader.is_idle(0));
}

#[test]
fn t4_the_end_told_twice_counts_from_the_first() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER - 1_000);
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(1_000);
    assert!(reader.is_idle(0));
}

#[test]
fn t4_a_blocked_reader_has_no_idle_partitions() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER);
    reader.blocked(FRESH_MS - 1);
    assert!(reader.is_idle(0), "a short stop is what every reader has");
    reader.blocked(1);
    assert!(!reader.is_idle(0));
    assert!(!reader.is_idle(2), "the empty one neither");
}

#[test]
fn t4_time_spent_blocked_does_not_count() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER - 1_000);
    reader.blocked(60_000);
    // The first look, 100 ms later, is where watching begins anew.
    reader.watch(100 + AFTER - 1);
    assert!(!reader.is_idle(0));
    reader.watch(1);
    assert!(reader.is_idle(0));
}

#[test]
fn t4_a_reader_far_behind_has_no_idle_partitions() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER);
    // It reads all the time, but what it reads reached it ten seconds ago.
    let seen = reader.now;
    reader.blocked(10_000);
    reader.idle.seen(seen + 1);
    assert!(!reader.is_idle(0));
}

#[test]
fn t4_without_a_leader_a_partition_is_not_idle() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER);
    reader.idle.leaders(&[false, true, true], reader.now);
    assert!(!reader.is_idle(0));
    assert!(reader.is_idle(2));
    reader.idle.leaders(&[true, true], reader.now);
    assert!(!reader.is_idle(2), "not named in the answer");
}

#[test]
fn t4_an_old_answer_about_leaders_does_not_count() {
    let mut reader = Reader::new();
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER);
    for _ in 0..FRESH_MS / 100 {
        assert!(reader.is_idle(0));
        reader.now += 100;
        reader.idle.seen(reader.now);
    }
    assert!(!reader.is_idle(0));
}

#[test]
fn changes_are_told_once() {
    let mut reader = Reader::new();
    let told = |reader: &mut Reader| {
        let mut told = Vec::new();
        let now = reader.now;
        reader.idle.changes(now, |partition, is_idle| told.push((partition, is_idle)));
        told
    };
    assert_eq!(told(&mut reader), [(2, true)]);
    reader.idle.end_of_partition(0, reader.now);
    reader.watch(AFTER);
    assert_eq!(told(&mut reader), [(0, true)]);
    assert_eq!(told(&mut reader), []);
    reader.idle.record(2);
    assert_eq!(told(&mut reader), [(2, false)]);
    reader.blocked(FRESH_MS);
    assert_eq!(told(&mut reader), [(0, false)]);
}

#[derive(Clone, Debug)]
enum Step {
    Record,
    End,
    Watch(i64),
    Blocked(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Record),
        Just(Step::End),
        (1i64..8_000).prop_map(Step::Watch),
        (1i64..8_000).prop_map(Step::Blocked),
    ];
    proptest::collection::vec(step, 0..40)
}

proptest! {
    /// Idle means: at the end, and at least `AFTER` has been watched since the last record, whatever the order.
    #[test]
    fn t4_idle_only_after_watching_the_silence_at_the_end(steps in steps()) {
        let mut reader = Reader::new();
        let (mut at_end, mut watched) = (false, 0);
        for step in steps {
            match step {
                Step::Record => {
                    reader.idle.record(0);
                    (at_end, watched) = (false, 0);
                }
                Step::End => {
                    reader.idle.end_of_partition(0, reader.now);
                    at_end = true;
                }
                Step::Watch(ms) => {
                    reader.watch(ms);
                    watched += ms;
                }
                // A stop of less than FRESH_MS counts as watched: what came meanwhile is read right after it.
                Step::Blocked(ms) => {
                    reader.blocked(ms);
                    watched += ms.min(FRESH_MS);
                }
            }
            if reader.is_idle(0) {
                prop_assert!(at_end && watched >= AFTER);
            }
        }
    }
}
