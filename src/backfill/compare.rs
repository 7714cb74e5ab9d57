//! What a backfill changed: incidents before against after.

use floodmark_model::EventTime;
use floodmark_model::incident::{IncidentRow, Status};
use serde::Serialize;
use std::collections::BTreeMap;

/// An incident row, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentState {
    /// 32 hex digits of the identity's hash.
    pub id: String,
    /// First instant of the window.
    pub window_start: EventTime,
    /// First instant after it.
    pub window_end: EventTime,
    /// Tenant.
    pub tenant: String,
    /// Rule.
    pub rule: String,
    /// 32 hex digits.
    pub fingerprint: String,
    /// Where the row stands in its life.
    pub status: Status,
    /// Its total, or count(w) as last judged.
    pub total: u64,
    /// Its window is open, and `total` is what was counted when it was judged last.
    pub is_provisional: bool,
}

impl From<&IncidentRow> for IncidentState {
    fn from(row: &IncidentRow) -> Self {
        Self {
            id: row.id.clone(),
            window_start: row.window_start,
            window_end: row.window_end,
            tenant: row.tenant.clone(),
            rule: row.rule.clone(),
            fingerprint: row.fingerprint.clone(),
            status: row.status,
            total: row.total.unwrap_or(row.count),
            is_provisional: row.status == Status::Open && row.total.is_none(),
        }
    }
}

impl IncidentState {
    fn stands(&self) -> bool {
        matches!(self.status, Status::Open | Status::Closed)
    }
}

/// How an incident changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It did not stand before.
    New,
    /// Its total grew.
    Raised,
    /// It stands as before.
    Unchanged,
    /// It stood before, and was withdrawn or superseded.
    Withdrawn,
}

impl Change {
    /// The name for people and programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Raised => "raised",
            Self::Unchanged => "unchanged",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// What became of the incident of one key and window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// 32 hex digits of the identity's hash.
    pub id: String,
    /// First instant of the window, milliseconds since 1970 UTC.
    pub window_start: EventTime,
    /// Tenant.
    pub tenant: String,
    /// Rule.
    pub rule: String,
    /// 32 hex digits.
    pub fingerprint: String,
    /// How it changed.
    pub change: Change,
    /// Its total before; `None` where it did not stand.
    pub before: Option<u64>,
    /// Its total after; `None` where it does not stand.
    pub after: Option<u64>,
    /// Whether its window is still open, so that `after` is no total but what was counted when it was judged last.
    pub open: bool,
}

/// Compares two snapshots of incident rows, in any order, each id at most once. Rows that stand in neither are left
/// out. Sorted by window, tenant, rule and fingerprint.
#[must_use]
pub fn compare(before: &[IncidentState], after: &[IncidentState]) -> Vec<Verdict> {
    let mut rows: BTreeMap<&str, (Option<&IncidentState>, Option<&IncidentState>)> = BTreeMap::new();
    for row in before.iter().filter(|row| row.stands()) {
        rows.entry(&row.id).or_default().0 = Some(row);
    }
    for row in after.iter().filter(|row| row.stands()) {
        rows.entry(&row.id).or_default().1 = Some(row);
    }
    let mut verdicts: Vec<Verdict> = rows.into_values().filter_map(|(before, after)| verdict(before, after)).collect();
    verdicts.sort_by(|one, other| {
        let order = |verdict: &Verdict| (verdict.window_start, verdict.tenant.clone(), verdict.rule.clone());
        order(one).cmp(&order(other)).then_with(|| one.fingerprint.cmp(&other.fingerprint))
    });
    verdicts
}

fn verdict(before: Option<&IncidentState>, after: Option<&IncidentState>) -> Option<Verdict> {
    let change = match (before, after) {
        (None, Some(_)) => Change::New,
        (Some(_), None) => Change::Withdrawn,
        (Some(before), Some(after)) if after.total > before.total => Change::Raised,
        (Some(_), Some(_)) => Change::Unchanged,
        (None, None) => return None,
    };
    let row = after.or(before)?;
    Some(Verdict {
        id: row.id.clone(),
        window_start: row.window_start,
        tenant: row.tenant.clone(),
        rule: row.rule.clone(),
        fingerprint: row.fingerprint.clone(),
        change,
        before: before.map(|row| row.total),
        after: after.map(|row| row.total),
        open: after.is_some_and(|row| row.is_provisional),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, window_start: i64, status: Status, total: u64) -> IncidentState {
        IncidentState {
            id: id.into(),
            window_start: EventTime(window_start),
            window_end: EventTime(window_start + 100),
            tenant: "acme".into(),
            rule: "default".into(),
            fingerprint: "f".into(),
            status,
            total,
            is_provisional: false,
        }
    }

    #[test]
    fn each_incident_is_new_raised_unchanged_or_withdrawn() {
        use Status::{Closed, Open, Superseded, Withdrawn};
        let before = [
            row("raised", 100, Closed, 10),
            row("unchanged", 200, Closed, 10),
            row("withdrawn", 300, Open, 10),
            row("superseded", 400, Closed, 10),
            row("back", 500, Superseded, 10),
            row("gone before", 600, Withdrawn, 3),
        ];
        let after = [
            row("gone before", 600, Withdrawn, 4),
            row("back", 500, Closed, 10),
            row("superseded", 400, Superseded, 10),
            row("withdrawn", 300, Withdrawn, 9),
            row("unchanged", 200, Closed, 10),
            row("raised", 100, Closed, 11),
            row("new", 0, Closed, 12),
        ];
        let found: Vec<_> = compare(&before, &after)
            .into_iter()
            .map(|verdict| (verdict.id, verdict.change, verdict.before, verdict.after))
            .collect();
        let wanted = [
            ("new", Change::New, None, Some(12)),
            ("raised", Change::Raised, Some(10), Some(11)),
            ("unchanged", Change::Unchanged, Some(10), Some(10)),
            ("withdrawn", Change::Withdrawn, Some(10), None),
            ("superseded", Change::Withdrawn, Some(10), None),
            ("back", Change::New, None, Some(10)),
        ];
        assert_eq!(found, wanted.map(|(id, change, before, after)| (id.to_owned(), change, before, after)));
        assert!(compare(&after, &after).iter().all(|verdict| verdict.change == Change::Unchanged));
    }
}
