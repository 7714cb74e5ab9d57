//! `floodmark reconcile`.

use super::arguments::{StoreArguments, now, read_since};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::config::load::Flags;
use crate::reconcile::{Checked, DIFFERENCES_MAX, Difference, LogOf, Place, Reconcile, ReconcileError, Report};
use clap::Args;
use figment::value::Value;
use floodmark_model::{EventTime, Rule};
use floodmark_sinks::inspect::{InspectIncidents, InspectOccurrences};
use floodmark_sinks::{IncidentStore, OccurrenceStore};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::{self, Display};

/// Differences of the table; JSON has them all.
const DIFFERENCES_SHOWN: usize = 200;

/// Compare log, tallies, rows and incidents; exit code 1 where they differ.
#[derive(Debug, Args)]
pub struct ReconcileStores {
    #[command(flatten)]
    stores: StoreArguments,
    /// Kafka brokers, comma separated; without them the log is not asked
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "embedded")]
    brokers: Option<String>,
    /// Kafka topic
    #[arg(long, conflicts_with = "embedded")]
    topic: Option<String>,
    /// Compare incidents of windows from this time on: a span before now, such as 36h or 7d, or a time; by default of the
    /// last 24 h that are closed
    #[arg(long, value_name = "SPAN|TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// Print JSON: times are milliseconds since 1970 UTC
    #[arg(long)]
    json: bool,
}

impl ReconcileStores {
    pub(super) fn run(self) -> Result<(), Failure> {
        let since = self.since()?;
        let text = |key, value: &Option<String>| value.clone().map(|value| (key, Value::from(value)));
        let flags = [text("kafka.brokers", &self.brokers), text("kafka.topic", &self.topic)];
        let config = self.stores.load(Flags(flags.into_iter().flatten().collect()))?.config;
        let runtime = runtime()?;
        let report = if self.stores.embedded {
            let store = stores::sqlite_for_reading(&self.stores)?;
            runtime.block_on(compare(&store, &store, &config.rules, since, None))
        } else {
            let (occurrences, incidents) = (stores::clickhouse(&config)?, stores::postgres(&config)?);
            let log = match &*config.kafka.brokers {
                "" => None,
                _ => Some(LogOf { settings: super::run::kafka::settings(&config)?, topic: config.kafka.topic.clone() }),
            };
            runtime.block_on(compare(&occurrences, &incidents, &config.rules, since, log))
        }
        .map_err(|error| match error {
            ReconcileError::TopicMissing { .. } => Failure::usage(error),
            _ => Failure::dependency(error),
        })?;
        if self.json { print_json(&report) } else { print(Shown(&report)) }?;
        match report.counts.values().sum::<u64>() {
            0 => Ok(()),
            count => Err(Failure { message: format!("{count} differences"), exit_code: 1 }),
        }
    }
}

impl ReconcileStores {
    /// From when on incidents are compared: nothing has happened yet in the future, and nothing would be compared.
    fn since(&self) -> Result<Option<EventTime>, Failure> {
        let Some(text) = &self.since else { return Ok(None) };
        let now = now();
        let since = read_since(text, now)?;
        if since > now {
            return Err(Failure::usage(format!("--since {text}: {} is in the future", table::time(since))));
        }
        Ok(Some(since))
    }
}

async fn compare(
    occurrences: &(impl OccurrenceStore + InspectOccurrences),
    incidents: &(impl IncidentStore + InspectIncidents),
    rules: &[Rule],
    since: Option<EventTime>,
    log: Option<LogOf>,
) -> Result<Report, ReconcileError> {
    // Hidden where stderr is no terminal.
    let style = "{bar:40} {pos}/{len} hours of windows  {eta} left";
    let style = ProgressStyle::with_template(style).expect("the template is right");
    let bar = ProgressBar::new(1).with_style(style);
    let reconcile = Reconcile { occurrences, incidents, rules, since, now: now() };
    let report = reconcile
        .run(log, |done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        })
        .await;
    bar.finish_and_clear();
    report
}

/// For people.
struct Shown<'a>(&'a Report);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { differences, counts, notes, checked } = self.0;
        if !differences.is_empty() {
            let mut shown = table::table(&["difference", "where", "expected", "found"]);
            for Difference { kind, place: at, expected, found } in differences.iter().take(DIFFERENCES_SHOWN) {
                shown.add_row([kind.name(), &place(at), expected, found]);
            }
            writeln!(f, "{shown}")?;
            for (kind, count) in counts {
                writeln!(f, "{count} {kind}")?;
            }
            if differences.len() > DIFFERENCES_SHOWN {
                writeln!(f, "the first {DIFFERENCES_SHOWN} are shown; --json prints up to {DIFFERENCES_MAX}")?;
            }
            writeln!(f)?;
        }
        notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        show_checked(f, checked)?;
        write!(f, "{}", if counts.is_empty() { "no difference" } else { "they differ" })
    }
}

fn show_checked(f: &mut fmt::Formatter<'_>, checked: &Checked) -> fmt::Result {
    writeln!(f, "{} partitions with {} distinct occurrences", checked.partitions, checked.rows)?;
    let (Some(since), Some(until)) = (checked.since, checked.until) else { return Ok(()) };
    writeln!(
        f,
        "{} windows of keys with {} incidents judged from {} to {}; {} incidents in windows that are open, {} windows with \
         records on their way",
        checked.windows,
        checked.incidents,
        table::time(since),
        table::time(until),
        checked.open,
        checked.moving
    )
}

fn place(place: &Place) -> String {
    match place {
        Place::Partition { topic_id, partition } => format!("topic {topic_id} partition {partition}"),
        Place::Whole { partitions } => format!("all {partitions} partitions"),
        Place::Window { rule, tenant, fingerprint, window_start, id: _ } => {
            let tenant = table::one_line(tenant, 60);
            format!("rule {rule} tenant {tenant} fingerprint {fingerprint} window {}", table::time(*window_start))
        }
    }
}
