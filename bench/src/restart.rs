//! `kill -9` under load, and a start right after it.
//!
//! Of each start three moments are measured, from the moment in which the process is started: it says that it is ready;
//! the first incident of a bug that nobody has seen, of which ten records were sent at that moment, can be read; and it
//! has caught up. Records keep coming and progress is written once a second, so caught up is: all that the brokers held
//! when the process was started, and all that they held [`LAG`] ago, is durable.

use crate::load::Load;
use crate::machine;
use crate::pipeline::median;
use crate::records::{probe, scatter};
use crate::setup::{Look, PARTITIONS, Setup, THRESHOLD, now, probe_incident};
use anyhow::{Result, bail, ensure};
use clap::Args;
use floodmark_kafka::{Outgoing, Producer};
use floodmark_model::RecordTime;
use serde::Serialize;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Measures a start after kill -9. Needs Kafka, Postgres and ClickHouse; `FLOODMARK_TEST_*` say where.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// Records a second
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// Distinct bugs
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// How often it is killed
    #[arg(long, default_value_t = 5)]
    times: u64,
    /// Seconds that it runs, caught up, before it is killed
    #[arg(long, default_value_t = 10)]
    run_seconds: u64,
    /// The engine's workers
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// The engine [default: the binary `floodmark` beside this one]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is durable may be this far behind: the topic's id is asked every second, and progress covers what was read
/// before that.
const LAG: Duration = Duration::from_millis(1_500);
/// How long one start may take.
const DEADLINE: Duration = Duration::from_secs(180);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// Seconds since the process was started.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Start {
    ready: f64,
    first_incident: f64,
    caught_up: f64,
    /// Records that were not durable when it was started.
    backlog: u64,
}

impl Restart {
    /// Measures, and prints.
    pub(crate) fn run(self) -> Result<()> {
        ensure!(self.times > 0 && self.rate > 0 && self.keys > 0, "every number is at least 1");
        let setup = Setup::new("bench restart", self.binary.clone(), self.workers)?;
        let mut engine = setup.installation.start::<&str>([]);
        engine.wait_until_ready();
        let look = Look::new(setup.postgres.url())?;
        let load = Load::start(&setup, self.rate, self.keys)?;
        let mut probes = Probes { producer: Producer::new(&setup.kafka(&[("linger.ms", "0")])?)?, sent: 0 };
        let mut starts = Vec::new();
        for _ in 0..self.times {
            self.wait_until_caught_up(&load, &look, &probes)?;
            thread::sleep(Duration::from_secs(self.run_seconds));
            engine.kill();
            let started = Instant::now();
            engine = setup.installation.start::<&str>([]);
            let incident = probes.send(setup.topic.name())?;
            let held = load.sent_at(started) + probes.records();
            let backlog = held.saturating_sub(look.durable()?);
            let mut watch = Watch::default();
            while !watch.is_complete() {
                ensure!(
                    started.elapsed() < DEADLINE,
                    "the start did not come to its end; the engine says:\n{}",
                    engine.log()
                );
                watch.note_ready(started, || engine.is_ready());
                watch.note_incident(started, || Ok(!look.found(std::slice::from_ref(&incident))?.is_empty()))?;
                watch
                    .note_caught_up(started, || Ok(look.durable()? >= held && is_caught_up(&load, &look, &probes)?))?;
                thread::sleep(LOOK);
            }
            starts.push(watch.start(backlog)?);
        }
        drop(load);
        engine.stop();
        self.print(&starts)
    }

    fn wait_until_caught_up(&self, load: &Load, look: &Look, probes: &Probes) -> Result<()> {
        let started = Instant::now();
        while load.sent_at(Instant::now()) == 0 || !is_caught_up(load, look, probes)? {
            ensure!(started.elapsed() < DEADLINE, "the engine does not keep up with {} records/s", self.rate);
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn print(&self, starts: &[Start]) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(starts)?);
            return Ok(());
        }
        println!("machine: {}", machine::describe());
        println!(
            "restart: {} times kill -9 at {} records/s of {} keys, {} workers; seconds from the start of the process",
            self.times, self.rate, self.keys, self.workers
        );
        println!("{:<34} {:>8} {:>8} {:>8}", "until", "min", "median", "max");
        type Figure = fn(&Start) -> f64;
        let figures: [(&str, Figure); 3] = [
            ("ready", |start| start.ready),
            ("first incident of a fresh bug", |start| start.first_incident),
            ("caught up", |start| start.caught_up),
        ];
        for (name, of) in figures {
            let all = || starts.iter().map(of);
            let (min, max) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
            println!("{name:<34} {min:>8.2} {:>8.2} {max:>8.2}", median(all()));
        }
        println!("records not durable at the start: {:.0} (median)", median(starts.iter().map(|s| s.backlog as f64)));
        Ok(())
    }
}

/// Whether all that the brokers held [`LAG`] ago is durable.
fn is_caught_up(load: &Load, look: &Look, probes: &Probes) -> Result<bool> {
    let Some(moment) = Instant::now().checked_sub(LAG) else { return Ok(false) };
    Ok(look.durable()? >= load.sent_at(moment) + probes.records())
}

/// What a start has reached so far.
#[derive(Default)]
struct Watch {
    ready: Option<f64>,
    incident: Option<f64>,
    caught_up: Option<f64>,
}

impl Watch {
    fn note_ready(&mut self, started: Instant, is_ready: impl FnOnce() -> bool) {
        if self.ready.is_none() && is_ready() {
            self.ready = Some(started.elapsed().as_secs_f64());
        }
    }

    fn note_incident(&mut self, started: Instant, is_there: impl FnOnce() -> Result<bool>) -> Result<()> {
        if self.incident.is_none() && is_there()? {
            self.incident = Some(started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn note_caught_up(&mut self, started: Instant, is_caught_up: impl FnOnce() -> Result<bool>) -> Result<()> {
        if self.caught_up.is_none() && is_caught_up()? {
            self.caught_up = Some(started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ready.is_some() && self.incident.is_some() && self.caught_up.is_some()
    }

    fn start(&self, backlog: u64) -> Result<Start> {
        let (Some(ready), Some(first_incident), Some(caught_up)) = (self.ready, self.incident, self.caught_up) else {
            bail!("the start is not complete");
        };
        Ok(Start { ready, first_incident, caught_up, backlog })
    }
}

/// Sends the records of bugs that nobody has seen.
struct Probes {
    producer: Producer,
    sent: u64,
}

impl Probes {
    /// Sends those of one bug; gives the id of its incident.
    fn send(&mut self, topic: &str) -> Result<String> {
        let (ts, fingerprint) = (now(), u128::from(scatter(self.sent)) << 64 | u128::from(self.sent));
        let records = (0..THRESHOLD)
            .map(|n| Outgoing::new(probe(fingerprint, ts).into_bytes()).to(n % PARTITIONS).at(RecordTime(ts.0)));
        self.producer.send_all(topic, records)?;
        self.sent += 1;
        Ok(probe_incident(fingerprint, ts).to_string())
    }

    fn records(&self) -> u64 {
        self.sent * THRESHOLD as u64
    }
}
