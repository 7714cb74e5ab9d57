//! `floodmark check`.

use super::arguments::StoreArguments;
use super::{Failure, table};
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
        let values = loaded.shown();
        if self.json {
            println!("{}", serde_json::to_string_pretty(&values).expect("values are text"));
            return Ok(());
        }
        let mut shown = table::table(&["key", "value", "from"]);
        values.into_iter().for_each(|value| _ = shown.add_row([value.key, value.value, value.origin]));
        println!("{shown}\nthe configuration is good");
        Ok(())
    }
}
