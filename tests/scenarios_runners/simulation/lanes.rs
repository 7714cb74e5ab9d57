//! The lanes of `src/pipeline/lanes.rs`, one step at a time: so slow, and so much out of step with one another, as a run
//! wants. Rows overtake one another; incidents and closings do not; a closing waits for its mark.

use super::draw::Call;
use super::random::Random;
use crate::scenarios_runners::stored::{Process, Stored};
use floodmark::pipeline::budget::Admitted;
use floodmark::pipeline::commit::ToCommit;
use floodmark_dataflow::message::{Answer, Closing, Due, EventKind, JudgedRow, Question, WindowKey};
use floodmark_model::incident::ClosedWindow;
use floodmark_model::{Rule, Verdict};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A delivery of a dataflow.
pub(super) struct Sent<T, A> {
    pub(super) items: Vec<T>,
    pub(super) acknowledge: A,
}

/// What is under way between one process and the stores.
pub(super) struct Lanes<A, R> {
    pub(super) rows: Vec<Sent<Admitted, A>>,
    pub(super) due: VecDeque<Sent<Due, A>>,
    pub(super) closings: VecDeque<Sent<Closing, A>>,
    pub(super) questions: VecDeque<(Question, R)>,
    answers: VecDeque<(Answer, R)>,
    totals: Option<Totals>,
    /// The last mark of each worker that is stored.
    marks: BTreeMap<u32, u64>,
    /// Not where panes are short: what has none is judged a window at a time (Q46).
    verdicts: Option<Verdicts>,
    /// How many of what is due have been seen by them: a call that is repeated is one write.
    seen: usize,
}

/// What was read for closings, and is not written yet.
struct Totals {
    /// How many deliveries it is for.
    deliveries: usize,
    windows: Vec<ClosedWindow>,
    closed: Vec<ToCommit>,
}

impl<A, R> Lanes<A, R> {
    /// Nothing is under way.
    pub(super) fn new(process: &Process, rules: &[Rule], panes_are_short: bool) -> Self {
        Self {
            rows: Vec::new(),
            due: VecDeque::new(),
            closings: VecDeque::new(),
            questions: VecDeque::new(),
            answers: VecDeque::new(),
            totals: None,
            marks: BTreeMap::new(),
            verdicts: (!panes_are_short).then(|| Verdicts::new(process, rules)),
            seen: 0,
        }
    }

