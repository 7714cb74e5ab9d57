//! `floodmark incidents`.

use super::arguments::{SelectionArguments, StoreArguments};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::config::load::Flags;
use clap::Args;
use floodmark_model::incident::IncidentRow;
use floodmark_sinks::IncidentStore;

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
            runtime.block_on(stores::sqlite_for_reading(&self.stores)?.incidents(&selection))
        } else {
            runtime.block_on(stores::postgres(&config)?.incidents(&selection))
        }
        .map_err(Failure::dependency)?;
        if self.selection.json { print_json(&rows) } else { print(show(&rows)) }
    }
}

/// The incidents as a table.
pub(super) fn show(rows: &[IncidentRow]) -> String {
    const MESSAGE_WIDTH: usize = 90;
    let mut shown = table::table(&["window", "tenant", "fingerprint", "status", "count", "most frequent message"]);
    for row in rows {
        let message =
            row.samples.first().map_or(String::new(), |sample| table::one_line(&sample.message, MESSAGE_WIDTH));
        shown.add_row([
            table::time(row.window_start),
            row.tenant.clone(),
            row.fingerprint[..8].to_owned(),
            row.status.name().to_owned(),
            row.total.unwrap_or(row.count).to_string(),
            message,
        ]);
    }
    format!("{shown}\n{} incidents", rows.len())
}
