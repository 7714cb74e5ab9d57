//! Totals and samples: what windows hold (W-9, W-10). Every row of `occurrences` is a distinct occurrence, so counting
//! rows is enough.

use super::classify::Trouble;
use super::columns::count;
use super::conditions::{RuleFilter, floored, ten_seconds};
use super::text;
use crate::{Selection, TotalRow};
use floodmark_model::incident::{Sample, WindowFacts};
use floodmark_model::{EventTime, Fingerprint, IncidentKey, Rule};
use rusqlite::{Connection, ToSql, named_params};

/// Most messages of an incident (W-10).
const SAMPLES_MAX: usize = 10;

/// The occurrences of one key in one window: an index range for each ten seconds that the window touches.
const STEPS: &str = "WITH RECURSIVE steps (step) AS (
    SELECT :first_step UNION ALL SELECT step + 1 FROM steps WHERE step < :last_step
)";
const IN_WINDOW: &str = "FROM steps CROSS JOIN occurrences ON occurrences.ten_seconds = steps.step
        AND occurrences.tenant = :tenant AND occurrences.fingerprint_bits = :fingerprint
        AND occurrences.ts >= :start AND occurrences.ts < :end";

/// See [`crate::OccurrenceStore::window_facts`].
pub(super) fn window_facts(
    reader: &Connection,
    rule: &Rule,
    keys: &[IncidentKey],
) -> Result<Vec<WindowFacts>, Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let total =
        format!("{STEPS} SELECT count(*), min(occurrences.ts), max(occurrences.ts) {IN_WINDOW} WHERE {counted}");
    let samples = format!(
        "{STEPS} SELECT occurrences.message, count(*) AS counted {IN_WINDOW} WHERE {counted}
        GROUP BY occurrences.message ORDER BY counted DESC, occurrences.message LIMIT {SAMPLES_MAX}"
    );
    let mut total = reader.prepare_cached(&total)?;
    let mut samples = reader.prepare_cached(&samples)?;
    keys.iter()
        .map(|key| {
            let window = key.window;
            let parameters: &[(&str, &dyn ToSql)] = named_params! {
                ":first_step": ten_seconds(window.start),
                ":last_step": ten_seconds(window.end().minus(1)),
                ":start": window.start.0,
                ":end": window.end().0,
                ":tenant": key.tenant,
                ":fingerprint": key.fingerprint.0,
                ":level": filter.level,
                ":tenants": filter.tenants,
                ":services": filter.services,
            };
            // Without rows the times are NULL; the window's start stands for them, which nobody shows.
            let time = |time: Option<i64>| time.map_or(window.start, EventTime);
            let (total, first_ts, last_ts) =
                total.query_row(parameters, |row| Ok((count(row, 0)?, time(row.get(1)?), time(row.get(2)?))))?;
            let samples = samples
                .query_map(parameters, |row| {
                    Ok(Sample { message: text::shown(row.get_ref(0)?.as_str()?), count: count(row, 1)? })
                })?
                .collect::<Result<_, _>>()?;
            Ok(WindowFacts { key: key.clone(), total, first_ts, last_ts, samples: distinct(samples) })
        })
        .collect()
}

/// Joins messages that differ only behind the cut.
fn distinct(samples: Vec<Sample>) -> Vec<Sample> {
    let mut distinct: Vec<Sample> = Vec::with_capacity(samples.len());
    for sample in samples {
        match distinct.iter_mut().find(|known| known.message == sample.message) {
            Some(known) => known.count += sample.count,
            None => distinct.push(sample),
        }
    }
    distinct.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.message.cmp(&b.message)));
    distinct
}

/// See [`crate::OccurrenceStore::totals`].
pub(super) fn totals(reader: &Connection, rule: &Rule, selection: &Selection) -> Result<Vec<TotalRow>, Trouble> {
    let filter = RuleFilter::of(rule);
    let counted = &filter.sql;
    let window_start = floored("ts", ":window");
    let mut statement = reader.prepare_cached(&format!(
        "SELECT tenant, fingerprint_bits, {window_start} AS window_start, count(*)
        FROM occurrences
        WHERE ten_seconds >= :ten_seconds AND {window_start} >= :since AND {window_start} < :until
            AND (:tenant IS NULL OR tenant = :tenant) AND {counted}
        GROUP BY tenant, fingerprint_bits, window_start
        ORDER BY tenant, fingerprint_bits, window_start"
    ))?;
    let since = selection.since.unwrap_or(EventTime::MIN);
    let rows = statement.query_map(
        named_params! {
            ":window": rule.window_ms,
            ":ten_seconds": ten_seconds(since),
            ":since": since.0,
            ":until": selection.until.map_or(i64::MAX, |until| until.0),
            ":tenant": selection.tenant,
            ":level": filter.level,
            ":tenants": filter.tenants,
            ":services": filter.services,
        },
        |row| {
            Ok(TotalRow {
                tenant: row.get(0)?,
                fingerprint: Fingerprint(row.get(1)?).to_string(),
                rule: rule.name.clone(),
                window_start: EventTime(row.get(2)?),
                total: count(row, 3)?,
            })
        },
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}
