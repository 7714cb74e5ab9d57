//! The one judge of a key's windows: counts, finds what is due, closes (W-1, W-2, W-5, W-9, W-12, W-13).
//!
//! # Invariants
//!
//! - `own` is emitted by the call that saw the crossing occurrence (W-5), and once (W-6): a pane remembers it, and a
//!   start is told what is stored.
//! - A window is closed when the watermark has reached its end (Q50), also when it never had a pane; what arrives for
//!   it then is late (T-7), whether or not its panes are still held.
//! - The panes of a window are held until the window after it has closed (Q47), and are then dropped at once.
//! - No more than `max_panes` panes are held in windows that are open: beyond that a new key has none, its window is
//!   swept from the occurrence store when it closes (Q46), and `refused` counts its occurrences.

use crate::message::{Closing, Due, Event, EventKind, WindowKey};
use crate::state::closings::Closings;
use crate::state::panes::{PaneKey, PaneLayout, Panes};
use floodmark_model::rule::RuleIndex;
use floodmark_model::{Detection, EventTime, Rule, Window};

/// What a judge is told at its start.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// The rules, in the order of their indexes.
    pub rules: Vec<Rule>,
    /// The most panes that this judge holds in open windows.
    pub max_panes: usize,
    /// Keeps strangers from choosing fingerprints whose panes collide.
    pub seed: u64,
    /// Index of this judge's worker.
    pub worker: u32,
    /// Where the merged watermark begins (T-6): what lies before it is late from the first record on.
    pub start: Option<EventTime>,
    /// All closing up to here is stored (design, decision 6); not after `start`.
    pub closed: Option<EventTime>,
}

/// A window itself weighs as much as this many panes against `max_panes`.
const WINDOW_PANES: usize = 8;

/// What became of an occurrence. `added` is how much heavier its window has become.
enum Counted {
    /// It has no pane.
    Refused,
    /// Nothing is due.
    Below { added: usize },
    /// It has made its window's incident due.
    Reached { added: usize },
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
    closed: Option<EventTime>,
    reached: Option<EventTime>,
    live: bool,
    /// Panes of open windows, and what those windows weigh.
    held: usize,
    closings: Closings,
    counted: u64,
    late: u64,
    refused: u64,
}

struct RuleWindows {
    window_ms: i64,
    bucket_ms: i64,
    threshold: u32,
    layout: PaneLayout,
    /// Sorted by start.
    windows: Vec<HeldWindow>,
    /// Where the last occurrence's window was found: the next one is most often in the same.
    recent: usize,
}

struct HeldWindow {
    start: EventTime,
    panes: Panes,
    fired: Vec<PaneKey>,
    is_closed: bool,
    has_refused: bool,
}

impl Judge {
    /// A judge that holds nothing.
    #[must_use]
    pub fn new(settings: &JudgeSettings) -> Self {
        let rules = settings.rules.iter().map(RuleWindows::new).collect();
        Self {
            rules,
            max_panes: settings.max_panes,
            seed: settings.seed,
            worker: settings.worker,
            closed: settings.closed,
            reached: settings.start,
            live: false,
            held: 0,
            closings: Closings::default(),
            counted: 0,
            late: 0,
            refused: 0,
        }
    }

    /// Takes in one event that arrived in `epoch`, the greatest so far; sends an incident that it makes due.
    pub fn apply(&mut self, event: &Event, epoch: u64, due: &mut impl FnMut(Due)) {
        match event.kind {
            EventKind::Occurrence => self.occurrence(event, epoch, due),
            EventKind::Loaded => self.loaded(event),
            EventKind::Fired => self.fired(event),
        }
    }

    /// Has the panes of events that come next at hand; gives something of them, so that it is not optimised away.
    #[must_use]
    pub fn warm(&self, event: &Event) -> u8 {
        let rule = &self.rules[usize::from(event.rule.0)];
        rule.windows.get(rule.recent).map_or(0, |held| held.panes.warm(&event.key()))
    }

