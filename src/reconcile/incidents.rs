//! The incidents that W-4 demands against those that stand.

use super::chains::{Chains, why};
use super::{Kind, Place, Report};
use crate::chain::Chain;
use floodmark_model::incident::{IncidentRow, Status};
use floodmark_model::predicate::Verdict;
use floodmark_model::progress::Progress;
use floodmark_model::{EventTime, Fingerprint, IncidentKey, IncidentKind, Rule, Window};
use floodmark_sinks::inspect::{InspectOccurrences, SettledCount};
use floodmark_sinks::{IncidentStore, KeySpan, OccurrenceStore, Selection, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Windows before the first that are read along: what decides a verdict lies in them, or is asked for.
const WINDOWS_BEFORE: i64 = 4;

/// The most windows before one that a verdict is looked for in.
const LOOK_BACK_WINDOWS: i64 = 4_096;

/// Windows of one rule: from `first` to `end`.
pub(super) struct Demanded<'a> {
    pub(super) rule: &'a Rule,
    /// Of a rule that is not, nobody knows up to which window it was judged: only incidents that stand are compared.
    pub(super) is_configured: bool,
    pub(super) first: Window,
    pub(super) end: EventTime,
    /// As it was before incidents and counts were read.
    pub(super) progress: &'a Progress,
}

type Key = (Arc<str>, Fingerprint);

/// The counts of one key, as far as they were read.
struct KeyCounts {
    key: Key,
    /// Start, all, covered.
    buckets: Vec<(EventTime, u64, u64)>,
}

/// What a row says, without its samples.
struct Standing {
    status: Status,
    total: Option<u64>,
    superseded_by: Option<String>,
    episode_id: String,
}

impl Standing {
    fn is_live(&self) -> bool {
        matches!(self.status, Status::Open | Status::Closed)
    }

    fn shown(&self) -> String {
        match (&self.superseded_by, self.total) {
            (Some(id), _) => format!("{}, superseded by {id}", self.status.name()),
            (None, Some(total)) => format!("{}, total {total}", self.status.name()),
            (None, None) => self.status.name().to_owned(),
        }
    }
}

/// The rows of the windows, by tenant, fingerprint and window start.
type Rows = BTreeMap<(Arc<str>, Fingerprint, EventTime), Standing>;

