//! `floodmark demo`.

use super::run::{Embedded, Inputs};
use super::{Failure, table, totals};
use crate::config::Config;
use crate::config::load::{Flags, load};
use crate::generate::Flood;
use crate::input::files::{Sender, channel};
use crate::pipeline::{Clock, SystemClock};
use clap::Args;
use floodmark_model::EventTime;
use floodmark_model::incident::JudgedIncident;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{OccurrenceStore, Selection};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Show a believable flood becoming incidents; needs nothing but this binary.
#[derive(Debug, Args)]
pub struct Demo {
    /// How long the flood lasts, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// Another seed makes another flood
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep what is counted in this file; by default it is deleted at the end
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl Demo {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = load(None, Flags::default()).map_err(Failure::usage)?.config;
        let config = Config { listen: None, ..config };
        super::start_logging("error");
        let kept = self.store.clone();
        let temporary = TemporaryStore::new();
        let store = kept.clone().unwrap_or_else(|| temporary.0.clone());
        let rule = config.rules[0].clone();
        say(format_args!(
            "A flood of errors for {} s: an incident opens at {} of one bug within {} s. Ctrl-C ends it.\n",
            self.seconds,
            rule.threshold,
            rule.window_ms / 1_000
        ));
        let (sender, stream) = channel();
        let flood = Flood::new(self.seed, EventTime(SystemClock.now_ms()), i64::from(self.seconds) * 1_000);
        std::thread::Builder::new()
            .name("flood".into())
            .spawn(move || play(flood, &sender))
            .map_err(|error| Failure::dependency(format!("cannot start a thread: {error}")))?;
        let embedded = Embedded {
            config,
            store: store.clone(),
            inputs: Inputs::Stream(stream),
            on_incident: Some(Arc::new(show_incident)),
            shows_progress: false,
        };
        let summary = embedded.run()?;
        let summary = if kept.is_some() { summary } else { summary.of_temporary_store() };
        say(format_args!("\n{summary}\n"));
        show_totals(&store, &rule)?;
        say(format_args!("{}", what_next(kept.as_deref())));
        Ok(())
    }
}

/// Sends each record when it happens.
fn play(flood: Flood, sender: &Sender) {
    let mut due = Vec::new();
    for record in flood {
        let ahead_ms = record.ts.0 - SystemClock.now_ms();
        if ahead_ms > 0 {
            if !due.is_empty() && !sender.send(std::mem::take(&mut due)) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(ahead_ms as u64));
        }
        due.extend_from_slice(record.json.as_bytes());
        due.push(b'\n');
    }
    // When nobody reads any more, the demo has been ended.
    let _ = sender.send(due);
}

fn show_incident(incident: &JudgedIncident) {
    let message = incident.message.as_deref().map_or(String::new(), |message| table::one_line(message, 70));
    let (key, at) = (&incident.key, table::clock(incident.opened_at));
    say(format_args!("{at}  {:<12} {:.8}  {message}\n", key.tenant, key.fingerprint.to_string()));
}

fn show_totals(store: &Path, rule: &floodmark_model::Rule) -> Result<(), Failure> {
    const SHOWN: usize = 10;
    let store = SqliteStore::open_read_only(store).map_err(Failure::dependency)?;
    let read = super::runtime()?.block_on(store.totals(rule, &Selection::default()));
    let mut rows = read.map_err(Failure::dependency)?;
    let (windows, sum) = (rows.len(), rows.iter().map(|row| row.total).sum::<u64>());
    rows.sort_by_key(|row| std::cmp::Reverse(row.total));
    rows.truncate(SHOWN);
    say(format_args!("\nThe largest totals:\n{}\n", totals::table(&rows)));
    say(format_args!("{windows} totals of (window, tenant, bug) in all, {sum} occurrences\n"));
    Ok(())
}

fn what_next(kept: Option<&Path>) -> String {
    let look = match kept {
        Some(store) => {
            let store = store.display();
            format!(
                "  floodmark incidents --embedded --store {store}\n  floodmark totals --embedded --store {store} --json\n"
            )
        }
        None => {
            "  floodmark demo --store demo.sqlite            keep it, to look with `incidents` and `totals`\n".into()
        }
    };
    format!(
        "\nWhat to try next:\n{look}  floodmark run --embedded --input 'logs/*.log' --format log4j   your own logs\n  \
         docker compose up                              Kafka, Postgres, ClickHouse and the engine\n"
    )
}

/// A pipe that is closed ends nobody's demo with a panic.
fn say(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text);
    let _ = out.flush();
}

/// A file that goes with the demo.
struct TemporaryStore(PathBuf);

impl TemporaryStore {
    fn new() -> Self {
        let name = format!("floodmark-demo-{}.sqlite", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TemporaryStore {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm", "-lock"] {
            let mut path = self.0.clone().into_os_string();
            path.push(suffix);
            // It may never have been made, and what stays in the folder for temporary files goes with that.
            let _ = std::fs::remove_file(path);
        }
    }
}