    /// An occurrence that has just been read.
    fn occurrence(&mut self, event: &Event, epoch: u64, due: &mut impl FnMut(Due)) {
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let window = Window::containing(event.ts, rule.window_ms);
        let key = WindowKey { rule: event.rule, window_start: window.start, pane: event.key() };
        let is_late = self.reached.is_some_and(|reached| window.is_closed_at(reached));
        self.counted += 1;
        if is_late {
            self.late += 1;
            self.closings.late(epoch, key);
        }
        let Some(place) = rule.find(window.start).or_else(|| (!is_late).then(|| rule.hold(window.start, self.seed)))
        else {
            return;
        };
        match rule.count(place, event, is_late || self.held < self.max_panes) {
            Counted::Refused => self.refused += 1,
            Counted::Below { added } => self.held += if is_late { 0 } else { added },
            Counted::Reached { added } => {
                self.held += if is_late { 0 } else { added };
                let detection = if is_late { Detection::Late } else { Detection::Window };
                due(Due { key, detection, count: rule.threshold, opened_at: event.ts });
                if !is_late {
                    self.closings.refresh(epoch, key);
                }
            }
        }
    }

    /// Occurrences counted before the start: judged once all of them are there.
    fn loaded(&mut self, event: &Event) {
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let start = Window::containing(event.ts, rule.window_ms).start;
        let place = rule.find(start).unwrap_or_else(|| rule.hold(start, self.seed));
        self.held += rule.load(place, event, self.held < self.max_panes);
    }

    /// An incident stored before the start. Its pane may be missing: the cut counts need not show it (decision 1).
    fn fired(&mut self, event: &Event) {
        let rule = &mut self.rules[usize::from(event.rule.0)];
        let place = rule.find(event.ts).unwrap_or_else(|| rule.hold(event.ts, self.seed));
        self.held += rule.load(place, &Event { n: 0, ..*event }, true);
        let held = &mut rule.windows[place];
        let mut pane = held.panes.get(&event.key()).expect("created above");
        if !pane.has_fired() {
            pane.set_fired();
            held.fired.push(event.key());
        }
    }

    /// The merged watermark stands at `watermark`, and every source has spoken: closes what it has passed. The first
    /// call ends the loading, and judges every pane (decision 1).
    pub fn advance(&mut self, watermark: Option<EventTime>, epoch: u64, due: &mut impl FnMut(Due)) {
        if !self.live {
            self.live = true;
            self.judge_loaded(epoch, due);
            // What was closed before the start, and may not be stored.
            if let Some(reached) = self.reached {
                self.close(reached, epoch);
            }
        }
        let Some(watermark) = watermark.filter(|watermark| self.reached.is_none_or(|reached| *watermark > reached))
        else {
            return;
        };
        let before = self.reached.replace(watermark);
        let passes_an_end = self.rules.iter().any(|rule| {
            let window = |time| Window::containing(time, rule.window_ms);
            before.is_none_or(|before| window(before) != window(watermark))
        });
        if passes_an_end {
            self.close(watermark, epoch);
        }
    }

    fn judge_loaded(&mut self, epoch: u64, due: &mut impl FnMut(Due)) {
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let threshold = rule.threshold;
            for held in &mut rule.windows {
                let key = |pane| WindowKey { rule: RuleIndex(index as u16), window_start: held.start, pane };
                let fired = &mut held.fired;
                held.panes.for_each(|mut pane| {
                    if !pane.has_fired() && pane.own(threshold) {
                        pane.set_fired();
                        fired.push(pane.key());
                        let key = key(pane.key());
                        due(Due { key, detection: Detection::Window, count: threshold, opened_at: held.start });
                    }
                });
                fired.iter().for_each(|pane| self.closings.refresh(epoch, key(*pane)));
            }
        }
    }

    fn close(&mut self, watermark: EventTime, epoch: u64) {
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let index = RuleIndex(index as u16);
            for held in rule.windows.iter_mut().filter(|held| !held.is_closed) {
                let window = Window { start: held.start, size_ms: rule.window_ms };
                if !window.is_closed_at(watermark) {
                    continue;
                }
                held.is_closed = true;
                self.held -= held.weight();
                if self.closed.is_some_and(|closed| window.is_closed_at(closed)) {
                    continue;
                }
                if held.has_refused {
                    self.closings.push(epoch, Closing::Sweep { rule: index, window_start: held.start });
                }
                for pane in std::mem::take(&mut held.fired) {
                    let key = WindowKey { rule: index, window_start: held.start, pane };
                    self.closings.push(epoch, Closing::Close(key));
                }
            }
        }
        self.closings.push(epoch, Closing::ClosedTo { worker: self.worker, time: watermark });
    }

    /// Sends the closings that waited for epochs which the occurrence store has now acknowledged, and frees the
    /// windows behind them.
    pub fn release(&mut self, is_acknowledged: impl Fn(u64) -> bool, send: &mut impl FnMut(Closing)) {
        let mut closed_to = None;
        self.closings.release(is_acknowledged, |closing| {
            if let Closing::ClosedTo { time, .. } = closing {
                closed_to = Some(time);
            }
            send(closing);
        });
        if let Some(watermark) = closed_to {
            self.closed = self.closed.max(Some(watermark));
            self.rules.iter_mut().for_each(|rule| rule.free(watermark));
        }
    }

    /// The first instant whose window may still be held: what the retry filter must remember (I-2).
    #[must_use]
    pub fn held_since(&self) -> Option<EventTime> {
        let starts = self.rules.iter().map(|rule| {
            let closed = self.closed?;
            Some(Window::containing(closed, rule.window_ms).previous().start)
        });
        starts.min().flatten()
    }

    /// Whether closings wait for an acknowledgement.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.closings.is_empty()
    }

    /// Counts and sizes.
    #[must_use]
    pub fn figures(&self) -> JudgeFigures {
        let mut figures =
            JudgeFigures { counted: self.counted, late: self.late, refused: self.refused, ..JudgeFigures::default() };
        for held in self.rules.iter().flat_map(|rule| &rule.windows) {
            let panes = if held.is_closed { &mut figures.retained_panes } else { &mut figures.open_panes };
            *panes += held.panes.len();
            figures.bytes += held.panes.bytes();
        }
        figures
    }
}

