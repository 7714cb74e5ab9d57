//! Which windows a backfill touches: those of its occurrences, and what a judgement of those reaches to the right.

use super::compare::IncidentState;
use floodmark_model::{Occurrence, Rule, Window};
use std::collections::{BTreeSet, HashMap};

/// Windows that are remembered one by one; beyond that all between the first and the last count as touched.
const WINDOWS_MAX: usize = 1_000_000;

/// The windows of one backfill.
#[derive(Debug, Default)]
pub struct Touched {
    /// By rule: start of each window.
    windows: HashMap<String, BTreeSet<i64>>,
    count: usize,
}

impl Touched {
    /// Takes in an occurrence.
    pub fn add(&mut self, rules: &[Rule], occurrence: &Occurrence<'_>) {
        for rule in rules.iter().filter(|rule| rule.counts(occurrence)) {
            let start = Window::containing(occurrence.ts, rule.window_ms).start.0;
            let windows = match self.windows.get_mut(&rule.name) {
                Some(windows) => windows,
                None => self.windows.entry(rule.name.clone()).or_default(),
            };
            if self.count < WINDOWS_MAX {
                self.count += usize::from(windows.insert(start));
            } else {
                let (first, last) = (windows.first().copied(), windows.last().copied());
                let is_outside = first.is_none_or(|first| start < first) || last.is_none_or(|last| start > last);
                self.count += usize::from(is_outside && windows.insert(start));
            }
        }
    }

    /// The rows that the backfill may have changed: those of touched windows, of the window behind each (a bridge looks
    /// back), and the runs that go on from there (Q40). `rows` are sorted by window.
    #[must_use]
    pub fn of(&self, rows: Vec<IncidentState>) -> Vec<IncidentState> {
        let mut reached: BTreeSet<(String, String, String, i64)> = BTreeSet::new();
        let mut kept = Vec::new();
        for row in rows {
            let key = |end: i64| (row.tenant.clone(), row.rule.clone(), row.fingerprint.clone(), end);
            let size_ms = row.window_end.0 - row.window_start.0;
            let is_touched = self.contains(&row.rule, row.window_start.0)
                || self.contains(&row.rule, row.window_start.0 - size_ms)
                || reached.contains(&key(row.window_start.0));
            if is_touched {
                reached.insert(key(row.window_end.0));
                kept.push(row);
            }
        }
        kept
    }

    fn contains(&self, rule: &str, window_start: i64) -> bool {
        let Some(windows) = self.windows.get(rule) else { return false };
        let is_between = || windows.first() <= Some(&window_start) && Some(&window_start) <= windows.last();
        windows.contains(&window_start) || (self.count >= WINDOWS_MAX && is_between())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::incident::Status;
    use floodmark_model::wire::{DecodeSettings, json};
    use floodmark_model::{Coordinates, EventTime, RawRecord, RecordTime, TopicId};

    #[test]
    fn touched_are_the_window_the_next_and_the_run_behind_it() {
        let rule = Rule { window_ms: 100, ..Rule::default() };
        let payload = br#"{"ts":"1970-01-01T00:00:01.050Z","message":"x"}"#;
        let at = Coordinates { topic_id: TopicId([0; 16]), partition: 0, offset: 0 };
        let raw = RawRecord { at, record_time: RecordTime(2_000), payload: Some(payload) };
        let mut touched = Touched::default();
        touched.add(&[rule], &json::decode(raw, &DecodeSettings::default()).unwrap());
        let row = |start: i64, fingerprint: &str| IncidentState {
            id: format!("{fingerprint}{start}"),
            window_start: EventTime(start),
            window_end: EventTime(start + 100),
            tenant: "acme".into(),
            rule: "default".into(),
            fingerprint: fingerprint.into(),
            status: Status::Closed,
            total: 1,
            is_provisional: false,
        };
        let rows = [(900, "a"), (1_000, "a"), (1_100, "a"), (1_200, "a"), (1_200, "b"), (1_400, "a")];
        let kept = touched.of(rows.iter().map(|(start, name)| row(*start, name)).collect());
        let kept: Vec<_> = kept.into_iter().map(|row| row.id).collect();
        assert_eq!(kept, ["a1000", "a1100", "a1200"]);
    }
}