    /// Whether the stores have all that came.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.due.is_empty()
            && self.closings.is_empty()
            && self.questions.is_empty()
            && self.answers.is_empty()
    }

    /// Inserts one delivery.
    pub(super) fn insert_rows(&mut self, stored: &mut Stored, delivery: usize, call: Call) -> Option<A> {
        if self.rows.is_empty() {
            return None;
        }
        let place = delivery % self.rows.len();
        stored.insert(&self.rows[place].items);
        (call == Call::Succeeds).then(|| self.rows.remove(place).acknowledge)
    }

    /// Writes the first deliveries together, in order.
    pub(super) fn write_incidents(
        &mut self,
        stored: &Stored,
        process: &Process,
        deliveries: usize,
        call: Call,
    ) -> Result<Vec<A>, String> {
        let deliveries = deliveries.min(self.due.len());
        let items: Vec<Due> = self.due.iter().take(deliveries).flat_map(|sent| sent.items.clone()).collect();
        if let Some(verdicts) = &mut self.verdicts {
            verdicts.check(items.get(self.seen..).unwrap_or_default())?;
        }
        self.seen = self.seen.max(items.len());
        stored.write(process, &items);
        if call == Call::SeemsToFail {
            return Ok(Vec::new());
        }
        self.seen -= items.len();
        for item in items {
            if let Due::Mark { worker, number } = item {
                self.marks.insert(worker, number);
            }
        }
        Ok(self.due.drain(..deliveries).map(|sent| sent.acknowledge).collect())
    }

    /// Reads what the first closings want, unless they wait for rows.
    pub(super) fn read_totals(&mut self, stored: &Stored, process: &Process, closings: usize) {
        if self.totals.is_some() {
            return;
        }
        let deliveries = closings.min(self.closings.len());
        let mut keys = BTreeSet::new();
        let mut closed = Vec::new();
        for closing in self.closings.iter().take(deliveries).flat_map(|sent| &sent.items) {
            match closing {
                Closing::After { worker, number } if self.marks.get(worker) < Some(number) => return,
                // Samples are nothing that a run looks at.
                Closing::After { .. } | Closing::Refresh(_) => {}
                Closing::Close(key) => _ = keys.insert(*key),
                Closing::ClosedTo { worker, time } => closed.push(ToCommit::Closed { worker: *worker, time: *time }),
            }
        }
        if deliveries > 0 {
            let windows = stored.closed_windows(process, &keys);
            self.totals = Some(Totals { deliveries, windows, closed });
        }
    }

    /// Writes what was read.
    pub(super) fn write_totals(&mut self, stored: &Stored, process: &mut Process, call: Call) -> Vec<A> {
        let Some(totals) = &mut self.totals else { return Vec::new() };
        stored.write_closed(process, &totals.windows);
        if call == Call::SeemsToFail {
            return Vec::new();
        }
        process.is_durable(std::mem::take(&mut totals.closed));
        let deliveries = totals.deliveries;
        self.totals = None;
        self.closings.drain(..deliveries).map(|sent| sent.acknowledge).collect()
    }

    /// Looks the first question up. Its answer may be old when it arrives.
    pub(super) fn look_up(&mut self, stored: &Stored, process: &Process) {
        if let Some((question, reply)) = self.questions.pop_front() {
            self.answers.push_back((stored.answer(process, &question), reply));
        }
    }

    /// The first answer.
    pub(super) fn answer(&mut self) -> Option<(Answer, R)> {
        self.answers.pop_front()
    }

    /// The process dies: any part of the writes under way is applied. Gives inserts that arrive later.
    pub(super) fn die(self, stored: &mut Stored, process: &Process, random: &mut Random) -> Vec<Vec<Admitted>> {
        let mut late = Vec::new();
        for sent in self.rows {
            match random.below(3) {
                0 => stored.insert(&sent.items),
                1 => late.push(sent.items),
                _ => {}
            }
        }
        let mut due: Vec<Due> = self.due.into_iter().flat_map(|sent| sent.items).collect();
        if random.percent(60) {
            due.truncate(random.below(due.len() + 1));
            stored.write(process, &due);
        }
        if let Some(totals) = self.totals.filter(|_| random.percent(50)) {
            stored.write_closed(process, &totals.windows);
        }
        late
    }
}

/// What was written of each window, to see after each write that no incident stands beside one that stands for it.
struct Verdicts {
    window_ms: Vec<i64>,
    by_window: BTreeMap<WindowKey, Verdict>,
}

impl Verdicts {
    fn new(process: &Process, rules: &[Rule]) -> Self {
        let stored = process.loaded.iter().filter_map(|event| match event.kind {
            EventKind::Stored { verdict, .. } => {
                let key = WindowKey { rule: event.rule, window_start: event.ts, pane: event.key() };
                Some((key, verdict))
            }
            _ => None,
        });
        Self { window_ms: rules.iter().map(|rule| rule.window_ms).collect(), by_window: stored.collect() }
    }

    /// W-7: what one judgement changes is one write, after which W-4 holds.
    fn check(&mut self, items: &[Due]) -> Result<(), String> {
        for item in items {
            let Due::Rows(rows) = item else { continue };
            self.by_window.extend(rows.iter().map(|row| (row.key, row.verdict)));
            if let Some(row) = rows.iter().find(|row| self.stands_twice(row)) {
                return Err(format!("W-7: beside {row:?} an incident stands that is one with it"));
            }
        }
        Ok(())
    }

    fn stands_twice(&self, row: &JudgedRow) -> bool {
        let window_ms = self.window_ms[usize::from(row.key.rule.0)];
        let verdict = |windows: i64| {
            let window_start = row.key.window_start.plus(windows * window_ms);
            self.by_window.get(&WindowKey { window_start, ..row.key }).copied().unwrap_or_default()
        };
        let is_bridge_after = |windows| verdict(windows) == Verdict::Bridge && verdict(windows - 1).is_incident();
        is_bridge_after(0) || is_bridge_after(1)
    }
}
