//! `floodmark backfill`.

use super::arguments::StoreArguments;
use super::run::{Embedded, Inputs, text_format};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::backfill::BackfillError;
use crate::backfill::compare::{Change, IncidentState, Verdict, compare};
use crate::backfill::files::{FileProducer, Written, find};
use crate::backfill::range::Place;
use crate::backfill::report::{Changes, Produced};
use crate::backfill::send::Sender;
use crate::backfill::topic::{TopicProducer, TopicRange};
use crate::backfill::touched::Touched;
use crate::backfill::wait::{Engine, Goal, until_durable};
use crate::config::Config;
use crate::config::load::Flags;
use crate::pipeline::{Clock, SystemClock};
use clap::Args;
use figment::value::Value;
use floodmark_kafka::{KafkaSettings, Topics};
use floodmark_model::RecordTime;
use floodmark_sinks::postgres::PostgresStore;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{IncidentStore, Selection, StoreError};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long a broker may take to answer one question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Changed incidents of the table; more would push the figures out of sight.
const VERDICTS_SHOWN: usize = 100;

/// Count old records after the fact: files, or a range of a topic, beside the engine that runs.
#[derive(Debug, Args)]
pub struct Backfill {
    /// Files, or patterns such as 'logs/*.log.gz'; plain, gzip or zstd
    #[arg(value_name = "FILE", required_unless_present = "topic", conflicts_with = "topic")]
    files: Vec<String>,
    #[command(flatten)]
    stores: StoreArguments,
    /// Kafka brokers, comma separated
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "embedded")]
    brokers: Option<String>,
    /// Read this topic again instead of files
    #[arg(long, conflicts_with = "embedded")]
    topic: Option<String>,
    /// First record of --topic in each partition: an offset, or a record time; by default the first that is there
    #[arg(long, value_name = "OFFSET|TIME", requires = "topic")]
    from: Option<String>,
    /// Where to end, exclusive: an offset, or a record time; by default what is there now
    #[arg(long, value_name = "OFFSET|TIME", requires = "topic")]
    to: Option<String>,
    /// How files are written: ndjson, log4j, access (Apache, nginx) or regex:PATTERN with named groups
    #[arg(long, value_name = "FORMAT", default_value = "ndjson", conflicts_with = "topic")]
    format: String,
    /// Zone of times without one, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", conflicts_with = "topic")]
    tz: Option<String>,
    /// End when the backfill topic holds everything: do not wait until it is counted, and give no verdict
    #[arg(long, conflicts_with = "embedded")]
    no_wait: bool,
    /// Print JSON: times are milliseconds since 1970 UTC
    #[arg(long)]
    json: bool,
}

