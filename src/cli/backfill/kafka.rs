//! A backfill into the topic that the engine reads.

use super::report::Report;
use super::{incident_states, judging};
use crate::backfill::BackfillError;
use crate::backfill::compare::{IncidentState, Verdict, compare};
use crate::backfill::files::{FileProducer, Written};
use crate::backfill::find::{BackfillFiles, find};
use crate::backfill::range::Place;
use crate::backfill::report::Produced;
use crate::backfill::send::Sender;
use crate::backfill::topic::{TopicProducer, TopicRange};
use crate::backfill::touched::Touched;
use crate::backfill::wait::{Engine, Goal, until_durable};
use crate::cli::{Failure, runtime, stores};
use crate::config::Config;
use crate::input::files::written;
use crate::pipeline::{Clock, SystemClock};
use floodmark_kafka::{KafkaSettings, Topics};
use floodmark_model::{RecordTime, Rule};
use floodmark_sinks::IncidentStore;
use floodmark_sinks::postgres::PostgresStore;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long a broker may take to answer one question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What is backfilled.
pub(super) enum Source {
    Files { patterns: Vec<String>, written: Written, again: bool },
    Topic { name: String, from: Option<Place>, to: Option<Place> },
}

/// Whether and how long to wait until all is counted.
pub(super) enum Wait {
    Not,
    AtMost(Option<Duration>),
}

/// Sends what `source` names, waits until it is counted, and says what that changed.
pub(super) fn run(config: Config, source: Source, wait: &Wait) -> Result<Report, Failure> {
    let started = Instant::now();
    let connected = Connected::new(config)?;
    let mut work = Work::default();
    let sender = connected.send(source, &mut work)?;
    let verdicts = match wait {
        Wait::Not => None,
        Wait::AtMost(timeout) => Some(connected.verdict(&sender, &work, *timeout)?),
    };
    connected.forget(&work)?;
    Ok(Report::new(work.produced, verdicts, started))
}

/// What was sent, and is remembered until the verdict is there.
enum Sent {
    Files(BackfillFiles),
    Topic(TopicRange),
}

/// One backfill on its way.
#[derive(Default)]
struct Work {
    before: Vec<IncidentState>,
    produced: Produced,
    touched: Touched,
    sent: Option<Sent>,
}

/// The services that a backfill works with.
struct Connected {
    config: Config,
    settings: KafkaSettings,
    topics: Topics,
    postgres: PostgresStore,
    runtime: Runtime,
    /// The rules that may judge what is sent.
    rules: Vec<Rule>,
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
        let settings = crate::cli::run::kafka::settings(&config)?;
        let topics = Topics::new(&settings, ANSWER_TIMEOUT).map_err(BackfillError::from)?;
        let mut connected = Self { config, settings, topics, postgres, runtime: runtime()?, rules: Vec::new() };
        let stored = connected.wait(async {
            connected.postgres.migrate().await?;
            Ok(connected.postgres.rules().await?)
        })?;
        connected.rules = judging(&connected.config.rules, &stored);
        Ok(connected)
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, BackfillError>>) -> Result<T, Failure> {
        Ok(self.runtime.block_on(work)?)
    }

    /// What can be wrong with the arguments is said before anything is sent.
    fn send(&self, source: Source, work: &mut Work) -> Result<Sender, Failure> {
        let now = RecordTime(SystemClock.now_ms());
        match source {
            Source::Files { patterns, written: how, again } => {
                let words = written(&self.config, how.format.as_ref());
                let files = self.wait(find(&self.postgres, &patterns, (&words, again), now))?;
                let mut sender = self.begin(work)?;
                work.produced.unreadable.extend(files.unreadable.iter().cloned());
                self.send_files(&files, &how, &mut sender, work)?;
                work.sent = Some(Sent::Files(files));
                Ok(sender)
            }
            Source::Topic { name, from, to } => {
                if name == self.config.kafka.backfill_topic {
                    let why = "--topic: this is the topic into which backfill writes: name the original one";
                    return Err(Failure::usage(why));
                }
                let mut sender = self.begin(work)?;
                let clients = (&self.settings, &self.topics);
                let range = TopicRange::find(&self.postgres, clients, &name, (from, to), sender.topic(), now);
                let mut range = self.wait(range)?;
                self.send_topic(&mut range, &mut sender, work)?;
                work.sent = Some(Sent::Topic(range));
                Ok(sender)
            }
        }
    }

    fn begin(&self, work: &mut Work) -> Result<Sender, Failure> {
        let kafka = &self.config.kafka;
        let max_record_bytes = self.config.limits.max_record_bytes;
        let sender = Sender::new(&self.settings, &self.topics, &kafka.backfill_topic, &kafka.topic, max_record_bytes)?;
        work.before = self.wait(async { Ok(incident_states(&self.postgres).await?) })?;
        Ok(sender)
    }

    fn send_files(
        &self,
        files: &BackfillFiles,
        written: &Written,
        sender: &mut Sender,
        work: &mut Work,
    ) -> Result<(), Failure> {
        let style = "{bar:40} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
        let bar = bar(files.disk_bytes, style);
        // The zone that the header names is also that of the local look at each record.
        let (store, runtime, config, rules) = (&self.postgres, self.runtime.handle(), &self.config, &self.rules);
        let Work { produced, touched, .. } = work;
        let mut producer = FileProducer { sender, store, runtime, config, rules, written, produced, touched };
        for file in &files.files {
            let bar = bar.clone();
            producer.send(file, move |bytes| bar.inc(bytes))?;
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn send_topic(&self, range: &mut TopicRange, sender: &mut Sender, work: &mut Work) -> Result<(), Failure> {
        let records = range.records();
        let bar = bar(records, "{bar:40} {pos}/{len} records  {per_sec}  {eta} left");
        let (settings, topics, store) = (&self.settings, &self.topics, &self.postgres);
        let (runtime, config, rules) = (self.runtime.handle(), &self.config, &self.rules);
        let Work { produced, touched, .. } = work;
        TopicProducer { sender, settings, topics, store, runtime, config, rules, produced, touched }
            .send(range, |left| bar.set_position(records - left.min(records)))?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Waits until what was sent is counted, and compares.
    fn verdict(&self, sender: &Sender, work: &Work, timeout: Option<Duration>) -> Result<Vec<Verdict>, Failure> {
        let goal = Goal::now(&self.topics, sender.topic(), sender.partitions())?;
        let all = goal.missing(&floodmark_model::progress::Progress::default());
        let bar = bar(all, "{bar:40} {pos}/{len} records counted  {msg}");
        let mut said = Engine::Alive;
        self.wait(until_durable(&self.postgres, &goal, timeout, |missing, engine| {
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
        let after = self.wait(async { Ok(incident_states(&self.postgres).await?) })?;
        let Work { before, touched, .. } = work;
        Ok(compare(&touched.of(before.clone()), &touched.of(after)))
    }

    /// It is finished: from now on the same files or records are another backfill.
    fn forget(&self, work: &Work) -> Result<(), Failure> {
        self.wait(async {
            match &work.sent {
                None => Ok(()),
                Some(Sent::Topic(range)) => range.forget(&self.postgres).await,
                Some(Sent::Files(files)) => {
                    for file in &files.files {
                        FileProducer::forget(&self.postgres, file).await?;
                    }
                    Ok(())
                }
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
            BackfillError::Store(_) | BackfillError::Kafka(_) | BackfillError::NotCounted(_) => 3,
            BackfillError::Lost(_) => 4,
        };
        Self { message: error.to_string(), exit_code }
    }
}
