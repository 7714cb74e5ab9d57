//! What must stand in the end, by the oracle, and what never may.

use super::draw::Run;
use super::engine::Figures;
use crate::scenarios_runners::stored::Stored;
use floodmark_model::incident::{IncidentRow, Status};
use floodmark_model::progress::Tallies;
use floodmark_model::{Fingerprint, IncidentKey, IncidentKind, Rule, Window};
use floodmark_oracle::Oracle;
use floodmark_testkit::reference::judge;
use floodmark_testkit::scenario::{Actual, Record};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Compares what stands with what must.
pub(super) fn check(run: &Run, records: &[Record], stored: &Stored, figures: Figures) -> Result<(), String> {
    let tallies = stored.tallies();
    for (index, rule) in run.settings.rules.iter().enumerate() {
        let expected = expected(run, rule, records);
        let actual = stored.actual_of_rule(rule);
        same("incidents", &rule.name, expected.incidents.clone(), actual.incidents.clone())?;
        same("totals", &rule.name, expected.totals.clone(), actual.totals.clone())?;
        check_crowds(run, rule, &expected, &actual, figures)?;
        if index == 0 {
            check_tallies(&expected, tallies, records.len())?;
            let flags = |actual: &Actual| (actual.counters.ts_missing, actual.counters.ts_clamped);
            same("flags", &rule.name, vec![flags(&expected)], vec![flags(&actual)])?;
        }
        check_rows(rule, &stored.rows_of_rule(rule))?;
    }
    Ok(())
}

fn expected(run: &Run, rule: &Rule, records: &[Record]) -> Actual {
    let oracle = Oracle::new([rule.clone()]);
    let oracle = match run.settings.max_fingerprints {
        Some(limit) => oracle.max_fingerprints(limit as usize),
        None => oracle,
    };
    judge(rule, &oracle, records)
}

fn same<T: Ord + Debug>(what: &str, rule: &str, mut expected: Vec<T>, mut actual: Vec<T>) -> Result<(), String> {
    expected.sort();
    actual.sort();
    if expected == actual {
        return Ok(());
    }
    let only = |these: &[T], those: &[T]| -> Vec<String> {
        these.iter().filter(|one| !those.contains(one)).map(|one| format!("    {one:?}")).collect()
    };
    let (missing, extra) = (only(&expected, &actual), only(&actual, &expected));
    Err(format!(
        "{what} of rule {rule:?}: {} expected, {} found\n  missing:\n{}\n  too many:\n{}",
        expected.len(),
        actual.len(),
        missing.join("\n"),
        extra.join("\n")
    ))
}

/// G-2: every record is in one tally. A retry that comes when its id is forgotten is tallied as stored (Q36).
fn check_tallies(expected: &Actual, tallies: Tallies, records: usize) -> Result<(), String> {
    let counters = expected.counters;
    let is_right = tallies.read() == records as u64
        && tallies.dead == counters.dead_letter
        && tallies.unmatched == counters.unmatched
        && tallies.retried <= counters.client_retry;
    if is_right { Ok(()) } else { Err(format!("{records} records, {counters:?}, but {tallies:?}")) }
}

/// Q46. The engine counts panes: bugs that are late may have none, so only where nothing was late must every crowd have
/// its incident. Where panes are short an incident may say so of a window that is no crowd.
fn check_crowds(run: &Run, rule: &Rule, expected: &Actual, actual: &Actual, figures: Figures) -> Result<(), String> {
    let missing = expected.cardinality.iter().find(|crowd| !actual.cardinality.contains(crowd));
    let extra = actual.cardinality.iter().find(|crowd| !expected.cardinality.contains(crowd));
    match (missing, extra) {
        (Some(crowd), _) if figures.late == 0 => {
            Err(format!("rule {:?}: no cardinality incident {crowd:?}", rule.name))
        }
        (_, Some(crowd)) if run.settings.max_panes.is_none() => {
            Err(format!("rule {:?}: a cardinality incident too many: {crowd:?}", rule.name))
        }
        _ => Ok(()),
    }
}

/// W-6, W-7 and W-9, for the rows themselves.
fn check_rows(rule: &Rule, rows: &[IncidentRow]) -> Result<(), String> {
    let mut by_id = BTreeMap::new();
    for row in rows {
        if by_id.insert(row.id.as_str(), row).is_some() {
            return Err(format!("W-6: two rows {}", row.id));
        }
    }
    let is_live = |row: &IncidentRow| matches!(row.status, Status::Open | Status::Closed);
    for row in rows {
        let id = |window: Window| key(rule, row, window).id().to_string();
        let window = Window { start: row.window_start, size_ms: rule.window_ms };
        let before = id(window.previous());
        let wrong = match row.status {
            _ if row.id != id(window) => "W-6: its id is not that of its key",
            Status::Open => "W-9: its window has closed, and it is open",
            Status::Withdrawn => "W-9: it was due, or never should have been there",
            Status::Closed if row.superseded_by.is_some() => "W-7: it stands, and is superseded",
            Status::Closed if row.total != Some(row.count) => "W-9: its count is not its total",
            Status::Superseded if row.superseded_by.as_deref() != Some(&*before) => "W-7: superseded by another window",
            Status::Superseded if !by_id.get(&*before).is_some_and(|row| is_live(row)) => "W-7: superseded by nothing",
            _ => continue,
        };
        return Err(format!("{wrong}: {row:?}"));
    }
    Ok(())
}

fn key(rule: &Rule, row: &IncidentRow, window: Window) -> IncidentKey {
    IncidentKey {
        kind: IncidentKind::Burst,
        rule: rule.name.as_str().into(),
        tenant: row.tenant.as_str().into(),
        fingerprint: Fingerprint::from_hex(&row.fingerprint).expect("32 hex digits"),
        window,
    }
}
