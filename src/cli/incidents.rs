//! `floodmark incidents`.

use super::arguments::{SelectionArguments, StoreArguments};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::config::load::Flags;
use crate::rules::named;
use clap::Args;
use floodmark_model::Rule;
use floodmark_model::incident::IncidentRow;
use floodmark_model::rule::Severity;
use floodmark_sinks::{IncidentStore, Selection, StoreError};
use serde::Serialize;

/// Show incidents.
#[derive(Debug, Args)]
pub struct Incidents {
    #[command(flatten)]
    stores: StoreArguments,
    #[command(flatten)]
    selection: SelectionArguments,
}

impl Incidents {
    pub(super) fn run(self) -> Result<(), Failure> {
        let selection = self.selection.selection()?;
        let config = self.stores.load(Flags::default())?.config;
        let runtime = runtime()?;
        let rows = if self.stores.embedded {
            runtime.block_on(read(&stores::sqlite_for_reading(&self.stores)?, &config.rules, &selection))
        } else {
            runtime.block_on(read(&stores::postgres(&config)?, &config.rules, &selection))
        }
        .map_err(Failure::dependency)?;
        if self.selection.json { print_json(&rows) } else { print(show(&rows)) }
    }
}

async fn read(
    store: &impl IncidentStore,
    configured: &[Rule],
    selection: &Selection,
) -> Result<Vec<ShownIncident>, StoreError> {
    let mut rules = store.rules().await?;
    // A store whose engine has not started since rules are kept knows none.
    rules.extend(configured.iter().filter(|rule| named(&rules, &rule.name).is_none()).cloned().collect::<Vec<_>>());
    Ok(ShownIncident::of(store.incidents(selection).await?, &rules))
}

/// An incident with what its rule says of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShownIncident {
    /// As it is stored.
    #[serde(flatten)]
    row: IncidentRow,
    /// That of the rule's version that judges its window; `None` for a rule that nobody knows any more.
    severity: Option<Severity>,
}

impl ShownIncident {
    /// The incidents, with the severity that these rules give them.
    pub(super) fn of(rows: Vec<IncidentRow>, rules: &[Rule]) -> Vec<Self> {
        let shown = |row: IncidentRow| {
            let severity = named(rules, &row.rule).map(|rule| rule.at(row.window_start).severity);
            Self { row, severity }
        };
        rows.into_iter().map(shown).collect()
    }
}

/// The incidents as a table.
pub(super) fn show(rows: &[ShownIncident]) -> String {
    const MESSAGE: &str = "most frequent message";
    const MESSAGE_WIDTH: usize = 70;
    let mut shown =
        table::table(&["window", "tenant", "rule", "fingerprint", "severity", "status", "detection", "count", MESSAGE]);
    for ShownIncident { row, severity } in rows {
        let message =
            row.samples.first().map_or(String::new(), |sample| table::one_line(&sample.message, MESSAGE_WIDTH));
        shown.add_row([
            table::time(row.window_start),
            row.tenant.clone(),
            row.rule.clone(),
            row.fingerprint[..8].to_owned(),
            severity.map_or("-", Severity::name).to_owned(),
            row.status.name().to_owned(),
            row.detection.name().to_owned(),
            row.total.unwrap_or(row.count).to_string(),
            message,
        ]);
    }
    format!("{shown}\n{} incidents", rows.len())
}
