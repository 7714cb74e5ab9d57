//! What a call makes of the incident rows that are there, decided in memory and alike for every store.
//!
//! A store names the keys of a call ([`Ledger::of`]), puts in what it finds of them and beside them
//! ([`Ledger::found`]), lets the call act ([`Ledger::write`] or [`Ledger::close`]), puts in the runs that rows have
//! left ([`Ledger::left`]), and after [`Ledger::link`] writes every [`Change`].
//!
//! # What has to be found
//!
//! For each named key: its own row, the row of the window before, and the rows whose episode is the id of the window
//! after. For each row that left: the rows of its episode in later windows.
//!
//! # Invariants
//!
//! - Episodes (W-11, Q44): before and after each call every live row (`open` or `closed`) has the id of the first row
//!   of its run of adjacent windows as its episode; every other row has its own id. So the rows above are all that a
//!   call can move.
//! - A live row is `closed` when its `closed_at` is set, else `open`.
//! - `superseded_by` is the id of the window before, or nothing (W-7).

use floodmark_model::incident::{ClosedWindow, JudgedIncident, Status};
use floodmark_model::{EventTime, IncidentId, IncidentKey, Reach, Verdict, Window};
use std::collections::BTreeMap;

/// A row as far as its life goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) status: Status,
    pub(crate) superseded_by: Option<IncidentId>,
    /// What had been reached; it only grows.
    pub(crate) reach: Reach,
    pub(crate) count: u64,
    /// `closed_at` is set.
    pub(crate) is_closed: bool,
    /// `total` is set, and `count` final with it.
    pub(crate) has_total: bool,
    pub(crate) episode: IncidentId,
}

impl Standing {
    /// Whether the row counts as an incident of its window (W-7).
    fn is_live(&self) -> bool {
        is_live(self.status)
    }

    /// Makes it live, if it is not (Q41).
    fn stand(&mut self) {
        self.status = if self.is_closed { Status::Closed } else { Status::Open };
        self.superseded_by = None;
    }
}

fn is_live(status: Status) -> bool {
    matches!(status, Status::Open | Status::Closed)
}

/// A row that a store has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: IncidentId,
    pub(crate) window_start: EventTime,
    pub(crate) standing: Standing,
}

/// A row that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a IncidentKey,
    pub(crate) id: IncidentId,
    /// `None`: the row is new, as `opening` says.
    pub(crate) before: Option<Standing>,
    pub(crate) now: Standing,
    pub(crate) opening: Option<&'a JudgedIncident>,
    /// The facts to write.
    pub(crate) closing: Option<&'a ClosedWindow>,
}

impl Change<'_> {
    /// What the audit says of it: nothing where the status stays.
    pub(crate) fn transition(&self) -> Option<&'static str> {
        let Some(before) = self.before.map(|before| before.status) else { return Some("opened") };
        (before != self.now.status).then_some(match self.now.status {
            Status::Withdrawn => "withdrawn",
            Status::Superseded => "superseded",
            Status::Open | Status::Closed if !is_live(before) => "returned",
            Status::Open | Status::Closed => "closed",
        })
    }

    /// Why the row is withdrawn (W-9), if it is.
    pub(crate) fn reason(&self) -> Option<String> {
        let closing = self.closing.filter(|_| self.now.status == Status::Withdrawn)?;
        let total = closing.facts.total;
        Some(format!("the total is {total}, and neither the window nor a run over its start reaches the threshold"))
    }
}

struct Entry<'a> {
    id: IncidentId,
    before: Option<Standing>,
    now: Option<Standing>,
    opening: Option<&'a JudgedIncident>,
    closing: Option<&'a ClosedWindow>,
    /// The call names it: if the window before has a row, it has been found.
    is_named: bool,
}

