//! `floodmark totals`.

use super::arguments::{SelectionArguments, StoreArguments};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::config::load::Flags;
use crate::rules::as_stored;
use clap::Args;
use floodmark_model::Rule;
use floodmark_sinks::{IncidentStore, OccurrenceStore, Selection, TotalRow};

/// Show totals per tenant, fingerprint and window. Rules that have changed are read from Postgres, where it is configured.
#[derive(Debug, Args)]
pub struct Totals {
    #[command(flatten)]
    stores: StoreArguments,
    #[command(flatten)]
    selection: SelectionArguments,
}

impl Totals {
    pub(super) fn run(self) -> Result<(), Failure> {
        let selection = self.selection.selection()?;
        let config = self.stores.load(Flags::default())?.config;
        let runtime = runtime()?;
        let rows = runtime.block_on(async {
            if self.stores.embedded {
                let store = stores::sqlite_for_reading(&self.stores)?;
                let rules = rules(&store, &config.rules).await?;
                return read(&store, &rules, &selection).await;
            }
            let store = stores::clickhouse(&config)?;
            // Without Postgres nobody knows how the rules were before.
            let rules = match config.postgres.reveal() {
                "" => config.rules.clone(),
                _ => rules(&stores::postgres(&config)?, &config.rules).await?,
            };
            read(&store, &rules, &selection).await
        })?;
        if self.selection.json { print_json(&rows) } else { print(show(&rows)) }
    }
}

/// The rules with their versions, so that each window is counted by its own (Q51).
async fn rules(store: &impl IncidentStore, configured: &[Rule]) -> Result<Vec<Rule>, Failure> {
    Ok(as_stored(configured, &store.rules().await.map_err(Failure::dependency)?))
}

async fn read(store: &impl OccurrenceStore, rules: &[Rule], selection: &Selection) -> Result<Vec<TotalRow>, Failure> {
    let mut rows = Vec::new();
    for rule in rules {
        rows.extend(store.totals(rule, selection).await.map_err(Failure::dependency)?);
    }
    Ok(rows)
}

fn show(rows: &[TotalRow]) -> String {
    let sum: u64 = rows.iter().map(|row| row.total).sum();
    format!("{}\n{} windows, {sum} occurrences", table(rows), rows.len())
}

/// The totals as a table.
pub(super) fn table(rows: &[TotalRow]) -> table::Rows {
    let mut shown = table::table(&["window", "tenant", "rule", "fingerprint", "total"]);
    for row in rows {
        let window = table::time(row.window_start);
        shown.add_row([window, row.tenant.clone(), row.rule.clone(), row.fingerprint.clone(), row.total.to_string()]);
    }
    shown
}
