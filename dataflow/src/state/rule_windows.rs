//! The windows of one rule that are in memory, open or retained, and how their panes are counted and judged.

use super::pane::{PaneKey, PaneLayout, PaneMut};
use super::panes::Panes;
use super::stretch::{Before, Grid, JudgedWindow, Terms};
use crate::message::{Crowd, CrowdKey, Event, JudgedRow, TenantId, WindowKey};
use floodmark_model::rule::RuleIndex;
use floodmark_model::{Detection, EventTime, Reach, Rule, Verdict, Window, predicate};
use std::collections::BTreeMap;

/// What a judge must know of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedRule {
    /// How it cuts time.
    pub grid: Grid,
    /// Its versions, each from the first window that it judges on (Q51). The first one judges all before as well.
    pub versions: Vec<JudgedVersion>,
}

/// One version of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedVersion {
    /// Start of the first window that it judges.
    pub from: EventTime,
    /// For tenants without a threshold of their own.
    pub terms: Terms,
    /// Thresholds of tenants.
    pub tenants: BTreeMap<TenantId, u32>,
}

impl JudgedRule {
    /// The rule, with the thresholds of tenants by number: for each of its versions, oldest first. Versions without any
    /// may be left out at the end.
    #[must_use]
    pub fn new(rule: &Rule, tenants: Vec<BTreeMap<TenantId, u32>>) -> Self {
        let version = |(version, tenants): (&Rule, BTreeMap<TenantId, u32>)| JudgedVersion {
            from: version.from,
            terms: Terms { threshold: version.threshold, straddle: version.straddle },
            tenants,
        };
        let tenants = tenants.into_iter().chain(std::iter::repeat(BTreeMap::new()));
        Self {
            grid: Grid { window_ms: rule.window_ms, buckets: usize::from(rule.buckets) },
            versions: rule.versions().zip(tenants).map(version).collect(),
        }
    }

    /// The terms of the window that starts at `start`, for a tenant.
    #[must_use]
    pub fn terms(&self, start: EventTime, tenant: TenantId) -> Terms {
        self.versions[self.version(start)].terms(tenant)
    }

    fn version(&self, start: EventTime) -> usize {
        self.versions.iter().rposition(|version| version.from <= start).unwrap_or(0)
    }
}

impl From<&Rule> for JudgedRule {
    /// A rule whose tenants have no thresholds of their own.
    fn from(rule: &Rule) -> Self {
        Self::new(rule, Vec::new())
    }
}

impl JudgedVersion {
    fn terms(&self, tenant: TenantId) -> Terms {
        // Nearly always empty, and then not searched.
        let own = if self.tenants.is_empty() { None } else { self.tenants.get(&tenant) };
        Terms { threshold: own.copied().unwrap_or(self.terms.threshold), ..self.terms }
    }
}

/// A window itself weighs as much as this many panes against `max_panes`.
pub(super) const WINDOW_PANES: usize = 8;

/// What became of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// It has no pane.
    Refused,
    /// It is counted. `added` is how much heavier its window has become.
    Counted {
        added: usize,
        /// Its window, or the one after, has to be judged again.
        is_due: bool,
        /// Its window has a row.
        has_row: bool,
    },
}

/// A window in memory.
pub(super) struct HeldWindow {
    pub(super) start: EventTime,
    pub(super) panes: Panes,
    /// The panes that have a row, while it is open.
    pub(super) rows: Vec<PaneKey>,
    pub(super) is_closed: bool,
    /// Keys of it have no pane (Q46).
    pub(super) has_refused: bool,
    /// Index of the version of its start.
    version: usize,
    tenants: Tenancy,
}

/// How many panes each tenant has in a window, for [`Crowd`].
#[derive(Default)]
struct Tenancy {
    tenants: BTreeMap<TenantId, Said>,
    /// Those of whom there is news.
    news: Vec<TenantId>,
}

#[derive(Clone, Copy, Default)]
struct Said {
    panes: u32,
    /// As last said.
    said: u32,
    has_refused: bool,
    has_said_refused: bool,
    is_news: bool,
}