impl Backfill {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = self.stores.load(self.flags())?.config;
        super::start_logging("warn");
        let json = self.json;
        let report = if self.stores.embedded { self.run_embedded(config)? } else { self.run_kafka(config)? };
        if json { print_json(&report) } else { print(&report) }
    }

    fn flags(&self) -> Flags {
        let text = |key, value: &Option<String>| value.clone().map(|value| (key, Value::from(value)));
        Flags([text("kafka.brokers", &self.brokers), text("time.zone", &self.tz)].into_iter().flatten().collect())
    }

    /// The same process reads and counts: late records are judged by the same pipeline.
    fn run_embedded(self, config: Config) -> Result<Report, Failure> {
        let started = Instant::now();
        let config = Config { listen: None, ..config };
        let path = self.stores.store;
        let states = |store: &SqliteStore| -> Result<Vec<IncidentState>, Failure> {
            runtime()?.block_on(incident_states(store, &Selection::default())).map_err(Failure::dependency)
        };
        let before = match path.exists() {
            true => states(&SqliteStore::open_read_only(&path).map_err(Failure::dependency)?)?,
            false => Vec::new(),
        };
        let inputs = Inputs::Named { patterns: self.files, format: text_format(&self.format)? };
        let embedded = Embedded { config, store: path.clone(), inputs, on_incident: None, shows_progress: true };
        let summary = embedded.run()?;
        let (figures, dead_letters) = summary.records();
        let after = states(&SqliteStore::open_read_only(&path).map_err(Failure::dependency)?)?;
        let produced = Produced { records: figures.read, dead_letters: dead_letters.clone(), ..Produced::default() };
        Ok(Report::new(produced, Some(compare(&before, &after)), started))
    }

    fn run_kafka(self, config: Config) -> Result<Report, Failure> {
        let started = Instant::now();
        let source = self.source()?;
        let connected = Connected::new(config)?;
        let (backfill_topic, topics) = (connected.config.kafka.backfill_topic.clone(), &connected.topics);
        if self.topic.as_deref() == Some(&backfill_topic) {
            return Err(Failure::usage("--topic: this is the topic into which backfill writes: name the original one"));
        }
        let now = RecordTime(SystemClock.now_ms());
        // What can be wrong with the arguments is said before anything is written.
        let files = match &source {
            Source::Files(_) => connected.wait(find(&connected.postgres, &self.files, now))?,
            Source::Topic { .. } => Default::default(),
        };
        let kafka = &connected.config.kafka;
        let max_record_bytes = connected.config.limits.max_record_bytes;
        let mut sender = Sender::new(&connected.settings, topics, &backfill_topic, &kafka.topic, max_record_bytes)?;
        let before =
            connected.wait(async { Ok(incident_states(&connected.postgres, &Selection::default()).await?) })?;
        let (mut produced, mut touched) = (Produced::default(), Touched::default());
        let sent = match source {
            Source::Files(written) => {
                connected.send_files(files, &written, &mut sender, &mut produced, &mut touched)?
            }
            Source::Topic { name, from, to } => {
                let range = TopicRange::find(&connected.postgres, topics, &name, (from, to), sender.topic(), now);
                let range = connected.wait(range)?;
                connected.send_topic(range, &mut sender, &mut produced, &mut touched)?
            }
        };
        if self.no_wait {
            return Ok(Report::new(produced, None, started));
        }
        let verdicts = connected.verdict(&sender, before, &touched)?;
        connected.forget(&sent)?;
        Ok(Report::new(produced, Some(verdicts), started))
    }

    fn source(&self) -> Result<Source, Failure> {
        let place = |flag, text: &Option<String>| text.as_deref().map(|text| Place::read(flag, text)).transpose();
        Ok(match &self.topic {
            Some(name) => {
                Source::Topic { name: name.clone(), from: place("--from", &self.from)?, to: place("--to", &self.to)? }
            }
            None => Source::Files(Written { format: text_format(&self.format)?, zone: self.tz.clone() }),
        })
    }
}

enum Source {
    Files(Written),
    Topic { name: String, from: Option<Place>, to: Option<Place> },
}

/// What was sent, and is remembered until the verdict is there.
enum Sent {
    Files(Vec<crate::backfill::files::BackfillFile>),
    Topic(TopicRange),
}

/// The services that a backfill works with.
struct Connected {
    config: Config,
    settings: KafkaSettings,
    topics: Topics,
    postgres: PostgresStore,
    runtime: Runtime,
}

impl Connected {
    fn new(config: Config) -> Result<Self, Failure> {
        if config.kafka.brokers.is_empty() {
            return Err(Failure::usage(
                "kafka.brokers is not configured: give --brokers host:9092, set FLOODMARK_BROKERS, or write it into \
                 the file of --config (or use --embedded, which needs no server)",
            ));
        }
        let postgres = stores::postgres(&config)?;
        let settings = super::run::kafka::settings(&config)?;
        let topics = Topics::new(&settings, ANSWER_TIMEOUT).map_err(BackfillError::from)?;
        let connected = Self { config, settings, topics, postgres, runtime: runtime()? };
        connected.wait(async { Ok(connected.postgres.migrate().await?) })?;
        Ok(connected)
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, BackfillError>>) -> Result<T, Failure> {
        Ok(self.runtime.block_on(work)?)
    }

    fn send_files(
        &self,
        (files, disk_bytes): (Vec<crate::backfill::files::BackfillFile>, u64),
        written: &Written,
        sender: &mut Sender,
        produced: &mut Produced,
        touched: &mut Touched,
    ) -> Result<Sent, Failure> {
        let bar = bar(disk_bytes, "{bar:40} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left");
        // The zone that the header names is also that of the local look at each record.
        let (store, runtime, config) = (&self.postgres, self.runtime.handle(), &self.config);
        let mut producer = FileProducer { sender, store, runtime, config, written, produced, touched };
        for file in &files {
            let bar = bar.clone();
            producer.send(file, move |bytes| bar.inc(bytes))?;
        }
        bar.finish_and_clear();
        Ok(Sent::Files(files))
    }

