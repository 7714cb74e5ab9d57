//! What a backfill says at its end.

use crate::backfill::compare::{Change, Verdict};
use crate::backfill::report::{Changes, Produced};
use crate::cli::table;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

/// Changed incidents of the table; more would push the figures out of sight.
const VERDICTS_SHOWN: usize = 100;

/// What a backfill says at its end.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// How long it took, in seconds.
    seconds: f64,
    /// What was read.
    #[serde(flatten)]
    pub(super) produced: Produced,
    /// How many incidents changed how; `None` with `--no-wait`.
    incidents: Option<Changes>,
    /// Of how many of them the window is still open, so that they have no total yet.
    open: usize,
    /// What became of each incident that it may have touched.
    verdicts: Vec<Verdict>,
}

impl Report {
    pub(super) fn new(produced: Produced, verdicts: Option<Vec<Verdict>>, started: Instant) -> Self {
        let incidents = verdicts.as_deref().map(Changes::of);
        let verdicts = verdicts.unwrap_or_default();
        let open = verdicts.iter().filter(|verdict| verdict.open).count();
        Self { seconds: started.elapsed().as_secs_f64(), produced, incidents, open, verdicts }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Produced { records, resumed, dead_letters, poison, cut_off, unreadable, hints } = &self.produced;
        let changed: Vec<_> = self.verdicts.iter().filter(|verdict| verdict.change != Change::Unchanged).collect();
        if !changed.is_empty() {
            writeln!(f, "{}\n", verdict_table(&changed[..changed.len().min(VERDICTS_SHOWN)]))?;
        }
        if changed.len() > VERDICTS_SHOWN {
            writeln!(f, "{} more: --json shows all\n", changed.len() - VERDICTS_SHOWN)?;
        }
        for line in poison {
            writeln!(f, "{}: {}: {}", line.place, line.reason, table::one_line(&line.detail, 120))?;
        }
        let unlisted = dead_letters.values().sum::<u64>().saturating_sub(poison.len() as u64);
        if unlisted > 0 && !poison.is_empty() {
            writeln!(f, "and {unlisted} more")?;
        }
        for (reason, count) in dead_letters {
            writeln!(f, "{count} cannot be read: {reason}")?;
        }
        cut_off.iter().try_for_each(|place| writeln!(f, "{place}: the last line is cut off: left out"))?;
        for odd in unreadable.iter().chain(hints).chain(resumed) {
            writeln!(f, "{odd}")?;
        }
        if self.incidents.is_some() && !resumed.is_empty() {
            writeln!(
                f,
                "`before` is what stood when this run began: what the earlier run's part had changed by then is in it"
            )?;
        }
        if self.open > 0 {
            writeln!(
                f,
                "{} of these incidents have no total yet, their windows are still open: they close when the watermark \
                 passes them, which only live records move",
                self.open
            )?;
        }
        write!(f, "{records} records in {:.1} s", self.seconds)?;
        match &self.incidents {
            None => write!(f, ", to be counted"),
            Some(Changes { new, raised, unchanged, withdrawn }) => {
                write!(f, "; incidents: {new} new, {raised} raised, {unchanged} unchanged, {withdrawn} withdrawn")
            }
        }
    }
}

fn verdict_table(verdicts: &[&Verdict]) -> table::Rows {
    let mut shown = table::table(&["window", "tenant", "rule", "fingerprint", "incident", "before", "after"]);
    let total = |total: Option<u64>| total.map_or_else(|| "-".to_owned(), |total| total.to_string());
    for verdict in verdicts {
        shown.add_row([
            table::time(verdict.window_start),
            verdict.tenant.clone(),
            verdict.rule.clone(),
            verdict.fingerprint.clone(),
            verdict.change.name().to_owned(),
            total(verdict.before),
            if verdict.open { format!("{} so far", total(verdict.after)) } else { total(verdict.after) },
        ]);
    }
    shown
}
