//! Backfill against the live pipeline, on the same records.
//!
//! Live, they lie in a topic, and an engine is started on it. As a backfill they are a file for the command, beside an
//! engine that runs and has seen later records, so that all of them are late. The same file once more shows what it
//! costs to find that nothing changes. Live, the later records are the last ones of the topic: each way every window is
//! closed in the end, and rows, totals and incidents must be the same.

mod command;
mod state;

use crate::machine;
use crate::part::{Calls, calls};
use crate::pipeline::{CALLS_SHOWN, RECORD_MS, START, median};
use crate::records::{Shape, probe};
use crate::setup::{Look, PARTITIONS, Setup};
use anyhow::{Context, Result, ensure};
use clap::Args;
use command::{Bed, Changes};
use floodmark_kafka::Admin;
use floodmark_model::{EventTime, RecordTime};
use floodmark_testkit::services::engine::Engine;
use serde::Serialize;
use state::State;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Measures a backfill against the live pipeline. Needs Kafka, Postgres and ClickHouse; `FLOODMARK_TEST_*` say where.
#[derive(Debug, Args)]
pub(crate) struct Backfill {
    /// Records; their event time runs at 1,000 a second
    #[arg(long, default_value_t = 500_000)]
    records: u64,
    /// Distinct bugs
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// The engine's workers
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// How often each way is measured; its median is shown, and the median of the ratios
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Compress the file
    #[arg(long)]
    zstd: bool,
    /// The engine [default: the binary `floodmark` beside this one]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How far the later records lie behind the last one that is measured: no window of one is that of the other.
const AHEAD_MS: i64 = 86_400_000;
/// How long one way may take.
const DEADLINE: Duration = Duration::from_secs(900);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
const ZSTD_LEVEL: i32 = 3;

/// All that was measured.
#[derive(Serialize)]
struct Report {
    records: u64,
    record_bytes: u64,
    file_bytes: u64,
    keys: u64,
    workers: usize,
    rounds: Vec<Round>,
    /// Records a second of the backfill, against those of the live pipeline.
    backfill_to_live: f64,
    again_to_live: f64,
}

/// Each way once.
#[derive(Serialize)]
struct Round {
    live: Figures,
    backfill: Figures,
    again: Figures,
}

impl Round {
    fn backfill_to_live(&self) -> f64 {
        self.live.seconds / self.backfill.seconds
    }

    fn again_to_live(&self) -> f64 {
        self.live.seconds / self.again.seconds
    }
}

/// Seconds count from the start of the process: of the engine live, of the command otherwise.
#[derive(Serialize)]
struct Figures {
    /// Until the backfill topic held every record; live 0.
    sent_seconds: f64,
    /// Until progress said that all of them are durable.
    durable_seconds: f64,
    /// Live, until all closing is stored as well; otherwise until the command has ended with its verdicts.
    seconds: f64,
    engine: Usage,
    command: Usage,
    /// What the engine asked of its stores meanwhile, the longest in all first.
    calls: Vec<Calls>,
    incidents: usize,
}

/// What a process has used.
#[derive(Clone, Copy, Default, Serialize)]
struct Usage {
    cpu_seconds: f64,
    peak_memory_bytes: u64,
}

impl Usage {
    fn of(process: &str) -> Self {
        Self {
            cpu_seconds: machine::cpu_seconds_of(process),
            peak_memory_bytes: machine::peak_memory_bytes_of(process),
        }
    }

    /// Of a process that may have ended since it was looked at before.
    fn grown_to(self, latest: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds.max(latest.cpu_seconds),
            peak_memory_bytes: self.peak_memory_bytes.max(latest.peak_memory_bytes),
        }
    }
}

impl Backfill {
    /// Measures, and prints.
    pub(crate) fn run(self) -> Result<()> {
        ensure!(self.rounds > 0 && self.workers > 0 && self.keys > 0 && self.records > 0, "every number is at least 1");
        if !self.json {
            println!("machine: {}", machine::describe());
        }
        let (mut rounds, mut file_bytes) = (Vec::new(), 0);
        for _ in 0..self.rounds {
            let (live, wanted) = self.live()?;
            let (backfill, again) = self.late(&wanted, &mut file_bytes)?;
            rounds.push(Round { live, backfill, again });
        }
        let report = Report {
            records: self.records,
            record_bytes: self.lines().map(|(_, line)| line.len() as u64).sum::<u64>() / self.records,
            file_bytes,
            keys: self.keys,
            workers: self.workers,
            backfill_to_live: median(rounds.iter().map(Round::backfill_to_live)),
            again_to_live: median(rounds.iter().map(Round::again_to_live)),
            rounds,
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            report.print();
        }
        Ok(())
    }