impl Demanded<'_> {
    /// Compares, and counts what was compared.
    pub(super) async fn compare(
        &self,
        occurrences: &(impl OccurrenceStore + InspectOccurrences),
        incidents: &impl IncidentStore,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let mut rows = self.rows(incidents).await?;
        let from = self.first.start.minus(WINDOWS_BEFORE * self.rule.window_ms);
        let (mut reading, mut undecided) = (None::<KeyCounts>, Vec::new());
        let mut take = |counts: KeyCounts, rows: &mut Rows, report: &mut Report| {
            if !self.compare_key(from, &counts, rows, report) {
                undecided.push(counts.key);
            }
        };
        let each = |count: SettledCount| {
            let key = (count.tenant, count.fingerprint);
            if let Some(done) = reading.take_if(|reading| reading.key != key) {
                take(done, &mut rows, report);
            }
            let reading = reading.get_or_insert_with(|| KeyCounts { key, buckets: Vec::new() });
            reading.buckets.push((count.bucket_start, count.count, count.covered));
        };
        occurrences.settled_counts(self.rule, from, self.end, self.progress, each).await?;
        if let Some(last) = reading {
            take(last, &mut rows, report);
        }
        self.compare_undecided(occurrences, undecided, &mut rows, report).await?;
        self.compare_rest(&rows, report);
        Ok(())
    }

    /// The rows of this rule, from one window before the first: an episode may have begun there.
    async fn rows(&self, incidents: &impl IncidentStore) -> Result<Rows, StoreError> {
        let selection = Selection { tenant: None, since: Some(self.first.previous().start), until: Some(self.end) };
        let of_rule = |row: &IncidentRow| row.rule == self.rule.name && row.kind == IncidentKind::Burst.name();
        let rows = incidents.incidents(&selection).await?;
        let standing = |row: IncidentRow| {
            let fingerprint = Fingerprint::from_hex(&row.fingerprint)?;
            let standing = Standing {
                status: row.status,
                total: row.total,
                superseded_by: row.superseded_by,
                episode_id: row.episode_id,
            };
            Some(((row.tenant.as_str().into(), fingerprint, row.window_start), standing))
        };
        Ok(rows.into_iter().filter(of_rule).filter_map(standing).collect())
    }

    /// Compares the windows of one key, and takes their rows out. `false` when a verdict depends on windows that were not
    /// read.
    fn compare_key(&self, from: EventTime, counts: &KeyCounts, rows: &mut Rows, report: &mut Report) -> bool {
        let of = |which: fn(&(EventTime, u64, u64)) -> u64| {
            Chain::new(self.rule, &counts.key.0, from, counts.buckets.iter().map(|bucket| (bucket.0, which(bucket))))
        };
        let chains = Chains { all: of(|bucket| bucket.1), covered: of(|bucket| bucket.2) };
        let windows = self.windows(&chains.all, &counts.key, rows);
        let Some(verdicts) = windows.iter().map(|window| chains.verdict(*window)).collect::<Option<Vec<_>>>() else {
            return false;
        };
        for (window, verdict) in windows.iter().zip(verdicts) {
            match verdict {
                Some(verdict) => self.compare_window(&chains, &counts.key, (*window, verdict), rows, report),
                None => report.checked.moving += 1,
            }
        }
        let of_key = |start| (counts.key.0.clone(), counts.key.1, start);
        let done: Vec<_> = rows
            .range(of_key(EventTime::MIN)..)
            .map(|(place, _)| place.clone())
            .take_while(|place| (&place.0, place.1) == (&counts.key.0, counts.key.1))
            .collect();
        done.iter().for_each(|place| _ = rows.remove(place));
        true
    }

    /// The windows with an occurrence or a row.
    fn windows(&self, chain: &Chain<'_>, key: &Key, rows: &Rows) -> Vec<Window> {
        let of_key = (key.0.clone(), key.1, self.first.start)..(key.0.clone(), key.1, self.end);
        let size_ms = self.rule.window_ms;
        let with_rows = rows.range(of_key).map(|((_, _, start), _)| Window { start: *start, size_ms });
        let mut windows: Vec<Window> = chain.windows().into_iter().chain(with_rows).collect();
        windows.retain(|window| window.start >= self.first.start && window.end() <= self.end);
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    fn compare_window(
        &self,
        chains: &Chains<'_>,
        key: &Key,
        (window, verdict): (Window, Verdict),
        rows: &Rows,
        report: &mut Report,
    ) {
        report.checked.windows += 1;
        let row = rows.get(&(key.0.clone(), key.1, window.start));
        report.checked.incidents += u64::from(row.is_some_and(Standing::is_live));
        let place = || self.place(key, window);
        let why = || why(&chains.all, window, verdict);
        let previous = self.id(key, window.previous());
        if !self.is_configured && !row.is_some_and(Standing::is_live) {
            return;
        }
        match (verdict.is_incident(), row) {
            (true, None) => report.differs(Kind::IncidentMissing, place(), why(), "no row"),
            (true, Some(row)) if !row.is_live() => {
                report.differs(Kind::IncidentMissing, place(), why(), row.shown());
            }
            (true, Some(row)) if !self.is_configured => self.compare_total(chains, row, (key, window), report),
            (true, Some(row)) => {
                self.compare_row(chains, row, (key, window), report);
                self.compare_episode(chains, row, (key, window), rows, report);
            }
            (false, Some(row)) if row.is_live() => {
                report.differs(Kind::IncidentExtra, place(), why(), row.shown());
            }
            (false, Some(row))
                if verdict == Verdict::Blocked
                    && row.status == Status::Superseded
                    && row.superseded_by.as_ref() != Some(&previous) =>
            {
                report.differs(Kind::IncidentSupersededBy, place(), format!("superseded by {previous}"), row.shown());
            }
            (false, _) => {}
        }
    }

    /// W-9.
    fn compare_row(&self, chains: &Chains<'_>, row: &Standing, (key, window): (&Key, Window), report: &mut Report) {
        let (least, most) = (chains.covered.count(window), chains.all.count(window));
        let expected = if least == most { format!("total {most}") } else { format!("total {least} to {most}") };
        match row.total {
            Some(total) if !(least..=most).contains(&total) => {
                report.differs(Kind::IncidentTotal, self.place(key, window), expected, row.shown());
            }
            Some(_) if row.status == Status::Closed => {}
            _ => {
                let expected = format!("closed, {expected}");
                report.differs(Kind::IncidentNotClosed, self.place(key, window), expected, row.shown());
            }
        }
    }

    /// Of a rule that is not configured, which is not counted on: late data may have raised the count since.
    fn compare_total(&self, chains: &Chains<'_>, row: &Standing, (key, window): (&Key, Window), report: &mut Report) {
        let most = chains.all.count(window);
        if row.total.is_some_and(|total| total > most) {
            report.differs(Kind::IncidentTotal, self.place(key, window), format!("total {most}"), row.shown());
        }
    }

    /// W-11: the episode of the window before where that has an incident, else its own. What that window's row says is
    /// compared when its own turn comes.
    fn compare_episode(
        &self,
        chains: &Chains<'_>,
        row: &Standing,
        (key, window): (&Key, Window),
        rows: &Rows,
        report: &mut Report,
    ) {
        let before = window.previous();
        let expected = match chains.verdict(before).flatten() {
            Some(verdict) if verdict.is_incident() => {
                let before = rows.get(&(key.0.clone(), key.1, before.start)).filter(|row| row.is_live());
                before.map(|row| row.episode_id.clone())
            }
            Some(_) => Some(self.id(key, window)),
            None => None,
        };
        if let Some(expected) = expected.filter(|expected| *expected != row.episode_id) {
            let (expected, found) = (format!("episode {expected}"), format!("episode {}", row.episode_id));
            report.differs(Kind::IncidentEpisode, self.place(key, window), expected, found);
        }
    }

    /// Keys whose verdicts depend on windows further back: those are asked for, one key at a time.
    async fn compare_undecided(
        &self,
        occurrences: &impl OccurrenceStore,
        keys: Vec<Key>,
        rows: &mut Rows,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        for key in keys {
            let mut windows_before = WINDOWS_BEFORE;
            loop {
                windows_before *= 8;
                let from = self.first.start.minus(windows_before * self.rule.window_ms);
                let span = KeySpan { tenant: key.0.clone(), fingerprint: key.1, from, until: self.end };
                let buckets = occurrences.key_counts(self.rule, &[span]).await?;
                let buckets = buckets.iter().map(|bucket| (bucket.bucket_start, bucket.count, bucket.count)).collect();
                let counts = KeyCounts { key: key.clone(), buckets };
                if self.compare_key(from, &counts, rows, report) {
                    break;
                }
                if windows_before > LOOK_BACK_WINDOWS {
                    report.notes.push(format!(
                        "rule {} tenant {} fingerprint {}: no window decides its chain of bridges",
                        self.rule.name, key.0, key.1
                    ));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Rows of keys of which nothing is stored.
    fn compare_rest(&self, rows: &Rows, report: &mut Report) {
        for ((tenant, fingerprint, start), row) in rows.range(..) {
            if row.is_live() && *start >= self.first.start {
                report.checked.incidents += 1;
                let window = Window { start: *start, size_ms: self.rule.window_ms };
                let place = self.place(&(tenant.clone(), *fingerprint), window);
                report.differs(Kind::IncidentExtra, place, "no incident: nothing is stored of it", row.shown());
            }
        }
    }

    fn id(&self, key: &Key, window: Window) -> String {
        let rule = self.rule.name.as_str().into();
        let key = IncidentKey { kind: IncidentKind::Burst, rule, tenant: key.0.clone(), fingerprint: key.1, window };
        key.id().to_string()
    }

    fn place(&self, key: &Key, window: Window) -> Place {
        Place::Window {
            rule: self.rule.name.clone(),
            tenant: key.0.to_string(),
            fingerprint: key.1.to_string(),
            window_start: window.start,
            id: self.id(key, window),
        }
    }
}

/// Counts the incidents that are too young to be judged, and those beside them of rules that nobody knows.
pub(super) async fn count_open(
    incidents: &impl IncidentStore,
    closed: EventTime,
    rules: &[Rule],
    report: &mut Report,
) -> Result<(), StoreError> {
    let longest = rules.iter().map(|rule| rule.window_ms).max().unwrap_or(0);
    let selection = Selection { tenant: None, since: Some(closed.minus(longest)), until: None };
    let rows = incidents.incidents(&selection).await?;
    report.checked.open = rows.iter().filter(|row| row.window_end > closed).count() as u64;
    let unknown = rows.iter().filter(|row| !rules.iter().any(|rule| rule.name == row.rule)).count();
    if unknown > 0 {
        report
            .notes
            .push(format!("{unknown} incidents of rules that are neither configured nor stored are not judged"));
    }
    Ok(())
}
