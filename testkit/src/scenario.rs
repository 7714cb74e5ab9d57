//! Scenarios: one JSON file each, described in `tests/scenarios/README.md`.
//!
//! | what | where |
//! | --- | --- |
//! | the files as written | `file` |
//! | the steps for a runner: records with coordinates, times and bytes | [`expand`](Scenario::steps) |
//! | which fingerprint stands for which label | [`labels`] |
//! | what must stand in the end, and whether it does | [`expectation`], [`Scenario::compare`] |

mod compare;
mod expand;
pub mod expectation;
mod file;
pub mod labels;
mod payload;

pub use compare::{Actual, ActualIncident, ActualTotal};
pub use expand::{Record, Restart, Step};
pub use expectation::{Counters, Expectation};
pub use file::{Kind, Params, Runner};
pub use labels::{FingerprintLabels, Labels};

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The base of a scenario that names none, in milliseconds since 1970: 2026-01-01T00:00:00Z, the start of a window of
/// every length that divides a day.
pub const DEFAULT_BASE_MS: i64 = 1_767_225_600_000;

/// One scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without `.json`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Rule numbers it tests.
    pub rules: Vec<String>,
    /// Decisions (`Q01` ...) the expectation leans on.
    pub assumes: Vec<String>,
    /// Alerts or occurrences.
    pub kind: Kind,
    /// The runners that can run it.
    pub runs: Vec<Runner>,
    /// Milliseconds since 1970; every other time is relative to it.
    pub base_ms: i64,
    /// Settings that differ from the defaults.
    pub params: Params,
    /// Alerts: time has passed this at the end, relative to the base. `None`: it is later than every timer.
    pub now: Option<i64>,
    /// Alerts: the result is the same however much later it is read.
    pub settled: bool,
    /// What must stand at the end.
    pub expect: Expectation,
    steps: Vec<file::Step>,
}

impl Scenario {
    /// Reads one file.
    ///
    /// # Errors
    /// The file cannot be read, has a field or value that is not in the README, or says what makes no sense.
    pub fn load(path: &Path) -> Result<Self> {
        let read = || {
            let name = path.file_stem().and_then(|name| name.to_str()).context("the file has no name")?;
            Self::parse(name, &std::fs::read_to_string(path)?)
        };
        read().with_context(|| format!("scenario {}", path.display()))
    }

    /// Reads all files of a folder, sorted by id.
    ///
    /// # Errors
    /// Those of [`Scenario::load`], and a folder without scenarios.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("scenarios in {}", folder.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        ensure!(!paths.is_empty(), "no scenarios in {}", folder.display());
        paths.iter().map(|path| Self::load(path)).collect()
    }

    /// Reads the text of the file with this name.
    ///
    /// # Errors
    /// Those of [`Scenario::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let file: file::File = serde_json::from_str(text)?;
        ensure!(file.format == 1, "format {} is not known here; want 1", file.format);
        ensure!(file.id == name, "the id is {:?}, but the file's name is {name:?}", file.id);
        let scenario = Self {
            expect: Expectation::read(file.kind, file.expect)?,
            id: file.id,
            title: file.title,
            rules: file.rules,
            assumes: file.assumes,
            kind: file.kind,
            runs: file.runs,
            base_ms: file.base.unwrap_or(DEFAULT_BASE_MS),
            params: file.params,
            now: file.now,
            settled: file.settled.unwrap_or(false),
            steps: file.records,
        };
        // A step that makes no sense is found now, and not by the runner that meets it first.
        scenario.expand(FingerprintLabels::Given)?;
        Ok(scenario)
    }

    /// The steps in order, for a runner. The id of the topic and so the coordinates are made up: a topic that is
    /// created anew has the next id.
    #[must_use]
    pub fn steps(&self, labels: FingerprintLabels) -> Vec<Step> {
        self.expand(labels).expect("the steps made sense when they were read")
    }

    /// Whether a runner can run it.
    #[must_use]
    pub fn runs_on(&self, runner: Runner) -> bool {
        self.runs.contains(&runner)
    }
}

#[cfg(test)]
mod tests;
