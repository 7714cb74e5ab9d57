//! Running from Kafka into Postgres and ClickHouse, until somebody ends it.

use super::process::Process;
use super::reconcile::Periodic;
use crate::cli::{Failure, stores};
use crate::config::Config;
use crate::input::kafka::KafkaInput;
use crate::pipeline::commit::SameLog;
use crate::pipeline::stop::Stop;
use crate::pipeline::{Clock, OnCommit, Pipeline, SystemClock};
use crate::reconcile::LogOf;
use floodmark_kafka::{GroupOffsets, KafkaError, KafkaSettings};
use floodmark_model::progress::Progress;
use std::sync::Arc;

pub(super) fn run(config: Config) -> Result<(), Failure> {
    if config.kafka.brokers.is_empty() {
        return Err(Failure::usage(
            "kafka.brokers is not configured: give --brokers host:9092, set FLOODMARK_BROKERS, or write it into the \
             file of --config (or use --embedded, which needs no server)",
        ));
    }
    let config = Arc::new(config);
    let settings = settings(&config)?;
    let postgres = Arc::new(stores::postgres(&config)?);
    let clickhouse = Arc::new(stores::clickhouse(&config)?);
    let process = Process::start(&config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let periodic = Periodic {
        config: Arc::clone(&config),
        occurrences: stores::clickhouse(&config)?,
        incidents: stores::postgres(&config)?,
        log: Some(LogOf { settings: settings.clone(), topic: config.kafka.topic.clone() }),
        metrics: Arc::clone(&process.metrics),
        health: Arc::clone(&process.health),
        halt: process.halt.clone(),
    };
    process.runtime.spawn(periodic.run());
    process.run(|stop: Stop| {
        let same_log = SameLog::unknown();
        let input = Arc::new(KafkaInput {
            config: Arc::clone(&config),
            settings: settings.clone(),
            health: Arc::clone(&process.health),
            metrics: Arc::clone(&process.metrics),
            stop: stop.clone(),
            same_log: Arc::clone(&same_log),
            clock: Arc::clone(&clock),
        });
        let offsets = input.group_offsets().map_err(|error| refused(&error))?;
        let pipeline = Pipeline {
            config: Arc::clone(&config),
            occurrences: Arc::clone(&clickhouse),
            incidents: Arc::clone(&postgres),
            clock: Arc::clone(&clock),
            metrics: Arc::clone(&process.metrics),
            health: Arc::clone(&process.health),
            stop,
            same_log,
            on_incident: None,
            on_commit: Some(show_lag(offsets, &config)),
        };
        let mut readers =
            |progress: &Progress, workers, forget: &mut dyn FnMut() -> _| input.readers(progress, workers, forget);
        Ok(pipeline.run(process.runtime.handle(), &mut readers))
    })?;
    Ok(())
}

/// How Kafka's clients are set up.
pub(in crate::cli) fn settings(config: &Config) -> Result<KafkaSettings, Failure> {
    let (brokers, client) = (&*config.kafka.brokers, config.kafka.client.clone());
    KafkaSettings::new(brokers, "floodmark", client).map_err(|error| refused(&error))
}

/// Settings that librdkafka refuses, some of them only when a client is made.
fn refused(error: &KafkaError) -> Failure {
    match error {
        KafkaError::Setting { .. } => Failure::usage(format!("configuration: [kafka.client]: {error}")),
        _ => Failure::dependency(error),
    }
}

/// Tells Kafka what is committed, for the tools that show lag.
fn show_lag(offsets: GroupOffsets, config: &Config) -> Arc<OnCommit> {
    let topics = [(config.kafka.topic.clone(), false), (config.kafka.backfill_topic.clone(), true)];
    Arc::new(move |progress, _| {
        for (topic, is_backfill) in &topics {
            let of_topic = progress.partitions.iter().filter(|(_, progress)| progress.is_backfill() == *is_backfill);
            let next: Vec<_> = of_topic.map(|(key, progress)| (key.partition, progress.next_offset)).collect();
            if !next.is_empty()
                && let Err(error) = offsets.commit(topic, next)
            {
                tracing::debug!(%error, "the group's offsets are not shown");
            }
        }
    })
}
