//! The keys whose windows memory does not know: late ones (W-8), and those that had no pane (Q46). They wait until the
//! occurrence store has acknowledged all that the judge had seen, are asked for together, and are judged from the answer.
//!
//! # Invariants
//!
//! - A key is asked for once at a time; what comes late meanwhile waits for the next question.
//! - An epoch stays open until every late occurrence of it is judged ([`LateKeys::oldest_epoch`]): progress never passes
//!   one that is not.
//! - No more than [`KEYS_MAX`] keys wait, with [`WAITING_MAX`] windows in all. Beyond that whole windows wait instead, which
//!   are looked through key by key.

use crate::message::{KeyQuestion, PaneKey, Question};
use crate::state::stretch::{Grid, spans};
use floodmark_model::EventTime;
use floodmark_model::rule::RuleIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Keys that wait, at most.
pub const KEYS_MAX: usize = 65_536;
/// Spans of one question about keys.
pub const SPANS_MAX: usize = 10_000;
/// Windows that wait for all keys together, at most.
pub const WAITING_MAX: usize = 262_144;
/// Late windows of one key in one question.
const WINDOWS_MAX: usize = 64;
/// Windows to both sides of a late one that are asked for at first, and by how much more when they do not suffice.
const MARGIN: i64 = 2;
const WIDER: i64 = 4;

/// A key under one rule.
pub type LateKey = (RuleIndex, PaneKey);
/// A window of one rule.
pub type LateWindow = (RuleIndex, EventTime);

/// What waits to be asked for one key.
#[derive(Clone, Debug)]
struct Waiting {
    windows: BTreeSet<EventTime>,
    /// Event time of the latest occurrence.
    ts: EventTime,
    /// The greatest epoch that the judge had seen: the store must have acknowledged it.
    seen: u64,
    /// The least epoch of its occurrences.
    since: u64,
    margin: i64,
    /// What came in later epochs waits for the question after: a key that is late all the time is asked for all the same.
    next: Option<Box<Waiting>>,
}

impl Waiting {
    fn new(ts: EventTime, seen: u64, since: u64) -> Self {
        Self { windows: BTreeSet::new(), ts, seen, since, margin: MARGIN, next: None }
    }

    /// Takes in a late occurrence.
    fn add(&mut self, window: EventTime, ts: EventTime, seen: u64, since: u64) {
        if seen > self.seen {
            let next = self.next.get_or_insert_with(|| Box::new(Self::new(ts, seen, since)));
            return next.put(window, ts, seen, since);
        }
        self.put(window, ts, seen, since);
    }

    fn put(&mut self, window: EventTime, ts: EventTime, seen: u64, since: u64) {
        self.windows.insert(window);
        self.ts = self.ts.max(ts);
        self.seen = self.seen.max(seen);
        self.since = self.since.min(since);
    }

    /// Windows that wait here.
    fn len(&self) -> usize {
        self.windows.len() + self.next.as_ref().map_or(0, |next| next.len())
    }

    /// Both in one, which waits for the later of them.
    fn merged(mut self) -> Self {
        if let Some(next) = self.next.take() {
            self.windows.extend(next.windows);
            self.ts = self.ts.max(next.ts);
            self.seen = self.seen.max(next.seen);
            self.since = self.since.min(next.since);
        }
        self
    }
}

/// What was asked for one key.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The windows of its late occurrences.
    pub windows: BTreeSet<EventTime>,
    /// Event time of the latest occurrence.
    pub ts: EventTime,
    /// The spans that the answer covers.
    pub spans: Vec<(EventTime, EventTime)>,
    /// The first window that memory knows; it is kept there until the answer comes.
    pub memory: EventTime,
    /// The least epoch of its occurrences.
    pub since: u64,
    seen: u64,
    margin: i64,
}

/// A window that waits to be looked through.
#[derive(Clone, Copy, Debug)]
struct WaitingWindow {
    seen: u64,
    since: u64,
    /// Seen, and since, of what came in later epochs.
    next: Option<(u64, u64)>,
}

/// A window that is being looked through.
struct Sweep {
    window: LateWindow,
    since: u64,
    /// Whether the store has said which keys it holds.
    is_answered: bool,
    /// Keys that do not wait yet.
    rest: Vec<PaneKey>,
    /// Keys that wait or are asked for.
    open: BTreeSet<PaneKey>,
}

