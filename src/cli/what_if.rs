//! `floodmark what-if`.

use super::arguments::{StoreArguments, now, read_since, read_time};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::config::Config;
use crate::config::load::Flags;
use crate::config::units::Span;
use crate::rules::{named, with_stored};
use crate::what_if::{Answer, CandidateAnswer, Choices, Difference, Noisy, Question, ROWS_PER_PAGE, ask};
use clap::{Args, ValueEnum};
use floodmark_model::Rule;
use floodmark_sinks::{IncidentStore, OccurrenceStore};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::str::FromStr;
use tokio::runtime::Runtime;

/// Show what other thresholds and windows would have done.
///
/// Judges the stored occurrences under every combination of the given thresholds, windows and straddles, and compares
/// with the incidents of today. The row `today` is the rule as the engine judges by it: every window by the version of its
/// own time, every tenant by its own threshold. Tenants with a threshold of their own keep it under every candidate.
/// Writes nothing.
#[derive(Debug, Args)]
pub struct WhatIf {
    #[command(flatten)]
    stores: StoreArguments,
    /// Thresholds, for all tenants without one of their own [default: the rule's]
    #[arg(long, value_name = "N,...", value_delimiter = ',', allow_hyphen_values = true, value_parser = number::<u32>)]
    threshold: Vec<u32>,
    /// Window lengths, as 30s, 5m or 1h [default: the rule's]
    #[arg(long, value_name = "SPAN,...", value_delimiter = ',', allow_hyphen_values = true)]
    window: Vec<Span>,
    /// Whether bursts over a window boundary count [default: as the rule says]
    #[arg(long, value_name = "on|off,...", value_delimiter = ',')]
    straddle: Vec<Switch>,
    /// Buckets of a window; must divide every window [default: the rule's]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number::<u16>)]
    buckets: Option<u16>,
    /// The rule whose match is counted and whose incidents are compared [default: the first]
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Windows from this time on: a span before now, such as 36h or 7d, or a time
    #[arg(long, value_name = "SPAN|TIME", default_value = "7d", allow_hyphen_values = true)]
    since: String,
    /// Windows that start before this time [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,
    /// Only this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Print JSON: times are milliseconds since 1970 UTC
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl WhatIf {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = self.stores.load(Flags::default())?.config;
        if self.rule(&config.rules).is_some() {
            // What cannot be asked needs no store.
            self.question(&config, &config.rules)?;
        }
        let answer = if self.stores.embedded {
            let store = stores::sqlite_for_reading(&self.stores)?;
            self.answer(&store, &store, &config)
        } else {
            self.answer(&stores::clickhouse(&config)?, &stores::postgres(&config)?, &config)
        }?;
        if self.json { print_json(&answer) } else { print(show(&answer)) }
    }

    fn rule<'a>(&self, rules: &'a [Rule]) -> Option<&'a Rule> {
        match &self.rule {
            None => rules.first(),
            Some(name) => named(rules, name),
        }
    }

    fn question(&self, config: &Config, rules: &[Rule]) -> Result<Question, Failure> {
        let Some(rule) = self.rule(rules) else {
            let names: Vec<_> = rules.iter().map(|rule| rule.name.as_str()).collect();
            let name = self.rule.as_deref().unwrap_or_default();
            return Err(Failure::usage(format!("--rule {name}: there is no such rule; there is {}", names.join(", "))));
        };
        let now = now();
        let since = read_since(&self.since, now)?;
        // An occurrence may be as much in the future as its record time allows (T-2).
        let until = match &self.until {
            None => now.plus(config.time.max_future_ms),
            Some(text) => read_time("--until", text)?,
        };
        let choices = Choices {
            thresholds: self.threshold.clone(),
            windows_ms: self.window.iter().map(|span| span.0).collect(),
            straddles: self.straddle.iter().map(|switch| matches!(switch, Switch::On)).collect(),
            buckets: self.buckets,
        };
        Question::new(rule.clone(), &choices, since, until, self.tenant.clone()).map_err(Failure::usage)
    }

    fn answer(
        &self,
        occurrences: &impl OccurrenceStore,
        incidents: &impl IncidentStore,
        config: &Config,
    ) -> Result<Answer, Failure> {
        let runtime = runtime()?;
        let stored = runtime.block_on(incidents.rules()).map_err(Failure::dependency)?;
        // Today's rule is what the engine judges by.
        let question = self.question(config, &with_stored(&config.rules, &stored))?;
        answer(occurrences, incidents, &question, &runtime, config.workers)
    }
}

/// A whole number from 1 on.
fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "must be a whole number, at least 1".to_owned())
}

fn answer(
    occurrences: &impl OccurrenceStore,
    incidents: &impl IncidentStore,
    question: &Question,
    runtime: &Runtime,
    workers: usize,
) -> Result<Answer, Failure> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} rows, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let read = |behind, all| {
        bar.set_length(all);
        bar.set_position(behind);
    };
    let answer = runtime.block_on(ask(occurrences, incidents, question, workers, ROWS_PER_PAGE, read));
    bar.finish_and_clear();
    answer.map_err(Failure::dependency)
}

fn show(answer: &Answer) -> String {
    let range = format!("from {} to {}", table::time(answer.since), table::time(answer.until));
    if answer.occurrences == 0 {
        let whose = answer.tenant.as_ref().map_or_else(String::new, |tenant| format!(" of tenant {tenant:?}"));
        return format!(
            "nothing to judge: no occurrence{whose} that rule {:?} matches is stored {range}\n\
             (--since and --until choose another range, --rule another rule)",
            answer.rule
        );
    }
    let mut shown = table::table(&[
        "",
        "window",
        "threshold",
        "straddle",
        "incidents",
        "episodes",
        "pages/day",
        "new",
        "vanished",
        "noisiest",
    ]);
    for candidate in &answer.candidates {
        shown.add_row([
            if candidate.runs_today { "today" } else { "" }.to_owned(),
            format!("{:?}", Span(candidate.window_ms)),
            candidate.threshold.to_string(),
            if candidate.straddle { "on" } else { "off" }.to_owned(),
            candidate.incidents.to_string(),
            candidate.episodes.to_string(),
            format!("{:.1}", candidate.pages_per_day),
            signed('+', &candidate.new),
            signed('-', &candidate.vanished),
            noisiest(candidate),
        ]);
    }
    let notes: String = answer.notes.iter().map(|note| format!("\nnote: {}", table::one_line(note, 1_000))).collect();
    format!(
        "{shown}\nrule {:?} {range}: {} occurrences, {} incidents today; nothing was changed{notes}",
        answer.rule, answer.occurrences, answer.incidents_today
    )
}

fn signed(sign: char, difference: &Difference) -> String {
    if difference.count == 0 { "0".to_owned() } else { format!("{sign}{}", difference.count) }
}

fn noisiest(candidate: &CandidateAnswer) -> String {
    const MESSAGE_WIDTH: usize = 50;
    let line = |bug: &Noisy| {
        let message = table::one_line(&bug.message, MESSAGE_WIDTH);
        format!("{} x {} {} {message}", bug.incidents, table::one_line(&bug.tenant, 20), &bug.fingerprint[..8])
    };
    candidate.noisiest.iter().map(line).collect::<Vec<_>>().join("; ")
}
