//! The one judge of a key's windows: counts, finds what is due, closes (W-1 to W-5, W-7 to W-9, W-12, W-13).
//!
//! # Invariants
//!
//! - What becomes due is emitted by the call that saw the occurrence (W-5), together with what it supersedes (W-7), and
//!   once (W-6): a pane remembers its row, and a start is told what is stored. Until it has been told all, and every
//!   source has spoken, a judge only counts: what it does not know yet may stand for what it sees.
//! - A window is closed when the watermark has reached its end (Q50), also when it never had a pane; what arrives for
//!   it then is late (T-7), whether or not its panes are still held.
//! - The panes of a window are held until the window after it has closed (Q47), and are then dropped at once. A late
//!   occurrence whose window, or the one before it, memory no longer knows is judged from what the occurrence store
//!   says (W-8); meanwhile no window is dropped that the answer builds on.
//! - No more than `max_panes` panes are held in windows that are open, and no more than `max_fingerprints` of a tenant in
//!   one: beyond that a new key has none, its window is looked through in the occurrence store when it closes, and the
//!   next one as well (Q46); `refused` counts its occurrences.
//! - [`Judge::oldest_epoch`] stays open: progress passes no late occurrence whose judgement is not stored (W-8).

mod ahead;

use crate::message::{Answer, Closing, Crowd, Due, Event, EventKind, JudgedRow, KeyAnswer, Question, WindowKey};
use crate::state::closings::Closings;
use crate::state::late::{Asked, LateKey, LateKeys};
use crate::state::rule_windows::{Counted, RuleWindows};
pub use crate::state::rule_windows::{JudgedRule, JudgedVersion};
use crate::state::stretch::Stretch;
pub use ahead::AHEAD;
use floodmark_model::rule::RuleIndex;
use floodmark_model::{Detection, EventTime, Verdict, Window};
use std::collections::BTreeSet;

/// What a judge is told at its start.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// The rules, in the order of their indexes.
    pub rules: Vec<JudgedRule>,
    /// The most panes that this judge holds in open windows.
    pub max_panes: usize,
    /// The most panes of one tenant in one window of one rule (Q46).
    pub max_fingerprints: u32,
    /// Keeps strangers from choosing fingerprints whose panes collide.
    pub seed: u64,
    /// Index of this judge's worker.
    pub worker: u32,
    /// How many workers there are: a key belongs to the judge of worker `route % peers`.
    pub peers: u32,
    /// Where the merged watermark begins (T-6): what lies before it is late from the first record on.
    pub start: Option<EventTime>,
    /// All closing up to here is stored (design, decision 6); not after `start`. What is loaded begins with the window
    /// before the one that holds it.
    pub closed: Option<EventTime>,
}

/// Counts and sizes, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgeFigures {
    /// Occurrences counted, once for each rule.
    pub counted: u64,
    /// Occurrences whose window was closed (T-7).
    pub late: u64,
    /// Occurrences without a pane (Q46).
    pub refused: u64,
    /// Keys that the occurrence store has been asked for (W-8).
    pub asked: u64,
    /// Keys that wait for an answer.
    pub waiting: usize,
    /// Panes of open windows.
    pub open_panes: usize,
    /// Panes of closed windows that are still held.
    pub retained_panes: usize,
    /// Bytes of all panes.
    pub bytes: usize,
}

/// Counts the occurrences of the keys that one worker owns, and judges their windows.
pub struct Judge {
    rules: Vec<RuleWindows>,
    max_panes: usize,
    seed: u64,
    worker: u32,
    peers: u32,
    closed: Option<EventTime>,
    reached: Option<EventTime>,
    live: bool,
    /// What came late before all was loaded: whether it has a row is known only then.
    early: BTreeSet<WindowKey>,
    /// The least epoch of that.
    early_since: Option<u64>,
    /// The greatest epoch seen.
    seen: u64,
    /// Panes of open windows, and what those windows weigh.
    held: usize,
    closings: Closings,
    late_keys: LateKeys,
    marks: u64,
    counted: u64,
    late: u64,
    refused: u64,
    asked: u64,
}

impl Judge {
    /// A judge that holds nothing.
    #[must_use]
    pub fn new(settings: &JudgeSettings) -> Self {
        let rule = |(index, rule): (usize, &JudgedRule)| {
            let first = |closed| Window::containing(closed, rule.grid.window_ms).previous().start;
            let known_from = settings.closed.map_or(EventTime::MIN, first);
            RuleWindows::new(RuleIndex(index as u16), rule, known_from, settings.max_fingerprints)
        };
        Self {
            rules: settings.rules.iter().enumerate().map(rule).collect(),
            max_panes: settings.max_panes,
            seed: settings.seed,
            worker: settings.worker,
            peers: settings.peers,
            closed: settings.closed,
            reached: settings.start,
            live: false,
            early: BTreeSet::new(),
            early_since: None,
            seen: 0,
            held: 0,
            closings: Closings::default(),
            late_keys: LateKeys::default(),
            marks: 0,
            counted: 0,
            late: 0,
            refused: 0,
            asked: 0,
        }
    }

