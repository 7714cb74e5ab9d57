//! `floodmark check`.

use super::arguments::StoreArguments;
use super::{Failure, print, print_json, table};
use crate::config::load::Flags;
use clap::Args;

/// Check the configuration, and show each value with its origin.
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    stores: StoreArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<(), Failure> {
        let loaded = self.stores.load(Flags::default())?;
        if !loaded.config.kafka.brokers.is_empty() {
            super::run::kafka::settings(&loaded.config)?;
        }
        let values = loaded.shown();
        if self.json {
            return print_json(&values);
        }
        let mut shown = table::table(&["key", "value", "from"]);
        for value in values {
            shown.add_row([value.key, value.value, value.origin]);
        }
        print(format_args!("{shown}\nthe configuration is good"))
    }
}
