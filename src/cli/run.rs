//! `floodmark run`.

mod embedded;
pub(super) mod kafka;
mod process;
mod reconcile;
mod settle;
mod summary;

pub(super) use embedded::{Embedded, Inputs};

use super::arguments::{StoreArguments, refuse_password};
use super::{Failure, print, print_json};
use crate::config::Config;
use crate::config::load::Flags;
use clap::Args;
use figment::value::Value;
use floodmark_model::wire::text::{TextFormat, TextFormatError};
use std::net::SocketAddr;

/// Count: from Kafka into Postgres and ClickHouse, or embedded from files into one SQLite file.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    stores: StoreArguments,
    /// Kafka brokers, comma separated
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "embedded")]
    brokers: Option<String>,
    /// Kafka topic
    #[arg(long, conflicts_with = "embedded")]
    topic: Option<String>,
    /// Redis; accepted for later, the filter of client retries is in memory
    #[arg(long, value_name = "URL", conflicts_with = "embedded")]
    redis: Option<String>,
    /// Worker threads of the dataflow
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Where /healthz, /readyz and /metrics listen; embedded runs listen only when this is given
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Go on where the broker no longer holds the next offset; the lost range is logged
    #[arg(long, conflicts_with = "embedded")]
    accept_data_loss: bool,
    /// Files to read, patterns such as 'logs/*.log', or - for standard input; may be repeated
    #[arg(long, value_name = "GLOB|-", requires = "embedded", num_args = 1..)]
    input: Vec<String>,
    /// How the input is written: ndjson, log4j, access (Apache, nginx) or regex:PATTERN with named groups
    #[arg(long, value_name = "FORMAT", requires = "embedded", default_value = "ndjson")]
    format: String,
    /// Zone of times without one, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Print the summary of an embedded run as JSON
    #[arg(long, requires = "embedded")]
    json: bool,
}

impl Run {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut config = self.stores.load(self.flags()?)?.config;
        super::start_logging(if self.stores.embedded { "warn" } else { "info" });
        if self.stores.embedded {
            config.listen = self.listen;
            return self.run_embedded(config);
        }
        kafka::run(config)
    }

    fn run_embedded(self, config: Config) -> Result<(), Failure> {
        let (flag, patterns, format) = ("--input", self.input, text_format(&self.format)?);
        let inputs = Inputs::Named { flag, patterns, format, again: false, on_record: None };
        let embedded = Embedded { config, store: self.stores.store, inputs, on_incident: None, shows_progress: true };
        let summary = embedded.run()?;
        if self.json {
            print_json(&summary)?
        } else {
            print(&summary)?
        }
        refuse_unreadable(summary.oddities().0)
    }

    fn flags(&self) -> Result<Flags, Failure> {
        if let Some(url) = &self.redis {
            refuse_password("--redis", url)?;
        }
        let text = |key, value: &Option<String>| value.clone().map(|value| (key, Value::from(value)));
        let mut flags = vec![
            text("kafka.brokers", &self.brokers),
            text("kafka.topic", &self.topic),
            text("redis", &self.redis),
            text("time.zone", &self.tz),
            self.workers.map(|workers| ("workers", Value::from(workers))),
            self.listen.map(|address| ("listen", Value::from(address.to_string()))),
        ];
        if self.accept_data_loss {
            flags.push(Some(("kafka.accept_data_loss", Value::from(true))));
        }
        Ok(Flags(flags.into_iter().flatten().collect()))
    }
}

/// Fails where inputs could not be read to their end, once all that could be read was.
pub(super) fn refuse_unreadable(unreadable: &[String]) -> Result<(), Failure> {
    let Some(first) = unreadable.first() else { return Ok(()) };
    let others = if unreadable.len() > 1 { format!(" (and {} more)", unreadable.len() - 1) } else { String::new() };
    Err(Failure::dependency(format!(
        "{first}{others}: what could be read is counted; repair the file and give it again, it goes on from there"
    )))
}

/// The format of `--format`; `None` is JSON.
pub(super) fn text_format(text: &str) -> Result<Option<TextFormat>, Failure> {
    if text == "ndjson" {
        return Ok(None);
    }
    let wrong = |error: TextFormatError| {
        // A wrong regular expression is explained over several lines.
        let error = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        Failure::usage(format!("--format: {error}, or ndjson"))
    };
    text.parse().map(Some).map_err(wrong)
}
