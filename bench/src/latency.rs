//! From records in Kafka to the incident row in Postgres: open loop, one clock.
//!
//! At each planned instant, whatever became of the probes before it, ten records of a fingerprint that nobody has seen
//! are sent. What is measured is the time from the *planned* instant until a reader of Postgres has the row in hand, so
//! waiting anywhere counts, also in this process.

use crate::load::Load;
use crate::machine;
use crate::records::{probe, scatter};
use crate::setup::{Look, PARTITIONS, Setup, THRESHOLD, now, probe_incident};
use anyhow::{Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Measures from records in Kafka to an incident row. Needs Kafka, Postgres and ClickHouse; `FLOODMARK_TEST_*` say where.
#[derive(Debug, Args)]
pub(crate) struct Latency {
    /// Incidents that are looked for, idle and under load
    #[arg(long, default_value_t = 1_000)]
    probes: u64,
    /// Milliseconds from one planned instant to the next; by default no divisor of an epoch's 100
    #[arg(long, default_value_t = 47)]
    every_ms: u64,
    /// Records a second of the background load
    #[arg(long, default_value_t = 5_000)]
    load: u64,
    /// Distinct bugs of the background load
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// The engine's workers
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Microseconds between two looks into Postgres; they count into what is measured
    #[arg(long, default_value_t = 250)]
    look_us: u64,
    /// The engine [default: the binary `floodmark` beside this one]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Probes before the first that counts: connections, plans, caches.
const WARM_UP: u64 = 20;
/// How long the load runs before probes.
const LOAD_AHEAD: Duration = Duration::from_secs(5);
/// How long the last probes are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Times in milliseconds.
#[derive(Serialize)]
struct Report {
    under: String,
    probes: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    worst: f64,
    missing: u64,
    engine_cpu_share: f64,
}

impl Latency {
    /// Measures, and prints.
    pub(crate) fn run(self) -> Result<()> {
        ensure!(self.probes > 0 && self.every_ms > 0, "every number is at least 1");
        let setup = Setup::new("bench latency", self.binary.clone(), self.workers)?;
        let mut engine = setup.installation.start::<&str>([]);
        engine.wait_until_ready();
        let process = engine.process_id().to_string();
        let probes = Probes::new(&setup)?;
        probes.measure(0, WARM_UP, Duration::from_millis(self.every_ms), Duration::from_micros(self.look_us))?;
        let mut first = WARM_UP;
        let mut measure = |under: String| {
            let (started, cpu) = (Instant::now(), machine::cpu_seconds_of(&process));
            let every = Duration::from_millis(self.every_ms);
            let (times, missing) = probes.measure(first, self.probes, every, Duration::from_micros(self.look_us))?;
            first += self.probes;
            let cpu = (machine::cpu_seconds_of(&process) - cpu) / started.elapsed().as_secs_f64();
            let ms = |us: u64| us as f64 / 1_000.0;
            Ok::<_, anyhow::Error>(Report {
                under,
                probes: self.probes,
                p50: ms(times.value_at_quantile(0.5)),
                p90: ms(times.value_at_quantile(0.9)),
                p99: ms(times.value_at_quantile(0.99)),
                worst: ms(times.max()),
                missing,
                engine_cpu_share: cpu,
            })
        };
        let idle = measure("idle".into())?;
        let load = Load::start(&setup, self.load, self.keys)?;
        thread::sleep(LOAD_AHEAD);
        let loaded = measure(format!("{} records/s", self.load))?;
        drop(load);
        engine.stop();
        self.print(&[idle, loaded])
    }

    fn print(&self, reports: &[Report]) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(reports)?);
            return Ok(());
        }
        println!("machine: {}", machine::describe());
        println!(
            "latency: from {THRESHOLD} records in Kafka to their incident row, ms; a probe every {} ms, {} workers",
            self.every_ms, self.workers
        );
        println!(
            "{:<18} {:>7} {:>9} {:>9} {:>9} {:>9} {:>8} {:>11}",
            "background", "probes", "p50", "p90", "p99", "worst", "missing", "engine CPU"
        );
        for Report { under, probes, p50, p90, p99, worst, missing, engine_cpu_share } in reports {
            println!(
                "{under:<18} {probes:>7} {p50:>9.2} {p90:>9.2} {p99:>9.2} {worst:>9.2} {missing:>8} {:>9.0} %",
                engine_cpu_share * 100.0
            );
        }
        Ok(())
    }
}

/// Sends probes and looks for their rows.
struct Probes {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
    look: Look,
}

impl Probes {
    fn new(setup: &Setup) -> Result<Self> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", setup.topic.brokers())
            .set("linger.ms", "0")
            .set("acks", "all")
            .create()?;
        Ok(Self { producer, topic: setup.topic.name().to_owned(), look: Look::new(setup.postgres.url())? })
    }

    /// The times of `count` probes in microseconds, and how many rows were not there in time.
    fn measure(&self, first: u64, count: u64, every: Duration, look_every: Duration) -> Result<(Histogram<u64>, u64)> {
        let waiting = Mutex::new(HashMap::<String, Instant>::new());
        let is_sent = AtomicBool::new(false);
        let mut times = Histogram::new_with_bounds(1, 600_000_000, 3)?;
        thread::scope(|scope| {
            scope.spawn(|| {
                let start = Instant::now() + every;
                for n in 0..count {
                    let planned = start + every * n as u32;
                    thread::sleep(planned.saturating_duration_since(Instant::now()));
                    self.send(first + n, planned, &waiting);
                }
                is_sent.store(true, Ordering::Release);
            });
            let mut last = Instant::now();
            loop {
                let is_last = is_sent.load(Ordering::Acquire);
                let ids: Vec<String> = lock(&waiting).keys().cloned().collect();
                if is_last && (ids.is_empty() || last.elapsed() > PATIENCE) {
                    return Ok::<_, anyhow::Error>(());
                }
                if !ids.is_empty() {
                    let found = self.look.found(&ids)?;
                    let now = Instant::now();
                    for planned in found.iter().filter_map(|id| lock(&waiting).remove(id)) {
                        times.record((now - planned).as_micros() as u64)?;
                        last = now;
                    }
                }
                thread::sleep(look_every);
            }
        })?;
        let missing = lock(&waiting).len() as u64;
        Ok((times, missing))
    }

    fn send(&self, n: u64, planned: Instant, waiting: &Mutex<HashMap<String, Instant>>) {
        let (ts, fingerprint) = (now(), u128::from(scatter(n)) << 64 | u128::from(n));
        lock(waiting).insert(probe_incident(fingerprint, ts).to_string(), planned);
        let record = probe(fingerprint, ts);
        for part in 0..THRESHOLD {
            let partition = (n as i32 + part) % PARTITIONS;
            let record = BaseRecord::<(), str>::to(&self.topic).partition(partition).timestamp(ts.0).payload(&record);
            self.producer.send(record).unwrap_or_else(|(error, _)| panic!("a probe: {error}"));
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // What is not delivered by now is counted as missing.
        let _ = self.producer.flush(Duration::from_secs(5));
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