impl Tenancy {
    fn panes(&self, tenant: TenantId) -> u32 {
        self.tenants.get(&tenant).map_or(0, |said| said.panes)
    }

    fn note(&mut self, tenant: TenantId, note: impl FnOnce(&mut Said)) {
        let said = self.tenants.entry(tenant).or_default();
        note(said);
        let is_news = said.panes > said.said || said.has_refused != said.has_said_refused;
        if is_news && !std::mem::replace(&mut said.is_news, true) {
            self.news.push(tenant);
        }
    }
}

/// The windows of one rule.
///
/// # Invariants
///
/// - From [`RuleWindows::known_from`] on, the panes hold every occurrence that was ever counted; but for keys that were
///   refused, whose windows say so.
/// - A pane's verdict is what W-4 says of the counts in memory, given the verdict of the window before. That of the first
///   window is as it was when the one before it was still known.
/// - A pane's slack is no more than what [`predicate::missing`] says of the counts in memory, and is used up by the
///   occurrences of its own window and of the one before. Until it is, the verdict cannot change by them.
pub(super) struct RuleWindows {
    index: RuleIndex,
    rule: JudgedRule,
    layout: PaneLayout,
    /// Panes that a tenant may have in a window.
    max_fingerprints: u32,
    /// Sorted by start.
    pub(super) windows: Vec<HeldWindow>,
    /// Where the last occurrence's window was found: the next one is most often in the same.
    recent: usize,
    known_from: EventTime,
    /// Event times of what became due before all was loaded.
    crossings: BTreeMap<(EventTime, PaneKey), EventTime>,
}

impl RuleWindows {
    /// No windows yet. Memory knows all from `known_from` on, and a tenant has at most `max_fingerprints` panes in a
    /// window.
    pub(super) fn new(index: RuleIndex, rule: &JudgedRule, known_from: EventTime, max_fingerprints: u32) -> Self {
        let overrides = rule.versions.iter().flat_map(|version| version.tenants.values().copied());
        let thresholds = rule.versions.iter().map(|version| version.terms.threshold);
        let greatest = overrides.chain(thresholds).max().unwrap_or(1);
        let layout = PaneLayout::new(rule.grid.buckets, greatest);
        let (rule, windows, crossings) = (rule.clone(), Vec::new(), BTreeMap::new());
        Self { index, rule, layout, max_fingerprints, windows, recent: 0, known_from, crossings }
    }

    pub(super) fn grid(&self) -> Grid {
        self.rule.grid
    }

    /// The window that holds a time.
    pub(super) fn window(&self, time: EventTime) -> Window {
        Window::containing(time, self.rule.grid.window_ms)
    }

    /// The terms of a window for a tenant.
    pub(super) fn terms(&self, start: EventTime, tenant: TenantId) -> Terms {
        self.rule.terms(start, tenant)
    }

    /// The first window of which memory knows all occurrences.
    pub(super) fn known_from(&self) -> EventTime {
        self.known_from
    }

    /// The first window that can be judged from memory whatever the key: behind the last closed one with refused keys.
    pub(super) fn memory(&self) -> EventTime {
        let refused = self.windows.iter().rfind(|held| held.is_closed && held.has_refused);
        refused.map_or(self.known_from, |held| held.start.plus(self.rule.grid.window_ms).max(self.known_from))
    }

    /// Where the window that starts here is held, if it is.
    pub(super) fn find(&mut self, start: EventTime) -> Option<usize> {
        if self.windows.get(self.recent).is_none_or(|held| held.start != start) {
            self.recent = self.windows.binary_search_by_key(&start, |held| held.start).ok()?;
        }
        Some(self.recent)
    }

    /// Whether a pane that is held has a row.
    pub(super) fn has_row(&mut self, window: &WindowKey) -> bool {
        let place = self.find(window.window_start);
        let pane = place.and_then(|place| self.windows[place].panes.get(&window.pane));
        pane.is_some_and(|pane| pane.detection().is_some())
    }