impl HeldWindow {
    /// What it weighs against `max_panes`: nothing while it is empty, so that the first pane pays for the window.
    fn weight(&self) -> usize {
        if self.panes.is_empty() { 0 } else { self.panes.len() + WINDOW_PANES }
    }
}

impl RuleWindows {
    fn new(rule: &Rule) -> Self {
        Self {
            window_ms: rule.window_ms,
            bucket_ms: rule.bucket_ms(),
            threshold: rule.threshold,
            layout: PaneLayout::new(rule.buckets, rule.threshold),
            windows: Vec::new(),
            recent: 0,
        }
    }

    /// Where the window that starts here is held, if it is.
    fn find(&mut self, start: EventTime) -> Option<usize> {
        if self.windows.get(self.recent).is_none_or(|held| held.start != start) {
            self.recent = self.windows.binary_search_by_key(&start, |held| held.start).ok()?;
        }
        Some(self.recent)
    }

    /// Holds a window that is not held yet; gives its place.
    fn hold(&mut self, start: EventTime, seed: u64) -> usize {
        self.recent = self.windows.partition_point(|held| held.start < start);
        let panes = Panes::new(self.layout, seed);
        let held = HeldWindow { start, panes, fired: Vec::new(), is_closed: false, has_refused: false };
        self.windows.insert(self.recent, held);
        self.recent
    }

    /// Counts an occurrence, and judges its window.
    fn count(&mut self, place: usize, event: &Event, may_create: bool) -> Counted {
        let held = &mut self.windows[place];
        let before = held.weight();
        let bucket = (event.ts.0 - held.start.0) / self.bucket_ms;
        let Some(mut pane) = held.panes.entry(&event.key(), may_create) else {
            held.has_refused = true;
            return Counted::Refused;
        };
        pane.add(bucket as usize, event.n);
        let is_due = !pane.has_fired() && pane.own(self.threshold);
        if is_due {
            pane.set_fired();
            held.fired.push(event.key());
        }
        let added = held.weight() - before;
        if is_due { Counted::Reached { added } } else { Counted::Below { added } }
    }

    /// Adds what was counted before the start; gives what its pane adds to the weight of what is held.
    fn load(&mut self, place: usize, event: &Event, may_create: bool) -> usize {
        let held = &mut self.windows[place];
        let before = held.weight();
        let bucket = (event.ts.0 - held.start.0) / self.bucket_ms;
        match held.panes.entry(&event.key(), may_create) {
            Some(mut pane) => pane.add(bucket as usize, event.n),
            None => held.has_refused = true,
        }
        held.weight() - before
    }

    /// Drops the windows whose next window is closed at `watermark`.
    fn free(&mut self, watermark: EventTime) {
        let window_ms = self.window_ms;
        self.windows.retain(|held| {
            !(held.is_closed && Window { start: held.start, size_ms: window_ms }.next().is_closed_at(watermark))
        });
        self.recent = 0;
    }
}

#[cfg(test)]
mod tests;
