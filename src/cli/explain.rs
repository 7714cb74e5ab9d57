//! `floodmark explain`.

use super::arguments::{StoreArguments, read_time};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::config::Config;
use crate::config::load::Flags;
use crate::explain::{Explanation, Incident, Question, UnderRule, Watermark, WindowFacts, explain};
use clap::Args;
use floodmark_model::{EventTime, Fingerprint, Rule};
use floodmark_sinks::inspect::{InspectIncidents, InspectOccurrences};
use floodmark_sinks::{IncidentStore, OccurrenceStore};
use std::fmt::{self, Display, Write as _};

/// The least hex digits of a fingerprint.
const DIGITS_MIN: usize = 6;

/// How far from the time a fingerprint is looked up that is not given in whole.
const NEAR_MS: i64 = 24 * 3_600_000;

/// Fingerprints that an error lists.
const CANDIDATES_SHOWN: usize = 10;

/// Why there is, or is not, an incident of a fingerprint at a time.
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    stores: StoreArguments,
    /// Tenant
    tenant: String,
    /// Fingerprint: 32 hex digits, or the first of them (6 at least) of one that was seen within a day of the time
    fingerprint: String,
    /// Time: RFC 3339, or a number since 1970 as in `ts`
    #[arg(allow_hyphen_values = true)]
    time: String,
    /// Only this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Print JSON: times are milliseconds since 1970 UTC
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn run(self) -> Result<(), Failure> {
        let time = read_time("TIME", &self.time)?;
        let digits = self.fingerprint.to_ascii_lowercase();
        if !(DIGITS_MIN..=32).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Failure::usage(format!(
                "FINGERPRINT {}: {DIGITS_MIN} to 32 hex digits, as `floodmark incidents` shows them",
                self.fingerprint
            )));
        }
        let config = self.stores.load(Flags::default())?.config;
        let rules = self.rules(&config)?;
        let asked = Asked { tenant: &self.tenant, digits: &digits, time, rules: &rules, config: &config };
        let runtime = runtime()?;
        let explanation = if self.stores.embedded {
            let store = stores::sqlite_for_reading(&self.stores)?;
            runtime.block_on(asked.answer(&store, &store, false))
        } else {
            let (occurrences, incidents) = (stores::clickhouse(&config)?, stores::postgres(&config)?);
            runtime.block_on(asked.answer(&occurrences, &incidents, true))
        }?;
        if self.json { print_json(&explanation) } else { print(Shown(&explanation)) }
    }

    fn rules(&self, config: &Config) -> Result<Vec<Rule>, Failure> {
        let is_asked = |rule: &&Rule| self.rule.as_ref().is_none_or(|name| *name == rule.name);
        let rules: Vec<Rule> = config.rules.iter().filter(is_asked).cloned().collect();
        if rules.is_empty() {
            let names: Vec<_> = config.rules.iter().map(|rule| rule.name.as_str()).collect();
            let asked = self.rule.as_deref().unwrap_or_default();
            return Err(Failure::usage(format!("--rule {asked}: no such rule; there are: {}", names.join(", "))));
        }
        Ok(rules)
    }
}

/// What was asked, before the fingerprint is known.
struct Asked<'a> {
    tenant: &'a str,
    digits: &'a str,
    time: EventTime,
    rules: &'a [Rule],
    config: &'a Config,
}

impl Asked<'_> {
    async fn answer(
        &self,
        occurrences: &(impl OccurrenceStore + InspectOccurrences),
        incidents: &(impl IncidentStore + InspectIncidents),
        records_have_times: bool,
    ) -> Result<Explanation, Failure> {
        let question = Question {
            tenant: self.tenant,
            fingerprint: self.fingerprint(occurrences).await?,
            time: self.time,
            rules: self.rules,
            lateness_ms: self.config.time.lateness_ms,
            zone: &self.config.time.zone,
            records_have_times,
        };
        explain(occurrences, incidents, &question).await.map_err(Failure::dependency)
    }

    /// The only fingerprint that begins with the digits.
    async fn fingerprint(&self, occurrences: &impl InspectOccurrences) -> Result<Fingerprint, Failure> {
        if let Some(whole) = Fingerprint::from_hex(self.digits) {
            return Ok(whole);
        }
        let (from, until) = (self.time.minus(NEAR_MS), self.time.plus(NEAR_MS));
        let found = occurrences.fingerprints(self.tenant, self.digits, from, until).await;
        let found = found.map_err(Failure::dependency)?;
        let Self { tenant, digits, .. } = self;
        match &found[..] {
            [one] => Ok(*one),
            [] => Err(Failure::usage(format!(
                "FINGERPRINT {digits}: tenant {tenant} has none that begins so within a day of {}: give all 32 digits, or \
                 another time",
                table::time(self.time)
            ))),
            several => {
                let shown: Vec<_> = several.iter().take(CANDIDATES_SHOWN).map(Fingerprint::to_string).collect();
                let more = if several.len() > shown.len() { ", ..." } else { "" };
                Err(Failure::usage(format!(
                    "FINGERPRINT {digits}: {} begin so: {}{more}: give more digits",
                    several.len(),
                    shown.join(", ")
                )))
            }
        }
    }
}

