//! `floodmark backfill`.

mod kafka;
mod report;

use super::arguments::StoreArguments;
use super::run::{Embedded, Inputs, refuse_unreadable, text_format};
use super::{Failure, print, print_json, runtime};
use crate::backfill::compare::{IncidentState, compare};
use crate::backfill::files::Written;
use crate::backfill::range::Place;
use crate::backfill::report::Produced;
use crate::backfill::touched::Touched;
use crate::config::Config;
use crate::config::load::Flags;
use crate::config::units::Span;
use crate::input::files::OnRecord;
use crate::rules::as_stored;
use clap::Args;
use figment::value::Value;
use floodmark_model::Rule;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{IncidentStore, Selection, StoreError};
use kafka::{Source, Wait};
use report::Report;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    /// Count whole files as new inputs, also those that were changed, or read in another format, since they were read:
    /// what was counted of them counts twice, unless it has event ids. If such a run is interrupted, go on without it
    #[arg(long, conflicts_with = "topic")]
    again: bool,
    /// Wait no longer than this, such as 10m, until everything is counted; then the exit code is 3
    #[arg(long, value_name = "SPAN", conflicts_with_all = ["embedded", "no_wait"])]
    wait_timeout: Option<Span>,
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
        if json {
            print_json(&report)?
        } else {
            print(&report)?
        }
        refuse_unreadable(&report.produced.unreadable)
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
        let before = if path.exists() { Snapshot::read(&SqliteStore::open(&path))? } else { Snapshot::default() };
        let (watched, on_record) = Watched::new(judging(&config.rules, &before.rules));
        let inputs = Inputs::Named {
            flag: "FILE",
            patterns: self.files,
            format: text_format(&self.format)?,
            again: self.again,
            on_record: Some(on_record),
        };
        let embedded = Embedded { config, store: path.clone(), inputs, on_incident: None, shows_progress: true };
        let summary = embedded.run()?;
        let after = Snapshot::read(&SqliteStore::open_read_only(&path))?;
        let Watched { mut produced, touched } =
            std::mem::take(&mut *watched.lock().unwrap_or_else(PoisonError::into_inner));
        let (unreadable, hints) = summary.oddities();
        (produced.unreadable, produced.hints) = (unreadable.to_vec(), hints.to_vec());
        produced.records = summary.records().0.read;
        let verdicts = compare(&touched.of(before.incidents), &touched.of(after.incidents));
        Ok(Report::new(produced, Some(verdicts), started))
    }

    fn run_kafka(self, config: Config) -> Result<Report, Failure> {
        let place = |flag, text: &Option<String>| text.as_deref().map(|text| Place::read(flag, text)).transpose();
        let timeout = self.wait_timeout.map(|span| Duration::from_millis(span.0.max(0).unsigned_abs()));
        let wait = if self.no_wait { Wait::Not } else { Wait::AtMost(timeout) };
        let source = match self.topic {
            Some(name) => Source::Topic { name, from: place("--from", &self.from)?, to: place("--to", &self.to)? },
            None => {
                let written = Written { format: text_format(&self.format)?, zone: self.tz };
                Source::Files { patterns: self.files, written, again: self.again }
            }
        };
        kafka::run(config, source, &wait)
    }
}

/// What a store says before and after.
#[derive(Default)]
struct Snapshot {
    incidents: Vec<IncidentState>,
    rules: Vec<Rule>,
}

impl Snapshot {
    fn read(store: &Result<SqliteStore, StoreError>) -> Result<Self, Failure> {
        let store = store.as_ref().map_err(Failure::dependency)?;
        let read = async { Ok::<_, StoreError>((incident_states(store).await?, store.rules().await?)) };
        let (incidents, rules) = runtime()?.block_on(read).map_err(Failure::dependency)?;
        Ok(Self { incidents, rules })
    }
}

/// What is seen of records while an embedded run reads them.
#[derive(Default)]
struct Watched {
    produced: Produced,
    touched: Touched,
}

impl Watched {
    fn new(rules: Vec<Rule>) -> (Arc<Mutex<Self>>, Arc<OnRecord>) {
        let watched = Arc::new(Mutex::new(Self::default()));
        let seen = Arc::clone(&watched);
        let on_record: Arc<OnRecord> = Arc::new(move |name, line, decoded| {
            let Self { produced, touched } = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner);
            match decoded {
                Err(rejected) => produced.rejected(rejected, || format!("{name}:{line}")),
                Ok(Some(occurrence)) => touched.add(&rules, occurrence),
                Ok(None) => {}
            }
        });
        (watched, on_record)
    }
}

/// The rules by which records may be judged: as the engine has stored them, and as it will find them when it starts.
fn judging(configured: &[Rule], stored: &[Rule]) -> Vec<Rule> {
    let mut rules = as_stored(configured, stored);
    rules.extend(configured.iter().filter(|rule| !stored.contains(rule)).cloned());
    rules
}

/// The incidents, sorted by window, as far as they are compared.
async fn incident_states(store: &impl IncidentStore) -> Result<Vec<IncidentState>, StoreError> {
    Ok(store.incidents(&Selection::default()).await?.iter().map(IncidentState::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::wire::{DecodeSettings, json};
    use floodmark_model::{Coordinates, EventTime, RawRecord, RecordTime, TopicId};

    #[test]
    fn q51_what_an_older_version_of_a_rule_counts_is_touched_too() {
        let of_tenant = |tenant: &str| {
            let mut rule = Rule::default();
            rule.matches.tenants = vec![tenant.into()];
            rule
        };
        let (old, new) = (of_tenant("old"), of_tenant("new"));
        let stored = old.changed_to(&new, Some(EventTime(1_000_000))).unwrap();
        let rules = judging(&[new], &[stored]);
        let touched = |tenant: &str| {
            let payload = format!(r#"{{"ts":1.0,"tenant":"{tenant}","message":"x"}}"#);
            let at = Coordinates { topic_id: TopicId([0; 16]), partition: 0, offset: 0 };
            let raw = RawRecord { at, record_time: RecordTime(2_000), payload: Some(payload.as_bytes()) };
            let occurrence = json::decode(raw, &DecodeSettings::default()).unwrap();
            rules.iter().any(|rule| rule.counts(&occurrence))
        };
        assert!(touched("old") && touched("new") && !touched("other"));
    }
}