    /// Where the next events of this rule most likely belong, and the panes of the window before it.
    pub(super) fn recent(&self) -> (Option<&Panes>, Option<&Panes>) {
        let panes = |place: usize| self.windows.get(place).map(|held| &held.panes);
        (panes(self.recent), self.recent.checked_sub(1).and_then(panes))
    }

    /// Where the window that starts here is held, from now on at the latest.
    pub(super) fn hold(&mut self, start: EventTime, seed: u64, is_closed: bool) -> usize {
        if let Some(place) = self.find(start) {
            return place;
        }
        self.recent = self.windows.partition_point(|held| held.start < start);
        let (panes, version) = (Panes::new(self.layout, seed), self.rule.version(start));
        let tenants = Tenancy::default();
        let held = HeldWindow { start, panes, rows: Vec::new(), is_closed, has_refused: false, version, tenants };
        self.windows.insert(self.recent, held);
        self.recent
    }

    /// Whether the tenant may have another pane in this window.
    pub(super) fn has_room(&self, place: usize, tenant: TenantId) -> bool {
        let held = &self.windows[place];
        // No tenant has more than there are, and there are nearly always few enough.
        held.panes.len() < self.max_fingerprints as usize || held.tenants.panes(tenant) < self.max_fingerprints
    }

    /// Says what is new of the tenants' panes.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(Crowd)) {
        for held in self.windows.iter_mut().filter(|held| !held.tenants.news.is_empty()) {
            let window_end = held.start.plus(self.rule.grid.window_ms);
            for tenant in std::mem::take(&mut held.tenants.news) {
                let Some(said) = held.tenants.tenants.get_mut(&tenant) else { continue };
                let key = CrowdKey { rule: self.index, window_start: held.start, tenant };
                let has_refused = said.has_refused && !said.has_said_refused;
                tell(Crowd { key, window_end, panes: said.panes - said.said, has_refused });
                *said = Said { said: said.panes, has_said_refused: said.has_refused, is_news: false, ..*said };
            }
        }
    }

    /// Counts an occurrence, and says whether anything may have become due.
    pub(super) fn count(&mut self, place: usize, event: &Event, may_create: bool) -> Counted {
        let window_ms = self.rule.grid.window_ms;
        let (left, rest) = self.windows.split_at_mut(place);
        let (held, right) = rest.split_first_mut().expect("the place is held");
        let bucket = ((event.ts.0 - held.start.0) / self.rule.grid.bucket_ms()) as usize;
        let (key, start, panes_before) = (event.key(), held.start, held.panes.len());
        let Some((mut pane, is_new)) = held.panes.entry(&key, may_create) else {
            held.refuse(key.tenant);
            return Counted::Refused;
        };
        if is_new {
            held.tenants.note(key.tenant, |said| said.panes += 1);
        }
        if is_new {
            let Terms { threshold, straddle } = self.rule.versions[held.version].terms(event.tenant);
            let before = left.last_mut().filter(|before| straddle && before.start.plus(window_ms) == start);
            let before = before.and_then(|before| before.panes.get(&key)).map_or(0, |before| before.count_for_next());
            pane.set_slack(threshold.saturating_sub(before));
        }
        pane.add(bucket, event.n);
        let added = if is_new { weight(panes_before + 1) - weight(panes_before) } else { 0 };
        let (verdict, has_row) = (pane.verdict(), pane.detection().is_some());
        if verdict == Verdict::Own {
            // It stands whatever comes, and so does what follows from it.
            return Counted::Counted { added, is_due: false, has_row };
        }
        let mut is_due = pane.use_slack(event.n);
        // No run that reaches into the next window begins in the first bucket.
        if bucket > 0
            && let Some(next) = right.first_mut().filter(|next| start.plus(window_ms) == next.start)
            && let Some(mut pane) = next.panes.get(&key)
        {
            is_due |= pane.use_slack(event.n) && pane.verdict().reach() == Reach::Below;
        }
        Counted::Counted { added, is_due, has_row }
    }

    /// Adds what was counted before the start; gives what its pane adds to the weight of what is held.
    pub(super) fn load(&mut self, place: usize, event: &Event, may_create: bool) -> usize {
        let bucket_ms = self.rule.grid.bucket_ms();
        let held = &mut self.windows[place];
        let before = held.weight();
        match held.panes.entry(&event.key(), may_create) {
            Some((mut pane, is_new)) => {
                if is_new {
                    pane.set_slack(self.rule.versions[held.version].terms(event.tenant).threshold);
                }
                pane.add(((event.ts.0 - held.start.0) / bucket_ms) as usize, event.n);
                pane.use_slack(event.n);
                held.tenants.note(event.tenant, |said| said.panes += u32::from(is_new));
            }
            None => held.refuse(event.tenant),
        }
        held.weight() - before
    }

    /// Notes a row that is stored. Its pane may be missing: counts that are cut at the committed offsets need not show
    /// it (decision 1). Gives what that adds to the weight.
    pub(super) fn load_row(&mut self, place: usize, key: &PaneKey, verdict: Verdict, detection: Detection) -> usize {
        let held = &mut self.windows[place];
        let before = held.weight();
        let (mut pane, is_new) = held.panes.entry(key, true).expect("it may be created");
        held.tenants.note(key.tenant, |said| said.panes += u32::from(is_new));
        pane.set_verdict(verdict);
        pane.set_detection(detection);
        held.rows.push(*key);
        held.weight() - before
    }

    /// Notes that an occurrence made its window due, which is judged once all is loaded.
    pub(super) fn note_crossing(&mut self, place: usize, event: &Event) {
        self.crossings.entry((self.windows[place].start, event.key())).or_insert(event.ts);
    }

    /// Judges every pane, from the left to the right, and gives the rows of each key that differ from what is stored.
    pub(super) fn judge_loaded(&mut self, mut emit: impl FnMut(Vec<JudgedRow>)) {
        let crossings = std::mem::take(&mut self.crossings);
        let mut rows = BTreeMap::<PaneKey, Vec<JudgedRow>>::new();
        for place in 0..self.windows.len() {
            let start = self.windows[place].start;
            let mut keys = Vec::with_capacity(self.windows[place].panes.len());
            self.windows[place].panes.for_each(|pane| keys.push(pane.key()));
            for key in keys {
                let ts = crossings.get(&(start, key)).copied().unwrap_or(start);
                if let Some((Some(row), _)) = self.judge_one(place, &key, None, ts) {
                    rows.entry(key).or_default().push(row);
                }
            }
        }
        rows.into_values().for_each(&mut emit);
    }

    /// Judges a key's window again, and those to the right until nothing changes (Q40). `before` is what the occurrence
    /// store says of the window before, where memory does not know it. Gives the rows that change, from the left.
    pub(super) fn judge_from(
        &mut self,
        mut place: usize,
        key: &PaneKey,
        mut before: Option<Before>,
        ts: EventTime,
    ) -> Vec<JudgedRow> {
        let mut rows = Vec::new();
        // The first window's counts have changed, so the next one's reach may have as well.
        let mut is_first = true;
        while let Some((row, has_changed)) = self.judge_one(place, key, before.take(), ts) {
            rows.extend(row);
            if !has_changed && !is_first {
                break;
            }
            is_first = false;
            let next = self.windows[place].start.plus(self.rule.grid.window_ms);
            place += 1;
            if self.windows.get(place).is_none_or(|held| held.start != next) {
                break;
            }
        }
        rows
    }

    /// Judges one pane; gives the row that this changes, and whether the verdict has changed. `None`: there is no pane.
    fn judge_one(
        &mut self,
        place: usize,
        key: &PaneKey,
        given: Option<Before>,
        ts: EventTime,
    ) -> Option<(Option<JudgedRow>, bool)> {
        let (index, known_from, buckets) = (self.index, self.known_from, self.rule.grid.buckets);
        let terms = self.rule.versions[self.windows[place].version].terms(key.tenant);
        let (before, held) = self.with_before(place);
        let mut pane = held.panes.get(key)?;
        let was = pane.verdict();
        let is_unknown = held.start == known_from || before.as_ref().is_some_and(|before| before.has_refused);
        let before = before.filter(|_| held.start != known_from).and_then(|before| before.panes.get(key));
        let verdict = match (given, before) {
            (Some(given), _) => judge(&mut pane, given.counts.iter().copied(), given.is_incident, terms),
            (None, Some(before)) => judge(&mut pane, before.counts(), before.verdict().is_incident(), terms),
            (None, None) => {
                // A run stays what it is while memory does not know what stands before it.
                let is_incident = is_unknown && pane.verdict() == Verdict::Blocked;
                judge(&mut pane, std::iter::repeat_n(0, buckets), is_incident, terms)
            }
        };
        if verdict == was && (pane.detection().is_some() || !verdict.is_incident()) {
            return Some((None, false));
        }
        if !verdict.is_incident() && pane.detection().is_none() {
            return Some((None, true));
        }
        let detection = pane.detection().unwrap_or(match verdict {
            _ if held.is_closed => Detection::Late,
            Verdict::Own => Detection::Window,
            _ => Detection::Bridge,
        });
        if pane.detection().is_none() {
            pane.set_detection(detection);
            held.rows.push(*key);
        }
        let key = WindowKey { rule: index, window_start: held.start, pane: *key };
        Some((Some(JudgedRow { key, verdict, detection, count: pane.count(), opened_at: ts }), true))
    }

    /// Notes what the occurrence store says of a window that is still in memory, with refused keys: what its panes count
    /// may be a part.
    pub(super) fn note(&mut self, judged: &JudgedWindow, key: &PaneKey) {
        if let Some(place) = self.find(judged.start)
            && let Some(mut pane) = self.windows[place].panes.get(key)
        {
            pane.set_verdict(judged.verdict);
            pane.set_detection(Detection::Late);
        }
    }

    /// The window before, if it is held, and the window.
    fn with_before(&mut self, place: usize) -> (Option<&mut HeldWindow>, &mut HeldWindow) {
        let window_ms = self.rule.grid.window_ms;
        let (left, rest) = self.windows.split_at_mut(place);
        let held = &mut rest[0];
        (left.last_mut().filter(|before| before.start.plus(window_ms) == held.start), held)
    }

    /// Whether the window before this one has keys without panes: bridges from there are judged at its close (Q46).
    pub(super) fn follows_refused(&mut self, place: usize) -> bool {
        self.with_before(place).0.is_some_and(|before| before.has_refused)
    }

    /// Drops the windows whose next window is closed at `closed`, but none from `pinned` on.
    pub(super) fn free(&mut self, closed: EventTime, pinned: Option<EventTime>) {
        let first = self.window(closed).previous().start;
        let first = pinned.map_or(first, |pinned| first.min(pinned));
        self.known_from = self.known_from.max(first);
        let known_from = self.known_from;
        self.windows.retain(|held| held.start >= known_from);
        self.recent = 0;
    }
}

impl HeldWindow {
    fn refuse(&mut self, tenant: TenantId) {
        self.has_refused = true;
        self.tenants.note(tenant, |said| said.has_refused = true);
    }

    /// What it weighs against `max_panes`: nothing while it is empty, so that the first pane pays for the window.
    pub(super) fn weight(&self) -> usize {
        weight(self.panes.len())
    }
}

fn weight(panes: usize) -> usize {
    if panes == 0 { 0 } else { panes + WINDOW_PANES }
}

/// W-4 for one pane, which notes the verdict and what is missing to the next. What was reached stays so: a start knows it
/// from the row, where the counts are cut.
fn judge(
    pane: &mut PaneMut<'_>,
    before: impl ExactSizeIterator<Item = u32> + Clone,
    is_incident: bool,
    Terms { threshold, straddle }: Terms,
) -> Verdict {
    let reach = Reach::of(before.clone(), pane.counts(), threshold, straddle).max(pane.verdict().reach());
    let verdict = Verdict::new(reach, is_incident);
    pane.set_slack(predicate::missing(reach, before, pane.counts(), threshold, straddle));
    pane.set_verdict(verdict);
    verdict
}
