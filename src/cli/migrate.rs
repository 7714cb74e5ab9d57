//! `floodmark migrate`.

use super::arguments::StoreArguments;
use super::{Failure, print, runtime, stores};
use crate::config::load::Flags;
use clap::Args;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{IncidentStore, OccurrenceStore};

/// Create or migrate the schemas of the stores.
#[derive(Debug, Args)]
pub struct Migrate {
    #[command(flatten)]
    stores: StoreArguments,
}

impl Migrate {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = self.stores.load(Flags::default())?.config;
        if self.stores.embedded {
            SqliteStore::open(&self.stores.store).map_err(Failure::dependency)?;
            return print(format_args!("{}: the schema is current", self.stores.store.display()));
        }
        let (postgres, clickhouse) = (stores::postgres(&config)?, stores::clickhouse(&config)?);
        runtime()?.block_on(async {
            postgres.migrate().await.map_err(Failure::dependency)?;
            print(format_args!("{}: the schema is current", postgres.name()))?;
            clickhouse.migrate().await.map_err(Failure::dependency)?;
            print(format_args!("{}: the schema is current", clickhouse.name()))
        })
    }
}