    fn send_topic(
        &self,
        mut range: TopicRange,
        sender: &mut Sender,
        produced: &mut Produced,
        touched: &mut Touched,
    ) -> Result<Sent, Failure> {
        let records = range.records();
        let bar = bar(records, "{bar:40} {pos}/{len} records  {per_sec}  {eta} left");
        let (settings, topics, store) = (&self.settings, &self.topics, &self.postgres);
        let (runtime, config) = (self.runtime.handle(), &self.config);
        TopicProducer { sender, settings, topics, store, runtime, config, produced, touched }
            .send(&mut range, |left| bar.set_position(records - left.min(records)))?;
        bar.finish_and_clear();
        Ok(Sent::Topic(range))
    }

    /// Waits until what was sent is counted, and compares.
    fn verdict(&self, sender: &Sender, before: Vec<IncidentState>, touched: &Touched) -> Result<Vec<Verdict>, Failure> {
        let goal = Goal::now(&self.topics, sender.topic(), sender.partitions())?;
        let all = goal.missing(&floodmark_model::progress::Progress::default());
        let bar = bar(all, "{bar:40} {pos}/{len} records counted  {msg}");
        let mut said = Engine::Alive;
        self.wait(until_durable(&self.postgres, &goal, |missing, engine| {
            bar.set_position(all - missing.min(all));
            // Only the kind of silence is news, not its length.
            if std::mem::discriminant(&engine) != std::mem::discriminant(&said) {
                said = engine;
                if let Some(what) = silence(engine) {
                    bar.suspend(|| eprintln!("{what}"));
                }
            }
        }))?;
        bar.finish_and_clear();
        let after = self.wait(async { Ok(incident_states(&self.postgres, &Selection::default()).await?) })?;
        Ok(compare(&touched.of(before), &touched.of(after)))
    }

    fn forget(&self, sent: &Sent) -> Result<(), Failure> {
        self.wait(async {
            match sent {
                Sent::Files(files) => {
                    for file in files {
                        FileProducer::forget(&self.postgres, file).await?;
                    }
                    Ok(())
                }
                Sent::Topic(range) => range.forget(&self.postgres).await,
            }
        })
    }
}

fn silence(engine: Engine) -> Option<String> {
    let advice = "everything is in the backfill topic, and is counted as soon as `floodmark run` runs; Ctrl-C ends the \
                  waiting";
    match engine {
        Engine::Alive => None,
        Engine::Never => Some(format!("waiting for an engine: none has ever run on this pipeline; {advice}")),
        Engine::Silent(age) => {
            let seconds = age.as_secs();
            Some(format!("waiting for an engine: the last one was heard of {seconds} s ago; {advice}"))
        }
    }
}

/// The incidents, sorted by window, as far as they are compared.
async fn incident_states(store: &impl IncidentStore, selection: &Selection) -> Result<Vec<IncidentState>, StoreError> {
    Ok(store.incidents(selection).await?.iter().map(IncidentState::from).collect())
}

/// A bar on stderr; hidden where that is no terminal.
fn bar(length: u64, style: &str) -> ProgressBar {
    ProgressBar::new(length).with_style(ProgressStyle::with_template(style).expect("the template is right"))
}

impl From<BackfillError> for Failure {
    fn from(error: BackfillError) -> Self {
        let exit_code = match &error {
            BackfillError::Usage(_) => 2,
            BackfillError::Kafka(floodmark_kafka::KafkaError::Setting { .. }) => 2,
            BackfillError::Kafka(floodmark_kafka::KafkaError::TopicMissing { .. }) => 2,
            BackfillError::Store(_) | BackfillError::Kafka(_) | BackfillError::File { .. } => 3,
            BackfillError::Lost(_) => 4,
        };
        Self { message: error.to_string(), exit_code }
    }
}

/// What a backfill says at its end.
#[derive(Debug, Serialize)]
struct Report {
    /// How long it took, in seconds.
    seconds: f64,
    /// What was read.
    #[serde(flatten)]
    produced: Produced,
    /// How many incidents changed how; `None` with `--no-wait`.
    incidents: Option<Changes>,
    /// What became of each incident that it may have touched.
    verdicts: Vec<Verdict>,
}

impl Report {
    fn new(produced: Produced, verdicts: Option<Vec<Verdict>>, started: Instant) -> Self {
        let incidents = verdicts.as_deref().map(Changes::of);
        Self { seconds: started.elapsed().as_secs_f64(), produced, incidents, verdicts: verdicts.unwrap_or_default() }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Produced { records, resumed, dead_letters, poison, cut_off } = &self.produced;
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
        resumed.iter().try_for_each(|place| writeln!(f, "went on where an earlier run was cut off: {place}"))?;
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
            total(verdict.after),
        ]);
    }
    shown
}