    /// Takes in one event of `epoch`; sends what it makes due.
    pub fn apply(&mut self, event: &Event, epoch: u64, due: &mut impl FnMut(Due)) {
        self.seen = self.seen.max(epoch);
        match event.kind {
            EventKind::Occurrence => self.occurrence(event, epoch, due),
            EventKind::Loaded => self.loaded(event),
            EventKind::Stored { verdict, detection } => self.stored(event, verdict, detection),
        }
    }

    /// An occurrence that has just been read.
    fn occurrence(&mut self, event: &Event, epoch: u64, due: &mut impl FnMut(Due)) {
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let window = rule.window(event.ts);
        self.counted += 1;
        if self.reached.is_some_and(|reached| window.is_closed_at(reached)) {
            self.late(event, window.start, epoch, due);
            return;
        }
        let place = rule.hold(window.start, self.seed, false);
        let may_create = self.held < self.max_panes && rule.has_room(place, event.tenant);
        match rule.count(place, event, may_create) {
            Counted::Refused => self.refused += 1,
            Counted::Counted { added, is_due, .. } => {
                self.held += added;
                if is_due && !self.live {
                    rule.note_crossing(place, event);
                } else if is_due {
                    let rows = rule.judge_from(place, &event.key(), None, event.ts);
                    self.emit(rows, epoch, due);
                }
            }
        }
    }

    /// An occurrence of a closed window (T-7): counted in memory as far as that knows the window, and judged there if it
    /// knows the one before as well. Else the occurrence store is asked; `own` is emitted at once all the same.
    fn late(&mut self, event: &Event, start: EventTime, epoch: u64, due: &mut impl FnMut(Due)) {
        self.late += 1;
        let (key, seen) = (event.key(), self.seen);
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let memory = rule.memory();
        if memory > EventTime::MIN && start <= memory {
            self.late_keys.add((event.rule, key), start, event.ts, seen, epoch);
        }
        if start < rule.known_from() {
            return;
        }
        let place = rule.hold(start, self.seed, true);
        let may_create = self.held < self.max_panes && rule.has_room(place, event.tenant);
        let Counted::Counted { is_due, has_row, .. } = rule.count(place, event, may_create) else {
            self.late_keys.add((event.rule, key), start, event.ts, seen, epoch);
            return;
        };
        let window = WindowKey { rule: event.rule, window_start: start, pane: key };
        if !self.live {
            self.early.insert(window);
            self.early_since = Some(self.early_since.map_or(epoch, |since| since.min(epoch)));
            if is_due {
                rule.note_crossing(place, event);
            }
            return;
        }
        if has_row {
            self.closings.close_late(seen, window, epoch);
        }
        if is_due && start >= memory {
            let rows = rule.judge_from(place, &key, None, event.ts);
            self.emit(rows, epoch, due);
        }
    }

    /// Sends the rows of one judgement in memory, because of an occurrence of epoch `since`.
    fn emit(&mut self, rows: Vec<JudgedRow>, since: u64, due: &mut impl FnMut(Due)) {
        self.note_emitted(&rows, since);
        if !rows.is_empty() {
            due(Due::Rows(rows));
        }
    }

    /// Notes what is to be read for rows: the total where the window is closed, samples where it is open.
    fn note_emitted(&mut self, rows: &[JudgedRow], since: u64) {
        for row in rows {
            let window = self.rules[usize::from(row.key.rule.0)].window(row.key.window_start);
            if self.reached.is_some_and(|reached| window.is_closed_at(reached)) {
                self.closings.close_late(self.seen, row.key, since);
            } else if row.verdict.is_incident() {
                self.closings.refresh(self.seen, row.key);
            }
        }
    }

    /// Occurrences counted before the start: judged once all of them are there.
    fn loaded(&mut self, event: &Event) {
        let place = self.hold_loaded(event);
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let may_create = self.held < self.max_panes && rule.has_room(place, event.tenant);
        let added = rule.load(place, event, may_create);
        if !rule.windows[place].is_closed {
            self.held += added;
        }
    }

