//! W-7 for the judge alone: whatever arrives in whatever order, however late, and however slowly the store answers, what
//! stands in the end is what the oracle says of the set.

use super::*;
use crate::message::{KeyQuestion, PaneKey, TenantId};
use floodmark_model::{Coordinates, Fingerprint, Identity, Level, Rule, TopicId};
use floodmark_oracle::{Observation, Oracle};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Three buckets of ten milliseconds.
const WINDOW: i64 = 30;

fn rule() -> Rule {
    Rule { window_ms: WINDOW, threshold: 4, buckets: 3, ..Rule::default() }
}

/// What happens to a judge.
#[derive(Clone, Debug)]
enum Step {
    /// An occurrence: fingerprint and time.
    Occur(u8, i64),
    /// The watermark stands here.
    Watermark(i64),
    /// A new epoch begins.
    Epoch,
    /// The store has all rows of the epochs before this one.
    Acknowledge,
    /// The store answers what it was asked.
    Answer,
}

/// A judge, the store that it asks, and the rows that it wants.
struct World {
    judge: Judge,
    epoch: u64,
    acknowledged: u64,
    /// Fingerprint, time and epoch.
    stored: Vec<(u8, i64, u64)>,
    question: Option<Question>,
    rows: BTreeMap<(u8, i64), Verdict>,
}

impl World {
    fn new(max_panes: usize) -> Self {
        let settings = JudgeSettings {
            rules: vec![(&rule()).into()],
            max_panes,
            max_fingerprints: 1_000,
            seed: 1,
            worker: 0,
            peers: 1,
            start: None,
            closed: None,
        };
        let mut judge = Judge::new(&settings);
        judge.advance(None, 0, &mut |due| panic!("nothing is stored: {due:?}"));
        Self { judge, epoch: 1, acknowledged: 0, stored: Vec::new(), question: None, rows: BTreeMap::new() }
    }

    fn take(&mut self, step: &Step) {
        let mut due = Vec::new();
        match *step {
            Step::Occur(fingerprint, ts) => {
                self.stored.push((fingerprint, ts, self.epoch));
                let event = Event {
                    fingerprint: Fingerprint::from_bits(fingerprint.into()),
                    ts: EventTime(ts),
                    tenant: TenantId(0),
                    n: 1,
                    rule: RuleIndex(0),
                    kind: EventKind::Occurrence,
                };
                self.judge.apply(&event, self.epoch, &mut |new| due.push(new));
            }
            Step::Watermark(time) => {
                self.judge.advance(Some(EventTime(time)), self.epoch, &mut |new| due.push(new));
            }
            Step::Epoch => self.epoch += 1,
            Step::Acknowledge => self.acknowledged = self.epoch - 1,
            Step::Answer => {
                if let Some(question) = self.question.take() {
                    let answer = self.look_up(&question);
                    self.judge.answer(answer, &mut |new| due.push(new));
                }
            }
        }
        let acknowledged = self.acknowledged;
        let is_acknowledged = move |epoch| epoch <= acknowledged;
        self.judge.release(is_acknowledged, &mut |new| due.push(new), &mut |_| ());
        if self.question.is_none() {
            self.question = self.judge.ask(is_acknowledged);
        }
        due.into_iter().for_each(|due| self.write(due));
    }

    fn write(&mut self, due: Due) {
        let Due::Rows(rows) = due else { return };
        for row in rows {
            let key = (row.key.pane.fingerprint.bits() as u8, row.key.window_start.0);
            if row.verdict.is_incident() || self.rows.contains_key(&key) {
                self.rows.insert(key, row.verdict);
            }
        }
    }

    /// The store holds all that was read, also what it has not acknowledged.
    fn look_up(&self, question: &Question) -> Answer {
        let counts = |question: &KeyQuestion| {
            let mut counts = BTreeMap::new();
            for (fingerprint, ts, _) in &self.stored {
                let is_in = |(from, until): &(EventTime, EventTime)| (from.0..until.0).contains(ts);
                if u128::from(*fingerprint) == question.pane.fingerprint.bits() && question.spans.iter().any(is_in) {
                    *counts.entry(EventTime(ts.div_euclid(10) * 10)).or_default() += 1;
                }
            }
            counts.into_iter().collect()
        };
        match question {
            Question::Keys(keys) => Answer::Keys(keys.iter().map(counts).collect()),
            Question::Window { window_start, .. } => {
                let is_near = |ts: i64| (window_start.0 - WINDOW..window_start.0 + WINDOW).contains(&ts);
                let key = |fingerprint: u8| PaneKey {
                    fingerprint: Fingerprint::from_bits(fingerprint.into()),
                    tenant: TenantId(0),
                };
                let near = (0..8).filter(|fingerprint| {
                    self.stored.iter().filter(|(stored, ts, _)| stored == fingerprint && is_near(*ts)).count() >= 4
                });
                Answer::Window(near.map(key).collect())
            }
        }
    }

