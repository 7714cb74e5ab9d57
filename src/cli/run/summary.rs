//! What an embedded run says at its end.

use crate::cli::incidents::{self, ShownIncident};
use crate::input::files::{InputEnd, format_hint};
use crate::metrics::{Figures, Metrics};
use floodmark_model::Rule;
use floodmark_sinks::{IncidentStore, OccurrenceStore, Selection, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Incidents of the table; more would push the figures out of sight.
const INCIDENTS_SHOWN: usize = 40;

/// The summary of an embedded run. Counts are of this run; incidents and occurrences are all that the store holds.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The SQLite file, unless it goes with the process.
    store: Option<PathBuf>,
    /// Whether the input was read to its end.
    complete: bool,
    /// How long it took, in seconds.
    seconds: f64,
    /// What became of records.
    records: Figures,
    /// Records that cannot be read, by reason.
    dead_letters: BTreeMap<&'static str, u64>,
    /// Distinct occurrences in the store that a rule counts, once for each rule.
    occurrences: u64,
    /// The incidents in the store.
    incidents: Vec<ShownIncident>,
    /// Inputs that could not be read to their end, and why.
    unreadable: Vec<String>,
    /// Inputs that look as if they were written in another format.
    hints: Vec<String>,
}

impl Summary {
    /// Reads it from the store.
    pub(crate) async fn read(
        store: &(impl OccurrenceStore + IncidentStore),
        rules: &[Rule],
        path: PathBuf,
        metrics: &Metrics,
        complete: bool,
        took: Duration,
    ) -> Result<Self, StoreError> {
        let everything = Selection::default();
        let mut occurrences = 0;
        for rule in rules {
            occurrences += store.totals(rule, &everything).await?.iter().map(|row| row.total).sum::<u64>();
        }
        let (records, dead_letters) = (metrics.figures(), metrics.dead_letters());
        let incidents = ShownIncident::of(store.incidents(&everything).await?, rules);
        Ok(Self {
            store: Some(path),
            complete,
            seconds: took.as_secs_f64(),
            records,
            dead_letters,
            occurrences,
            incidents,
            unreadable: Vec::new(),
            hints: Vec::new(),
        })
    }
}

impl Summary {
    /// What became of records, and of those that cannot be read.
    pub(in crate::cli) fn records(&self) -> (Figures, &BTreeMap<&'static str, u64>) {
        (self.records, &self.dead_letters)
    }

    /// With what was odd about inputs; `unreadable` are those of which nothing could be read.
    pub(super) fn with_ends(mut self, unreadable: Vec<String>, ends: &[InputEnd], written: &str) -> Self {
        self.unreadable = unreadable;
        for end in ends {
            self.unreadable.extend(end.unreadable.clone());
            self.hints.extend(format_hint(
                &end.path.display().to_string(),
                written,
                (end.records, end.dead),
                end.is_all,
            ));
        }
        self
    }

    /// Inputs that could not be read to their end, and those that look as if they were written in another format.
    pub(in crate::cli) fn oddities(&self) -> (&[String], &[String]) {
        (&self.unreadable, &self.hints)
    }

    /// Of a store that nobody will look for.
    pub(in crate::cli) fn of_temporary_store(self) -> Self {
        Self { store: None, ..self }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { read, stored, retried, unmatched, dead, late, redelivered: _ } = self.records;
        let unseen = self.incidents.len().saturating_sub(INCIDENTS_SHOWN);
        if !self.incidents.is_empty() {
            writeln!(f, "{}\n", incidents::show(&self.incidents[unseen..]))?;
        }
        if unseen > 0 {
            writeln!(f, "{unseen} earlier ones are not shown: floodmark incidents --embedded\n")?;
        }
        if !self.complete {
            writeln!(f, "stopped before the end of the input: run it again to go on from here")?;
        }
        writeln!(
            f,
            "{read} records read in {:.1} s: {stored} stored ({late} of them late), {retried} client retries, {unmatched} \
             that no rule counts, {dead} that cannot be read",
            self.seconds
        )?;
        for (reason, count) in &self.dead_letters {
            writeln!(f, "{count} cannot be read: {reason}")?;
        }
        self.unreadable.iter().chain(&self.hints).try_for_each(|odd| writeln!(f, "{odd}"))?;
        write!(
            f,
            "in all {} occurrences, once for each rule, and {} incidents",
            self.occurrences,
            self.incidents.len()
        )?;
        self.store.as_ref().map_or(Ok(()), |store| write!(f, " in {}", store.display()))
    }
}