impl Entry<'_> {
    fn new(id: IncidentId, is_named: bool) -> Self {
        Self { id, before: None, now: None, opening: None, closing: None, is_named }
    }

    fn is_live(&self) -> bool {
        self.now.is_some_and(|now| now.is_live())
    }

    fn was_live(&self) -> bool {
        self.before.is_some_and(|before| before.is_live())
    }
}

/// The rows that a call is about, and those beside them, in the order of their windows.
#[derive(Default)]
pub(crate) struct Ledger<'a> {
    entries: BTreeMap<IncidentKey, Entry<'a>>,
}

impl<'a> Ledger<'a> {
    /// The rows of these keys, none of which is found yet.
    pub(crate) fn of<'b>(keys: impl IntoIterator<Item = &'b IncidentKey>) -> Self {
        let named = |key: &IncidentKey| (key.clone(), Entry::new(key.id(), true));
        Self { entries: keys.into_iter().map(named).collect() }
    }

    /// The named keys, once each, with their ids.
    pub(crate) fn named(&self) -> Vec<(IncidentKey, IncidentId)> {
        let named = self.entries.iter().filter(|(_, entry)| entry.is_named);
        named.map(|(key, entry)| (key.clone(), entry.id)).collect()
    }

    /// Puts in a row that stands beside `key`, or for it. Found twice is found once.
    pub(crate) fn found(&mut self, key: &IncidentKey, row: Found) {
        let key = in_window(key, Window { start: row.window_start, size_ms: key.window.size_ms });
        let entry = self.entries.entry(key).or_insert_with(|| Entry::new(row.id, false));
        if entry.before.is_none() {
            entry.before = Some(row.standing);
            entry.now = Some(row.standing);
        }
    }

    /// See [`crate::IncidentStore::write_incidents`].
    pub(crate) fn write(&mut self, rows: &'a [JudgedIncident]) {
        let mut wanted: BTreeMap<&IncidentKey, Wanted<'a>> = BTreeMap::new();
        for row in rows {
            wanted.entry(&row.key).or_insert_with(|| Wanted::new(row)).add(row);
        }
        for (key, wanted) in wanted {
            let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(key.id(), true));
            wanted.apply(key, entry);
        }
    }

    /// See [`crate::IncidentStore::close_incidents`].
    pub(crate) fn close(&mut self, windows: &'a [ClosedWindow], settled: bool) {
        let in_order: BTreeMap<&IncidentKey, &ClosedWindow> =
            windows.iter().map(|window| (&window.facts.key, window)).collect();
        for (key, window) in in_order {
            let previous = previous(key);
            let is_blocked = self.entries.get(&previous).is_some_and(Entry::is_live);
            let Some(entry) = self.entries.get_mut(key) else { continue };
            let Some(now) = &mut entry.now else { continue };
            entry.closing = Some(window);
            now.is_closed |= !settled;
            now.has_total = true;
            now.count = window.facts.total;
            now.reach = now.reach.max(window.reach);
            match Verdict::new(window.reach, is_blocked) {
                Verdict::Own | Verdict::Bridge => now.stand(),
                Verdict::Below => (now.status, now.superseded_by) = (Status::Withdrawn, None),
                Verdict::Blocked => (now.status, now.superseded_by) = (Status::Superseded, Some(previous.id())),
            }
        }
    }

    /// Rows that are withdrawn, and were not.
    pub(crate) fn withdrawn(&self) -> usize {
        let is_withdrawn = |standing: Option<Standing>| standing.is_some_and(|row| row.status == Status::Withdrawn);
        self.entries.values().filter(|entry| is_withdrawn(entry.now) && !is_withdrawn(entry.before)).count()
    }

    /// Whether a row becomes live, or ceases to be.
    pub(crate) fn moves_any(&self) -> bool {
        self.entries.values().any(|entry| entry.is_live() != entry.was_live())
    }

    /// Rows that have ceased to be live, with the episode that they were in: what lies to the right of them is
    /// missing here, and has to be found before [`Self::link`].
    pub(crate) fn left(&self) -> Vec<(IncidentKey, IncidentId)> {
        let leaves = self.entries.iter().filter(|(_, entry)| entry.was_live() && !entry.is_live());
        leaves.filter_map(|(key, entry)| Some((key.clone(), entry.before?.episode))).collect()
    }

    /// Gives every row the episode that it is in now.
    pub(crate) fn link(&mut self) {
        let mut before: Option<(&IncidentKey, Option<IncidentId>)> = None;
        for (key, entry) in &mut self.entries {
            let adjacent = before.filter(|(before, _)| **before == previous(key)).map(|(_, episode)| episode);
            if let Some(now) = &mut entry.now {
                now.episode = match adjacent {
                    _ if !now.is_live() => entry.id,
                    Some(Some(episode)) => episode,
                    Some(None) => entry.id,
                    // No row is there.
                    None if entry.is_named => entry.id,
                    // Nobody has looked, since nothing moves to the left of it.
                    None => now.episode,
                };
            }
            let episode = entry.now.filter(Standing::is_live).map(|now| now.episode);
            before = Some((key, episode));
        }
    }

    /// What has to be written.
    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
        let changed = |entry: &Entry<'_>| entry.before != entry.now || entry.closing.is_some();
        let change = |(key, entry): (_, &Entry<'a>)| {
            let &Entry { id, before, now, opening, closing, .. } = entry;
            Some(Change { key, id, before, now: now?, opening, closing })
        };
        self.entries.iter().filter(|(_, entry)| changed(entry)).filter_map(change).collect()
    }
}