    /// Everything is acknowledged, answered and closed.
    fn settle(&mut self) {
        let end = self.stored.iter().map(|(_, ts, _)| *ts).max().unwrap_or(0) + 10 * WINDOW;
        self.take(&Step::Watermark(end));
        loop {
            for step in [Step::Epoch, Step::Acknowledge, Step::Answer] {
                self.take(&step);
            }
            if self.question.is_none() && !self.judge.is_waiting() && self.judge.oldest_epoch().is_none() {
                break;
            }
        }
    }

    fn standing(&self) -> Vec<(u8, i64)> {
        self.rows.iter().filter(|(_, verdict)| verdict.is_incident()).map(|(key, _)| *key).collect()
    }

    fn demanded(&self) -> Vec<(u8, i64)> {
        let observation = |(offset, (fingerprint, ts, _)): (usize, &(u8, i64, u64))| Observation {
            ts: EventTime(*ts),
            identity: Identity::of_record(Coordinates {
                topic_id: TopicId([0; 16]),
                partition: 0,
                offset: offset as i64,
            }),
            tenant: "acme".into(),
            fingerprint: Fingerprint::from_bits((*fingerprint).into()),
            service: String::new(),
            level: Level::Error,
        };
        let outcome = Oracle::new([rule()]).judge(self.stored.iter().enumerate().map(observation));
        let incident =
            |incident: &floodmark_oracle::Incident| (incident.fingerprint.bits() as u8, incident.window_start.0);
        outcome.incidents.iter().map(incident).collect()
    }
}

fn steps(fingerprints: u8) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..fingerprints, 0..6 * WINDOW).prop_map(|(fingerprint, ts)| Step::Occur(fingerprint, ts)),
        2 => (0..6 * WINDOW).prop_map(Step::Watermark),
        1 => Just(Step::Epoch),
        2 => Just(Step::Acknowledge),
        2 => Just(Step::Answer),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn w7_what_stands_is_a_function_of_the_set(steps in steps(2)) {
        let mut world = World::new(1_000);
        steps.iter().for_each(|step| world.take(step));
        world.settle();
        prop_assert_eq!(world.standing(), world.demanded());
    }

    #[test]
    fn q46_also_when_keys_have_no_panes(steps in steps(8), max_panes in 0usize..40) {
        let mut world = World::new(max_panes);
        steps.iter().for_each(|step| world.take(step));
        world.settle();
        prop_assert_eq!(world.standing(), world.demanded());
    }
}

/// Calls `each` with every order of the first `n` items.
fn permutations<T: Clone>(items: &mut [T], n: usize, each: &mut impl FnMut(&[T])) {
    if n <= 1 {
        return each(items);
    }
    for index in 0..n {
        permutations(items, n - 1, each);
        items.swap(if n.is_multiple_of(2) { index } else { 0 }, n - 1);
    }
}

#[test]
fn w7_every_order_of_a_small_set_and_every_place_of_the_watermark() {
    // Bridges that block one another along a chain, as in scenario O27, in few occurrences.
    let mut occurrences = [29, 31, 59, 61, 89, 91, 5];
    let mut orders = 0;
    permutations(&mut occurrences, 7, &mut |occurrences| {
        for place in 0..=occurrences.len() {
            let mut world = World::new(1_000);
            for (index, ts) in occurrences.iter().enumerate() {
                if index == place {
                    [Step::Epoch, Step::Acknowledge, Step::Watermark(90)].iter().for_each(|step| world.take(step));
                }
                // Twice each: four of them reach the threshold.
                world.take(&Step::Occur(0, *ts));
                world.take(&Step::Occur(0, *ts));
            }
            world.settle();
            assert_eq!(world.standing(), world.demanded(), "{occurrences:?}, the watermark at {place}");
            orders += 1;
        }
    });
    assert_eq!(orders, 5_040 * 8);
}