    /// A row stored before the start.
    fn stored(&mut self, event: &Event, verdict: Verdict, detection: Detection) {
        if event.ts < self.rules[usize::from(event.rule.0)].known_from() {
            // Another rule has longer windows.
            return;
        }
        let place = self.hold_loaded(event);
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let added = rule.load_row(place, &event.key(), verdict, detection);
        if !rule.windows[place].is_closed {
            self.held += added;
        }
    }

    /// Where the window of something loaded is held.
    fn hold_loaded(&mut self, event: &Event) -> usize {
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let window = rule.window(event.ts);
        rule.hold(window.start, self.seed, self.reached.is_some_and(|reached| window.is_closed_at(reached)))
    }

    /// The merged watermark stands at `watermark`, and every source has spoken: closes what it has passed. The first
    /// call ends the loading, and judges every pane (decision 1).
    pub fn advance(&mut self, watermark: Option<EventTime>, epoch: u64, due: &mut impl FnMut(Due)) {
        self.seen = self.seen.max(epoch);
        if !self.live {
            self.live = true;
            let since = self.early_since.take().unwrap_or(self.seen);
            self.judge_loaded(since, due);
            for window in std::mem::take(&mut self.early) {
                if self.rules[usize::from(window.rule.0)].has_row(&window) {
                    self.closings.close_late(self.seen, window, since);
                }
            }
            // What was closed before the start, and may not be stored.
            if let Some(reached) = self.reached {
                self.close(reached, true);
            }
        }
        let Some(watermark) = watermark.filter(|watermark| self.reached.is_none_or(|reached| *watermark > reached))
        else {
            return;
        };
        let before = self.reached.replace(watermark);
        let passes_an_end =
            self.rules.iter().any(|rule| before.is_none_or(|before| rule.window(before) != rule.window(watermark)));
        if passes_an_end {
            self.close(watermark, false);
        }
    }

    fn judge_loaded(&mut self, since: u64, due: &mut impl FnMut(Due)) {
        let mut loaded = Vec::new();
        self.rules.iter_mut().for_each(|rule| rule.judge_loaded(|rows| loaded.push(rows)));
        loaded.into_iter().for_each(|rows| self.emit(rows, since, due));
        for (index, rule) in self.rules.iter().enumerate() {
            for held in &rule.windows {
                let key = |pane| WindowKey { rule: RuleIndex(index as u16), window_start: held.start, pane };
                held.rows.iter().for_each(|pane| self.closings.refresh(self.seen, key(*pane)));
            }
        }
    }