    /// The records that are measured.
    fn lines(&self) -> impl Iterator<Item = (EventTime, String)> {
        let shape = Shape { keys: self.keys, with_fingerprint: true };
        (0..self.records).map(move |n| {
            let ts = START.plus(n as i64 * RECORD_MS);
            (ts, shape.record(n, ts))
        })
    }

    /// A later record for each partition.
    fn later(&self) -> impl Iterator<Item = (i32, RecordTime, String)> {
        let ts = self.end().plus(AHEAD_MS);
        (0..PARTITIONS).map(move |partition| (partition, RecordTime(ts.0), probe(1, ts)))
    }

    /// Behind the last record that is measured.
    fn end(&self) -> EventTime {
        START.plus(self.records as i64 * RECORD_MS)
    }

    fn live(&self) -> Result<(Figures, State)> {
        let setup = self.setup("bench live")?;
        let of_partition = |n: u64| (n % PARTITIONS as u64) as i32;
        let records = (0..).zip(self.lines()).map(|(n, (ts, line))| (of_partition(n), RecordTime(ts.0), line));
        setup.topic.produce(records.chain(self.later()));
        let look = Look::new(setup.postgres.url())?;
        let started = Instant::now();
        let engine = setup.installation.start::<&str>([]);
        wait_until(&engine, || Ok(look.durable()? >= self.records + PARTITIONS as u64))?;
        let durable_seconds = started.elapsed().as_secs_f64();
        wait_until(&engine, || Ok(look.closed_to()? >= self.end()))?;
        let seconds = started.elapsed().as_secs_f64();
        let usage = Usage::of(&engine.process_id().to_string());
        ensure!(late(&engine)? == 0.0, "live, no record may be late");
        let state = State::of(&setup);
        let figures = Figures {
            sent_seconds: 0.0,
            durable_seconds,
            seconds,
            engine: usage,
            command: Usage::default(),
            calls: calls(&metrics(&engine)?),
            incidents: state.incidents.len(),
        };
        engine.stop();
        Ok((figures, state))
    }

    /// The file once, and once more.
    fn late(&self, wanted: &State, file_bytes: &mut u64) -> Result<(Figures, Figures)> {
        let setup = self.setup("bench backfill")?;
        Admin::new(&setup.kafka(&[])?)?.create_topic(setup.backfill_topic.name(), PARTITIONS, &[])?;
        setup.topic.produce(self.later());
        let look = Look::new(setup.postgres.url())?;
        let mut engine = setup.installation.start::<&str>([]);
        engine.wait_until_ready();
        wait_until(&engine, || Ok(look.durable()? >= PARTITIONS as u64 && look.closed_to()? >= self.end()))?;
        let path = setup.installation.folder().join("records.ndjson");
        let bytes = self.write(&path)?;
        *file_bytes = fs::metadata(&path)?.len();

        let bed = Bed { setup: &setup, look: &look, engine: &engine, path: &path, bytes, records: self.records };
        let (first, changes) = bed.backfill()?;
        ensure!(late(&engine)? >= self.records as f64, "every record of the file must be late");
        wanted.check(&State::of(&setup), "the backfill")?;
        let all_new = Changes { new: wanted.incidents.len(), ..Changes::default() };
        ensure!(
            changes == all_new,
            "the verdict is {changes:?} where all {} incidents are new",
            wanted.incidents.len()
        );
        let (again, changes) = bed.backfill()?;
        wanted.check(&State::of(&setup), "the second backfill of the file")?;
        let unchanged = Changes { unchanged: wanted.incidents.len(), ..Changes::default() };
        ensure!(changes == unchanged, "the second verdict is {changes:?} where nothing has changed");
        engine.stop();
        Ok((first, again))
    }