/// For people: the answer first, details after it.
struct Shown<'a>(&'a Explanation);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { tenant, fingerprint, time, rules, watermark } = self.0;
        for rule in rules {
            writeln!(f, "rule {}: {}", rule.rule, rule.answer)?;
            if let Some(advice) = &rule.advice {
                writeln!(f, "  {advice}")?;
            }
        }
        let tenant = table::one_line(tenant, 100);
        writeln!(f, "\ntenant {tenant}, fingerprint {fingerprint}, {}", table::time(*time))?;
        rules.iter().try_for_each(|rule| show_rule(f, rule))?;
        show_watermark(f, watermark)
    }
}

fn show_rule(f: &mut fmt::Formatter<'_>, rule: &UnderRule) -> fmt::Result {
    writeln!(f, "\nrule {}, threshold {}", rule.rule, rule.threshold)?;
    if !rule.counts_tenant {
        writeln!(f, "  the rule does not look at this tenant")?;
    }
    let mut windows = table::table(&["window", "closed", "count", "own", "best run over its start", "W-4", "buckets"]);
    for window in &rule.windows {
        let run = window.best_run.as_ref();
        windows.add_row([
            table::time(window.start),
            (if window.closed { "yes" } else { "no" }).to_owned(),
            window.count.to_string(),
            (if window.own { "yes" } else { "no" }).to_owned(),
            run.map_or_else(|| "-".into(), |run| format!("{} from {}", run.count, table::time(run.start))),
            window.verdict.unwrap_or("unknown").to_owned(),
            buckets(&window.buckets),
        ]);
    }
    writeln!(f, "{windows}")?;
    rule.windows.iter().try_for_each(|window| show_window(f, window))
}

/// Most rules have few buckets; of many only the filled ones are named.
fn buckets(counts: &[u64]) -> String {
    const LISTED_MAX: usize = 20;
    if counts.len() <= LISTED_MAX {
        return counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    }
    let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut shown: Vec<_> = filled.map(|(index, count)| format!("{}:{count}", index + 1)).collect();
    if shown.len() > LISTED_MAX {
        shown.truncate(LISTED_MAX);
        shown.push("...".into());
    }
    shown.join(" ")
}

fn show_window(f: &mut fmt::Formatter<'_>, window: &WindowFacts) -> fmt::Result {
    writeln!(f, "window {}: {}", table::time(window.start), window.why)?;
    if let Some(incident) = &window.incident {
        show_incident(f, incident)?;
    }
    for (reason, count) in &window.not_counted {
        writeln!(f, "  {count} occurrences are not counted: {reason}")?;
    }
    let mut line = |count: u64, what: &str| if count > 0 { writeln!(f, "  {count} {what}") } else { Ok(()) };
    line(
        window.late_estimate.unwrap_or(0),
        "probably came late (an estimate: by record time against the window's end and the lateness)",
    )?;
    line(window.ts_missing, "count here by the time of their record: `ts` was missing (T-1)")?;
    line(window.ts_clamped, "count here by the time of their record: `ts` lay in the future (T-2)")?;
    line(
        window.clamped_away,
        "count elsewhere though their `ts` lies here: it lay in the future of their record (T-2)",
    )?;
    for (reason, count) in &window.dead_letters {
        writeln!(f, "  {count} dead letters of any tenant were recorded in this time: {reason}")?;
    }
    Ok(())
}

fn show_incident(f: &mut fmt::Formatter<'_>, Incident { row, reason, transitions }: &Incident) -> fmt::Result {
    let mut line = format!(
        "  incident {}: {}, detection {}, opened at {}, count {}",
        row.id,
        row.status.name(),
        row.detection.name(),
        table::time(row.opened_at),
        row.count
    );
    if let Some(total) = row.total {
        write!(line, ", total {total}")?;
    }
    if let Some(by) = &row.superseded_by {
        write!(line, ", superseded by {by}")?;
    }
    if let Some(reason) = reason {
        write!(line, ", {}", table::one_line(reason, 200))?;
    }
    writeln!(f, "{line}")?;
    for change in transitions {
        let reason =
            change.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", table::one_line(reason, 200)));
        writeln!(f, "    {} {}{reason}", table::time(change.at), change.transition)?;
    }
    Ok(())
}

fn show_watermark(f: &mut fmt::Formatter<'_>, watermark: &Watermark) -> fmt::Result {
    const PARTITIONS_SHOWN: usize = 20;
    let time = |time: Option<EventTime>| time.map_or_else(|| "-".into(), table::time);
    write!(
        f,
        "\nwatermark as committed: {}; windows are closed up to {}; what it was when a record came is not stored",
        time(watermark.merged),
        time(watermark.closed)
    )?;
    if watermark.partitions.is_empty() {
        return Ok(());
    }
    let mut shown =
        table::table(&["topic or file", "partition", "watermark", "stored", "retried", "unmatched", "dead"]);
    for partition in watermark.partitions.iter().take(PARTITIONS_SHOWN) {
        shown.add_row([
            partition.topic_id.clone(),
            partition.partition.to_string(),
            time(partition.watermark),
            partition.stored.to_string(),
            partition.retried.to_string(),
            partition.unmatched.to_string(),
            partition.dead.to_string(),
        ]);
    }
    write!(f, "\n{shown}")?;
    let more = watermark.partitions.len().saturating_sub(PARTITIONS_SHOWN);
    if more > 0 { write!(f, "\n{more} more partitions: --json") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_buckets_the_filled_ones_are_named() {
        assert_eq!(buckets(&[0, 3, 1]), "0 3 1");
        let mut many = [0; 30];
        (many[0], many[29]) = (2, 7);
        assert_eq!(buckets(&many), "1:2 30:7");
        assert!(buckets(&[1; 30]).ends_with("20:1 ..."));
    }
}