    /// Closes the windows that the watermark has passed; at the start also those that it had passed before.
    fn close(&mut self, watermark: EventTime, is_start: bool) {
        let seen = self.seen;
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let index = RuleIndex(index as u16);
            for place in 0..rule.windows.len() {
                let follows_refused = rule.follows_refused(place);
                let window = rule.window(rule.windows[place].start);
                let held = &mut rule.windows[place];
                if (held.is_closed && !is_start) || !window.is_closed_at(watermark) {
                    continue;
                }
                if !std::mem::replace(&mut held.is_closed, true) {
                    self.held -= held.weight();
                }
                let rows = std::mem::take(&mut held.rows);
                if self.closed.is_some_and(|closed| window.is_closed_at(closed)) {
                    continue;
                }
                if held.has_refused || follows_refused {
                    self.closings.sweep(seen, (index, held.start));
                }
                for pane in rows {
                    self.closings.close(seen, WindowKey { rule: index, window_start: held.start, pane });
                }
            }
        }
        self.closings.closed_to(seen, watermark);
    }

    /// The next question to the occurrence store, where there is one and the store has acknowledged what it needs.
    pub fn ask(&mut self, is_acknowledged: impl Fn(u64) -> bool) -> Option<Question> {
        let rules = &self.rules;
        let memory = |rule: RuleIndex| {
            let rule = &rules[usize::from(rule.0)];
            (rule.grid(), rule.memory())
        };
        let question = self.late_keys.ask(is_acknowledged, memory);
        if let Some(Question::Keys(keys)) = &question {
            self.asked += keys.len() as u64;
        }
        question
    }

    /// What the occurrence store says; sends what that makes due.
    pub fn answer(&mut self, answer: Answer, due: &mut impl FnMut(Due)) {
        match answer {
            Answer::Window(keys) => {
                let (worker, peers) = (u64::from(self.worker), u64::from(self.peers));
                self.late_keys.candidates(keys.into_iter().filter(|key| key.route() % peers == worker));
            }
            Answer::Keys(answers) => {
                for ((key, asked), counts) in self.late_keys.take_asked().into_iter().zip(answers) {
                    self.judge_late(key, &asked, counts, due);
                }
            }
        }
        if let Some(closed) = self.closed {
            self.free(closed);
        }
    }

    fn judge_late(&mut self, key: LateKey, asked: &Asked, counts: KeyAnswer, due: &mut impl FnMut(Due)) {
        let (index, pane) = key;
        let rule = &mut self.rules[usize::from(index.0)];
        let stretch = Stretch {
            grid: rule.grid(),
            late: &asked.windows,
            spans: &asked.spans,
            counts: counts.into_iter().collect(),
            memory: asked.memory,
        };
        let Some(judged) = stretch.judge(|start| rule.terms(start, pane.tenant)) else {
            self.late_keys.widen(key);
            return;
        };
        let mut rows = Vec::with_capacity(judged.windows.len());
        for window in &judged.windows {
            rule.note(window, &pane);
            let key = WindowKey { rule: index, window_start: window.start, pane };
            let (verdict, count) = (window.verdict, window.count);
            rows.push(JudgedRow { key, verdict, detection: Detection::Late, count, opened_at: asked.ts });
            self.closings.close_answered(self.seen, key, asked.since);
        }
        if let Some(before) = judged.before_memory
            && let Some(place) = rule.find(asked.memory)
        {
            let in_memory = rule.judge_from(place, &pane, Some(before), asked.ts);
            self.note_emitted(&in_memory, asked.since);
            rows.extend(in_memory);
        }
        if !rows.is_empty() {
            // One write, whatever of it lies where.
            due(Due::Rows(rows));
        }
        self.late_keys.settle(key);
    }

    /// Sends the closings that waited for epochs which the occurrence store has now acknowledged, behind a mark in what
    /// is due, and frees the windows behind them.
    pub fn release(
        &mut self,
        is_acknowledged: impl Fn(u64) -> bool,
        due: &mut impl FnMut(Due),
        send: &mut impl FnMut(Closing),
    ) {
        let (worker, late_keys, marks) = (self.worker, &self.late_keys, &mut self.marks);
        let mut is_marked = false;
        let mut mark = |send: &mut dyn FnMut(Closing)| {
            if !std::mem::replace(&mut is_marked, true) {
                *marks += 1;
                due(Due::Mark { worker, number: *marks });
                send(Closing::After { worker, number: *marks });
            }
        };
        let closed_to = self.closings.release(
            &is_acknowledged,
            |window| late_keys.is_done(window),
            |closing| {
                if !matches!(closing, Closing::Refresh(_)) {
                    mark(send);
                }
                send(closing);
            },
        );
        if let Some(time) = closed_to {
            mark(send);
            send(Closing::ClosedTo { worker, time });
            self.closed = self.closed.max(Some(time));
            self.free(time);
        }
        for window in self.closings.take_sweeps(&is_acknowledged) {
            self.late_keys.add_window(window, self.seen, self.seen);
        }
    }

    fn free(&mut self, closed: EventTime) {
        for (index, rule) in self.rules.iter_mut().enumerate() {
            rule.free(closed, self.late_keys.pinned(RuleIndex(index as u16)));
        }
    }

    /// Says what is new of the tenants' panes (Q46).
    pub fn tell(&mut self, mut tell: impl FnMut(Crowd)) {
        self.rules.iter_mut().for_each(|rule| rule.tell(&mut tell));
    }

    /// The first instant whose window may still be held: what the retry filter must remember (I-2).
    #[must_use]
    pub fn held_since(&self) -> Option<EventTime> {
        let closed = self.closed?;
        self.rules.iter().map(|rule| rule.window(closed).previous().start.min(rule.known_from())).min()
    }

    /// The least epoch that must stay open: what was read in it is not judged, or its totals not read.
    #[must_use]
    pub fn oldest_epoch(&self) -> Option<u64> {
        [self.late_keys.oldest_epoch(), self.closings.oldest_epoch(), self.early_since].into_iter().flatten().min()
    }

    /// Whether closings wait for the occurrence store.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.closings.is_empty()
    }

    /// Counts and sizes.
    #[must_use]
    pub fn figures(&self) -> JudgeFigures {
        let mut figures = JudgeFigures {
            counted: self.counted,
            late: self.late,
            refused: self.refused,
            asked: self.asked,
            waiting: self.late_keys.len(),
            ..JudgeFigures::default()
        };
        for held in self.rules.iter().flat_map(|rule| &rule.windows) {
            let panes = if held.is_closed { &mut figures.retained_panes } else { &mut figures.open_panes };
            *panes += held.panes.len();
            figures.bytes += held.panes.bytes();
        }
        figures
    }
}

#[cfg(test)]
mod any_order;
#[cfg(test)]
mod tests;
