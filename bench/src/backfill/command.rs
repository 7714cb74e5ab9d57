//! One backfill: the command beside an engine that runs, watched from outside.

use super::{DEADLINE, Figures, LOOK, Usage, metrics};
use crate::machine;
use crate::part::{Calls, calls};
use crate::setup::{Look, Setup};
use anyhow::{Context, Result, ensure};
use floodmark_testkit::services::engine::Engine;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Instant;

/// A running engine and a file for it.
pub(super) struct Bed<'a> {
    pub(super) setup: &'a Setup,
    pub(super) look: &'a Look,
    pub(super) engine: &'a Engine,
    pub(super) path: &'a Path,
    /// Of the file, not compressed.
    pub(super) bytes: u64,
    pub(super) records: u64,
}

impl Bed<'_> {
    /// Runs the command to its end.
    pub(super) fn backfill(&self) -> Result<(Figures, Changes)> {
        let engine = self.engine.process_id().to_string();
        machine::forget_peak_memory_of(&engine).context("forget the engine's peak memory")?;
        let (calls_before, engine_before) = (calls(&metrics(self.engine)?), Usage::of(&engine));
        let report = self.setup.installation.folder().join("report.json");
        let watched = self.run(&report)?;
        let engine_after = Usage::of(&engine);
        let verdict: Verdict = serde_json::from_slice(&fs::read(&report)?).context("the report of the backfill")?;
        ensure!(verdict.records == self.records, "{} records were sent", verdict.records);
        let figures = Figures {
            sent_seconds: watched.sent.unwrap_or(watched.seconds),
            durable_seconds: watched.durable.unwrap_or(watched.seconds),
            seconds: watched.seconds,
            engine: Usage { cpu_seconds: engine_after.cpu_seconds - engine_before.cpu_seconds, ..engine_after },
            command: watched.used,
            calls: calls_since(&calls_before, calls(&metrics(self.engine)?)),
            incidents: verdict.incidents.standing(),
        };
        Ok((figures, verdict.incidents))
    }

    fn run(&self, report: &Path) -> Result<Watched> {
        let durable_before = self.look.durable()?;
        let mut command = self.setup.installation.command("backfill", ["--json".as_ref(), self.path.as_os_str()]);
        command.stdout(File::create(report)?);
        let started = Instant::now();
        let mut command = Command(command.spawn().context("start the backfill")?);
        let process = command.0.id().to_string();
        let mut watched = Watched::default();
        loop {
            watched.used = watched.used.grown_to(Usage::of(&process));
            let ended = command.0.try_wait()?;
            watched.seconds = started.elapsed().as_secs_f64();
            if let Some(status) = ended {
                ensure!(status.success(), "the backfill has failed: {status}");
                return Ok(watched);
            }
            if watched.sent.is_none() && self.look.sent_bytes()? >= self.bytes {
                watched.sent = Some(watched.seconds);
            }
            if watched.durable.is_none() && self.look.durable()? >= durable_before + self.records {
                watched.durable = Some(watched.seconds);
            }
            ensure!(started.elapsed() < DEADLINE, "no verdict in time; the engine says:\n{}", self.engine.log());
            thread::sleep(LOOK);
        }
    }
}

/// What was seen of a command; `None` where its end came before the next look.
#[derive(Default)]
struct Watched {
    /// The topic holds all records.
    sent: Option<f64>,
    /// They are durable.
    durable: Option<f64>,
    /// So far, or until the end.
    seconds: f64,
    used: Usage,
}

/// A command that runs, and is killed where this is left before its end.
struct Command(Child);

impl Drop for Command {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the command prints, as far as it is looked at.
#[derive(Deserialize)]
struct Verdict {
    records: u64,
    incidents: Changes,
}

/// How many incidents changed how.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Changes {
    pub(super) new: usize,
    pub(super) raised: usize,
    pub(super) unchanged: usize,
    pub(super) withdrawn: usize,
}

impl Changes {
    fn standing(&self) -> usize {
        self.new + self.raised + self.unchanged
    }
}

/// What has come on top of the calls before.
fn calls_since(before: &[Calls], after: Vec<Calls>) -> Vec<Calls> {
    let before: BTreeMap<&str, &Calls> = before.iter().map(|calls| (&*calls.labels, calls)).collect();
    let since = |calls: Calls| match before.get(&*calls.labels) {
        None => calls,
        Some(before) => Calls { count: calls.count - before.count, seconds: calls.seconds - before.seconds, ..calls },
    };
    let mut calls: Vec<_> = after.into_iter().map(since).filter(|calls| calls.count > 0).collect();
    calls.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    calls
}
