//! The commands, one file each.

mod arguments;
mod backfill;
mod check;
mod demo;
mod explain;
mod incidents;
mod migrate;
mod reconcile;
mod run;
mod stores;
mod table;
mod totals;
mod what_if;

use crate::pipeline::stop::Failed;
use clap::Subcommand;

/// What floodmark can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a believable flood becoming incidents; needs nothing but this binary
    Demo(demo::Demo),
    /// Count: from Kafka into Postgres and ClickHouse, or embedded from files into one SQLite file
    Run(Box<run::Run>),
    /// Count old records after the fact: files, or a range of a topic, beside the engine that runs
    Backfill(Box<backfill::Backfill>),
    /// Create or migrate the schemas of the stores
    Migrate(migrate::Migrate),
    /// Show totals per tenant, fingerprint and window
    Totals(totals::Totals),
    /// Show incidents
    Incidents(incidents::Incidents),
    /// Show what other thresholds and windows would have done
    WhatIf(what_if::WhatIf),
    /// Explain why there is, or is not, an incident of a fingerprint at a time
    Explain(explain::Explain),
    /// Compare log, tallies, rows and incidents; exit code 1 where they differ
    Reconcile(reconcile::ReconcileStores),
    /// Check the configuration, and show each value with its origin
    Check(check::Check),
}

/// Why a command failed, and its exit code (design, section 5).
#[derive(Debug)]
pub struct Failure {
    /// One line: what, where, what to do.
    pub message: String,
    /// 1 a check found differences, 2 wrong usage or configuration, 3 a dependency is unreachable, 4 data was lost.
    pub exit_code: u8,
}

impl Failure {
    /// Wrong usage or configuration.
    fn usage(message: impl std::fmt::Display) -> Self {
        Self { message: message.to_string(), exit_code: 2 }
    }

    /// A dependency is unreachable or refuses.
    fn dependency(message: impl std::fmt::Display) -> Self {
        Self { message: message.to_string(), exit_code: 3 }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        Self { message: failed.message, exit_code: failed.exit_code }
    }
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// With the message to print and the exit code.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Demo(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Backfill(command) => command.run(),
            Self::Migrate(command) => command.run(),
            Self::Totals(command) => command.run(),
            Self::Incidents(command) => command.run(),
            Self::WhatIf(command) => command.run(),
            Self::Explain(command) => command.run(),
            Self::Reconcile(command) => command.run(),
            Self::Check(command) => command.run(),
        }
    }
}

/// Prints to standard output. A reader that has seen enough, such as `head`, is no failure.
fn print(text: impl std::fmt::Display) -> Result<(), Failure> {
    use std::io::{ErrorKind, Write};
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", printable(&text.to_string())).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::dependency(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The text without control characters: what comes from a record must not move the cursor.
#[must_use]
pub fn printable(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), " ")
}

/// Prints JSON for programs.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(serde_json::to_string_pretty(value).expect("what is shown are plain values"))
}

/// The runtime on which stores are called.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| Failure::dependency(format!("cannot start threads: {error}")))
}

/// Logs to stderr; `FLOODMARK_LOG` chooses what (`info`, `debug`, `floodmark=trace`, ...).
fn start_logging(default: &str) {
    use std::io::{IsTerminal, stderr};
    use tracing_subscriber::EnvFilter;
    let quiet = format!("{default},refinery_core=warn,tokio_postgres=warn");
    let filter = EnvFilter::try_from_env("FLOODMARK_LOG").unwrap_or_else(|_| EnvFilter::new(quiet));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(stderr().is_terminal());
    // A second start in one process keeps the first one's.
    let _ = logs.try_init();
}