    fn setup(&self, name: &str) -> Result<Setup> {
        let setup = Setup::new(name, self.binary.clone(), self.workers)?;
        // What the first start pays for once and for all is not measured.
        let migrated = setup.installation.output::<&str>("migrate", []);
        ensure!(migrated.exit_code == Some(0), "floodmark migrate: {}", migrated.stderr);
        Ok(setup)
    }

    /// Writes the file; says how many bytes it has when it is not compressed.
    fn write(&self, path: &Path) -> Result<u64> {
        let file = BufWriter::new(File::create(path)?);
        let mut file: Box<dyn Write> =
            if self.zstd { Box::new(zstd::Encoder::new(file, ZSTD_LEVEL)?.auto_finish()) } else { Box::new(file) };
        let mut bytes = 0;
        for (_, mut line) in self.lines() {
            line.push('\n');
            bytes += line.len() as u64;
            file.write_all(line.as_bytes())?;
        }
        file.flush()?;
        Ok(bytes)
    }
}

fn wait_until(engine: &Engine, is_done: impl Fn() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !is_done()? {
        ensure!(started.elapsed() < DEADLINE, "not durable in time; the engine says:\n{}", engine.log());
        thread::sleep(LOOK);
    }
    Ok(())
}

fn metrics(engine: &Engine) -> Result<String> {
    Ok(engine.get("/metrics").context("the engine does not show its metrics")?.body)
}

fn late(engine: &Engine) -> Result<f64> {
    engine.metric("floodmark_occurrences_late_total", "").context("the engine does not count late occurrences")
}

type OfRound = fn(&Round) -> &Figures;
const WAYS: [(&str, OfRound); 3] = [
    ("a  live", |round| &round.live),
    ("b  backfill", |round| &round.backfill),
    ("c  the same again", |round| &round.again),
];

impl Report {
    fn print(&self) {
        println!(
            "backfill: {} records of {} bytes, fingerprint given, a file of {:.0} MiB, {} keys, {} workers, median of \
             {} rounds",
            self.records,
            self.record_bytes,
            mib(self.file_bytes),
            self.keys,
            self.workers,
            self.rounds.len()
        );
        println!(
            "{:<20} {:>10} {:>9} {:>9} {:>9} {:>13} {:>9} {:>14} {:>9} {:>10}",
            "way",
            "records/s",
            "in topic",
            "durable",
            "ended",
            "engine us/rec",
            "peak MiB",
            "command us/rec",
            "peak MiB",
            "incidents"
        );
        WAYS.iter().for_each(|(name, of)| self.print_way(name, *of));
        let all = |ratio: fn(&Round) -> f64| {
            self.rounds.iter().map(|round| format!("{:.2}", ratio(round))).collect::<Vec<_>>().join(" ")
        };
        println!("b / a  {:.2}  (rounds: {})", self.backfill_to_live, all(Round::backfill_to_live));
        println!("c / a  {:.2}  (rounds: {})", self.again_to_live, all(Round::again_to_live));
        for (name, of) in WAYS {
            println!("what the engine asked of its stores, in the last round of {name}:");
            for calls in self.rounds.iter().next_back().into_iter().flat_map(|round| &of(round).calls).take(CALLS_SHOWN)
            {
                println!("  {:<48} {:>6} calls {:>9.2} s", calls.labels, calls.count, calls.seconds);
            }
        }
    }

    fn print_way(&self, name: &str, of: OfRound) {
        let of_ways = |figure: fn(&Figures) -> f64| median(self.rounds.iter().map(|round| figure(of(round))));
        let records = self.records as f64;
        println!(
            "{name:<20} {:>10.0} {:>7.2} s {:>7.2} s {:>7.2} s {:>13.2} {:>9.0} {:>14.2} {:>9.0} {:>10.0}",
            records / of_ways(|way| way.seconds),
            of_ways(|way| way.sent_seconds),
            of_ways(|way| way.durable_seconds),
            of_ways(|way| way.seconds),
            of_ways(|way| way.engine.cpu_seconds) * 1e6 / records,
            of_ways(|way| mib(way.engine.peak_memory_bytes)),
            of_ways(|way| way.command.cpu_seconds) * 1e6 / records,
            of_ways(|way| mib(way.command.peak_memory_bytes)),
            of_ways(|way| way.incidents as f64),
        );
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