/// The keys that wait, and those that are asked for.
pub struct LateKeys {
    waiting: BTreeMap<LateKey, Waiting>,
    asked: BTreeMap<LateKey, Asked>,
    /// The keys of the question that is under way, in its order.
    question: Vec<LateKey>,
    windows: BTreeMap<LateWindow, WaitingWindow>,
    sweep: Option<Sweep>,
    /// Windows that wait for keys.
    held: usize,
    /// No greater than any epoch that something waits for: until it is acknowledged, nothing need be looked through.
    waits_for: u64,
    /// No greater than the epoch of any late occurrence that is not judged.
    oldest: Option<u64>,
}

impl Default for LateKeys {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            asked: BTreeMap::new(),
            question: Vec::new(),
            windows: BTreeMap::new(),
            sweep: None,
            held: 0,
            waits_for: u64::MAX,
            oldest: None,
        }
    }
}

impl LateKeys {
    /// An occurrence of epoch `since` is late for `key` in the window that starts at `window`. `seen` is the greatest
    /// epoch so far.
    pub fn add(&mut self, key: LateKey, window: EventTime, ts: EventTime, seen: u64, since: u64) {
        self.note(seen, since);
        let has_room = self.waiting.len() < KEYS_MAX || self.waiting.contains_key(&key);
        if !has_room || self.held >= WAITING_MAX {
            return self.add_window((key.0, window), seen, since);
        }
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting::new(ts, seen, since));
        self.held -= waiting.len();
        waiting.add(window, ts, seen, since);
        self.held += waiting.len();
    }

    /// A whole window is to be looked through.
    pub fn add_window(&mut self, window: LateWindow, seen: u64, since: u64) {
        self.note(seen, since);
        let waiting = self.windows.entry(window).or_insert(WaitingWindow { seen, since, next: None });
        if seen > waiting.seen {
            waiting.next = Some((seen, waiting.next.map_or(since, |(_, known)| known.min(since))));
        } else {
            waiting.since = waiting.since.min(since);
        }
    }

    /// Whether a window neither waits nor is being looked through.
    #[must_use]
    pub fn is_done(&self, window: LateWindow) -> bool {
        !self.windows.contains_key(&window) && self.sweep.as_ref().is_none_or(|sweep| sweep.window != window)
    }

    /// Whether anything waits or is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty() && self.windows.is_empty() && self.sweep.is_none()
    }

    /// Keys that wait or are asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.asked.len()
    }

    /// No greater than the least epoch with a late occurrence that is not judged, and that epoch after each answer.
    #[must_use]
    pub fn oldest_epoch(&self) -> Option<u64> {
        self.oldest
    }

    fn note(&mut self, seen: u64, since: u64) {
        self.waits_for = self.waits_for.min(seen);
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
    }

    /// Looks through all that waits: with each question and each answer, not with each activation.
    fn look_through(&mut self) {
        self.held = self.waiting.values().map(Waiting::len).sum();
        let keys = self.waiting.values().map(|waiting| waiting.seen);
        self.waits_for = keys.chain(self.windows.values().map(|window| window.seen)).min().unwrap_or(u64::MAX);
        let waiting = self.waiting.values().map(|waiting| waiting.since);
        let asked = self.asked.values().map(|asked| asked.since);
        let windows = self.windows.values().map(|window| window.since);
        self.oldest = waiting.chain(asked).chain(windows).chain(self.sweep.as_ref().map(|sweep| sweep.since)).min();
    }

    /// The first window of a rule that an answer under way takes for known: it must stay in memory.
    #[must_use]
    pub fn pinned(&self, rule: RuleIndex) -> Option<EventTime> {
        self.asked.iter().filter(|((asked, _), _)| *asked == rule).map(|(_, asked)| asked.memory).min()
    }

    /// The next question, where one may be asked: one at a time about keys, and one about a window. `memory` says how a
    /// rule cuts time, and which is the first window that memory knows.
    pub fn ask(
        &mut self,
        is_acknowledged: impl Fn(u64) -> bool,
        memory: impl Fn(RuleIndex) -> (Grid, EventTime),
    ) -> Option<Question> {
        self.take_from_sweep();
        if !is_acknowledged(self.waits_for) {
            return None;
        }
        if self.asked.is_empty()
            && let Some(question) = self.ask_for_keys(&is_acknowledged, memory)
        {
            self.look_through();
            return Some(Question::Keys(question));
        }
        if self.sweep.is_some() {
            return None;
        }
        let next = self.windows.iter().find(|(_, waiting)| is_acknowledged(waiting.seen));
        let (window, WaitingWindow { since, next, .. }) = next.map(|(window, waiting)| (*window, *waiting))?;
        self.windows.remove(&window);
        if let Some((seen, since)) = next {
            self.windows.insert(window, WaitingWindow { seen, since, next: None });
        }
        self.sweep = Some(Sweep { window, since, is_answered: false, rest: Vec::new(), open: BTreeSet::new() });
        self.look_through();
        Some(Question::Window { rule: window.0, window_start: window.1 })
    }

    fn ask_for_keys(
        &mut self,
        is_acknowledged: &impl Fn(u64) -> bool,
        memory: impl Fn(RuleIndex) -> (Grid, EventTime),
    ) -> Option<Vec<KeyQuestion>> {
        let mut questions = Vec::new();
        let mut spans_left = SPANS_MAX;
        let ready: Vec<LateKey> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| is_acknowledged(waiting.seen))
            .map(|(key, _)| *key)
            .take(SPANS_MAX)
            .collect();
        for key in ready {
            let mut waiting = self.waiting.remove(&key).expect("it was just found");
            let rest = waiting.windows.iter().nth(WINDOWS_MAX.min(spans_left)).copied();
            if let Some(rest) = rest {
                let windows = waiting.windows.split_off(&rest);
                let next = waiting.next.take();
                self.waiting.insert(key, Waiting { windows, next, ..waiting.clone() });
            } else if let Some(next) = waiting.next.take() {
                self.waiting.insert(key, *next);
            }
            let Waiting { windows, ts, since, seen, margin, .. } = waiting;
            let (grid, memory) = memory(key.0);
            let spans = spans(&windows, grid, memory, margin);
            spans_left -= spans.len().min(spans_left);
            questions.push(KeyQuestion { rule: key.0, pane: key.1, spans: spans.clone() });
            self.asked.insert(key, Asked { windows, ts, spans, memory, since, seen, margin });
            self.question.push(key);
            if spans_left == 0 {
                break;
            }
        }
        (!questions.is_empty()).then_some(questions)
    }

    /// Takes the keys of the question that has been answered, in its order. Each is still held until
    /// [`LateKeys::settle`] or [`LateKeys::widen`] is called for it.
    pub fn take_asked(&mut self) -> Vec<(LateKey, Asked)> {
        std::mem::take(&mut self.question)
            .into_iter()
            .filter_map(|key| self.asked.get(&key).map(|asked| (key, asked.clone())))
            .collect()
    }

    /// The key has been judged.
    pub fn settle(&mut self, key: LateKey) {
        self.asked.remove(&key);
        if let Some(sweep) = &mut self.sweep
            && sweep.window.0 == key.0
            && !self.waiting.contains_key(&key)
        {
            sweep.open.remove(&key.1);
        }
        self.end_sweep();
        if self.asked.is_empty() {
            self.look_through();
        }
    }

    /// The answer did not suffice: the key is to be asked for again, over more windows.
    pub fn widen(&mut self, key: LateKey) {
        let Some(asked) = self.asked.remove(&key) else { return };
        let Asked { windows, ts, since, seen, margin, .. } = asked;
        let margin = margin * WIDER;
        let next = self.waiting.remove(&key).map(|waiting| Box::new(waiting.merged()));
        self.waiting.insert(key, Waiting { windows, ts, seen, since, margin, next });
        self.note(seen, since);
        if self.asked.is_empty() {
            self.look_through();
        }
    }

    /// The store has said which keys of the window may have an incident; these are the judge's own.
    pub fn candidates(&mut self, keys: impl IntoIterator<Item = PaneKey>) {
        let Some(sweep) = &mut self.sweep else { return };
        sweep.is_answered = true;
        sweep.rest.extend(keys);
        self.take_from_sweep();
        self.end_sweep();
        self.look_through();
    }

    fn take_from_sweep(&mut self) {
        let Some(sweep) = &mut self.sweep else { return };
        let (rule, start) = sweep.window;
        while self.waiting.len() < KEYS_MAX
            && let Some(pane) = sweep.rest.pop()
        {
            sweep.open.insert(pane);
            // The window's rows are acknowledged already.
            let since = sweep.since;
            let waiting = self.waiting.entry((rule, pane)).or_insert_with(|| Waiting::new(start, since, since));
            waiting.windows.insert(start);
            waiting.since = waiting.since.min(since);
            self.waits_for = self.waits_for.min(waiting.seen);
        }
    }

    fn end_sweep(&mut self) {
        self.sweep.take_if(|sweep| sweep.is_answered && sweep.rest.is_empty() && sweep.open.is_empty());
    }
}

#[cfg(test)]
mod tests;