/// What the rows of one key in a call want.
struct Wanted<'a> {
    /// The last one's.
    verdict: Verdict,
    reach: Reach,
    count: u64,
    /// The first one that stands.
    opening: Option<&'a JudgedIncident>,
}

impl<'a> Wanted<'a> {
    fn new(row: &'a JudgedIncident) -> Self {
        Self { verdict: row.verdict, reach: row.verdict.reach(), count: row.count, opening: None }
    }

    fn add(&mut self, row: &'a JudgedIncident) {
        debug_assert!(row.verdict != Verdict::Below, "a judge tells of what it has seen");
        self.verdict = row.verdict;
        self.reach = self.reach.max(row.verdict.reach());
        self.count = self.count.max(row.count);
        self.opening = self.opening.or(row.verdict.is_incident().then_some(row));
    }

    fn apply(self, key: &IncidentKey, entry: &mut Entry<'a>) {
        match (&mut entry.now, self.verdict) {
            (None, Verdict::Own | Verdict::Bridge) => {
                entry.opening = self.opening;
                entry.now = Some(self.opened(entry.id));
            }
            (Some(now), Verdict::Own | Verdict::Bridge) => {
                now.stand();
                now.reach = now.reach.max(self.reach);
                if !now.has_total {
                    now.count = now.count.max(self.count);
                }
            }
            (Some(now), Verdict::Blocked) if now.status != Status::Withdrawn => {
                now.status = Status::Superseded;
                now.superseded_by = Some(previous(key).id());
            }
            (_, Verdict::Blocked | Verdict::Below) => {}
        }
    }

    fn opened(&self, id: IncidentId) -> Standing {
        Standing {
            status: Status::Open,
            superseded_by: None,
            reach: self.reach,
            count: self.count,
            is_closed: false,
            has_total: false,
            episode: id,
        }
    }
}

/// The same key in the window before.
pub(crate) fn previous(key: &IncidentKey) -> IncidentKey {
    in_window(key, key.window.previous())
}

/// The same key in the window after.
pub(crate) fn next(key: &IncidentKey) -> IncidentKey {
    in_window(key, key.window.next())
}

fn in_window(key: &IncidentKey, window: Window) -> IncidentKey {
    IncidentKey { window, ..key.clone() }
}

#[cfg(test)]
mod tests;
