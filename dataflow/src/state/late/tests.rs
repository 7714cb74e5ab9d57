use super::*;
use crate::message::TenantId;
use floodmark_model::Fingerprint;

const GRID: Grid = Grid { window_ms: 30, buckets: 3 };

fn key(n: u128) -> LateKey {
    (RuleIndex(0), PaneKey { fingerprint: Fingerprint::from_bits(n), tenant: TenantId(0) })
}

fn memory(_: RuleIndex) -> (Grid, EventTime) {
    (GRID, EventTime(30_000_000))
}

fn add(keys: &mut LateKeys, n: u128, window: i64, epoch: u64) {
    keys.add(key(n), EventTime(window), EventTime(window), epoch, epoch);
}

/// The keys of the next question.
fn ask(keys: &mut LateKeys, acknowledged: u64) -> Vec<PaneKey> {
    match keys.ask(|epoch| epoch <= acknowledged, memory) {
        Some(Question::Keys(asked)) => asked.into_iter().map(|asked| asked.pane).collect(),
        None => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn settle(keys: &mut LateKeys) {
    keys.take_asked().into_iter().for_each(|(key, _)| keys.settle(key));
}

#[test]
fn w8_many_keys_are_one_question_and_a_key_is_asked_for_once_at_a_time() {
    let mut keys = LateKeys::default();
    (0..3).for_each(|n| add(&mut keys, n, 0, 5));
    add(&mut keys, 0, 30, 5);
    assert!(ask(&mut keys, 4).is_empty(), "epoch 5 is not acknowledged");
    assert_eq!(ask(&mut keys, 5).len(), 3);
    add(&mut keys, 0, 60, 6);
    assert!(ask(&mut keys, 9).is_empty(), "it is under way");
    settle(&mut keys);
    assert_eq!(ask(&mut keys, 9), [key(0).1]);
    settle(&mut keys);
    assert!(keys.is_empty());
}

#[test]
fn w8_an_epoch_stays_open_until_its_late_occurrences_are_judged() {
    let mut keys = LateKeys::default();
    assert_eq!(keys.oldest_epoch(), None);
    add(&mut keys, 1, 0, 5);
    ask(&mut keys, 5);
    add(&mut keys, 1, 0, 7);
    assert_eq!(keys.oldest_epoch(), Some(5));
    settle(&mut keys);
    assert_eq!(keys.oldest_epoch(), Some(7));
}

#[test]
fn a_key_that_is_late_all_the_time_is_asked_for_all_the_same() {
    let mut keys = LateKeys::default();
    (1..=10).for_each(|epoch| add(&mut keys, 1, 0, epoch));
    assert_eq!(ask(&mut keys, 1), [key(1).1], "what came in the first epoch does not wait for the tenth");
    settle(&mut keys);
    assert!(ask(&mut keys, 9).is_empty());
    assert_eq!(ask(&mut keys, 10), [key(1).1]);
    settle(&mut keys);
    assert!(keys.is_empty());
}

#[test]
fn an_answer_that_does_not_suffice_is_asked_for_wider() {
    let mut keys = LateKeys::default();
    add(&mut keys, 1, 300, 1);
    let mut widths = Vec::new();
    for _ in 0..3 {
        let Some(Question::Keys(asked)) = keys.ask(|_| true, memory) else { panic!("it waits") };
        let (from, until) = asked[0].spans[0];
        widths.push((until.0 - from.0) / 30);
        add(&mut keys, 1, 600, 2);
        keys.take_asked();
        keys.widen(key(1));
    }
    assert_eq!(widths, [5, 17, 65]);
    assert_eq!(keys.oldest_epoch(), Some(1));
}

#[test]
fn what_does_not_fit_waits_as_windows_and_is_looked_through() {
    let mut keys = LateKeys::default();
    (0..KEYS_MAX as u128 + 10).for_each(|n| add(&mut keys, n, 30 * (n as i64 % 2), 1));
    assert_eq!(keys.len(), KEYS_MAX);
    let windows = [(RuleIndex(0), EventTime(0)), (RuleIndex(0), EventTime(30))];
    assert!(windows.iter().all(|window| !keys.is_done(*window)));
    let mut looked_through = Vec::new();
    while let Some(question) = keys.ask(|_| true, memory) {
        match question {
            Question::Keys(_) => settle(&mut keys),
            Question::Window { rule, window_start } => {
                looked_through.push((rule, window_start));
                keys.candidates([key(1_000_000).1]);
                assert!(!keys.is_done((rule, window_start)), "a key of it waits");
            }
        }
    }
    assert_eq!(looked_through, windows);
    assert!(keys.is_empty() && windows.iter().all(|window| keys.is_done(*window)));
}

#[test]
fn windows_of_all_keys_are_bounded() {
    let mut keys = LateKeys::default();
    (0..WAITING_MAX as i64).for_each(|n| add(&mut keys, n as u128 % 2, 30 * n, 1));
    let beyond = |n: i64| (RuleIndex(0), EventTime(30 * (WAITING_MAX as i64 + n)));
    add(&mut keys, 1, beyond(0).1.0, 1);
    assert!(!keys.is_done(beyond(0)), "there is no room for another one");
    let Some(Question::Keys(asked)) = keys.ask(|_| true, memory) else { panic!("they wait") };
    assert_eq!(asked.len(), 2);
    assert_eq!(keys.pinned(RuleIndex(0)), Some(EventTime(30_000_000)));
    add(&mut keys, 1, beyond(1).1.0, 1);
    assert!(keys.is_done(beyond(1)), "what is asked for makes room");
}
