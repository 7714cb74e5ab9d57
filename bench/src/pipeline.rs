//! A filled topic through the pipeline: without stores against a bare consume-and-decode loop, and with all stores
//! against a bare copy loop, in one run.

use crate::machine;
use crate::part::{Figures, Kind};
use crate::records::Shape;
use anyhow::{Context, Result, ensure};
use clap::Args;
use floodmark_model::{EventTime, RecordTime};
use floodmark_testkit::services::clickhouse::ClickHouseDatabase;
use floodmark_testkit::services::kafka::Topic;
use floodmark_testkit::services::postgres::PostgresDatabase;
use serde::Serialize;
use std::process::{Command, Stdio};

/// Measures a filled topic through the pipeline. Needs Kafka, Postgres and ClickHouse; `FLOODMARK_TEST_*` say where.
#[derive(Debug, Args)]
pub(crate) struct Pipeline {
    /// Records in the topic; their event time runs at 1,000 a second
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Distinct bugs
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// Reading threads, and workers as many
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// How often each part runs; its median is shown, and the median of the ratios
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only records that name their fingerprint
    #[arg(long, conflicts_with = "only_computed")]
    only_given: bool,
    /// Only records whose fingerprint is computed
    #[arg(long)]
    only_computed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PARTITIONS: i32 = 4;
/// Records a second of event time, and so a millisecond each.
pub(crate) const RECORD_MS: i64 = 1;
/// 2026-01-01T00:00:00Z, when the first record happened.
pub(crate) const START: EventTime = EventTime(1_767_225_600_000);

/// Kinds of calls in the table.
pub(crate) const CALLS_SHOWN: usize = 8;

/// All that one kind of records has given.
#[derive(Serialize)]
struct Report {
    fingerprint: &'static str,
    records: u64,
    record_bytes: u64,
    keys: u64,
    workers: usize,
    rounds: Vec<Round>,
    count_to_decode: f64,
    whole_to_copy: f64,
}

/// Each part once.
#[derive(Serialize)]
struct Round {
    decode: Figures,
    count: Figures,
    copy: Figures,
    whole: Figures,
}

impl Round {
    /// The pipeline without stores, until every record is judged, against the bare loop.
    fn count_to_decode(&self) -> f64 {
        self.decode.seconds / self.count.seconds
    }

    /// The whole pipeline, until progress says that all is durable, against the copy loop.
    fn whole_to_copy(&self) -> f64 {
        self.copy.seconds / self.whole.durable_seconds
    }
}

impl Pipeline {
    /// Measures, and prints.
    pub(crate) fn run(self) -> Result<()> {
        ensure!(self.rounds > 0 && self.workers > 0 && self.keys > 0 && self.records > 0, "every number is at least 1");
        let mut reports = Vec::new();
        if !self.json {
            println!("machine: {}", machine::describe());
        }
        for with_fingerprint in [true, false] {
            if if with_fingerprint { self.only_computed } else { self.only_given } {
                continue;
            }
            let report = self.measure(Shape { keys: self.keys, with_fingerprint })?;
            if !self.json {
                report.print();
            }
            reports.push(report);
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&reports)?);
        }
        Ok(())
    }

    fn measure(&self, shape: Shape) -> Result<Report> {
        let topic = Topic::create("bench pipeline", PARTITIONS);
        let mut bytes = 0;
        topic.produce((0..self.records).map(|n| {
            let ts = START.plus(n as i64 * RECORD_MS);
            let record = shape.record(n, ts);
            bytes += record.len() as u64;
            ((n % PARTITIONS as u64) as i32, RecordTime(ts.0), record)
        }));
        let rounds = (0..self.rounds).map(|_| self.round(&topic)).collect::<Result<Vec<_>>>()?;
        Ok(Report {
            fingerprint: if shape.with_fingerprint { "given" } else { "computed" },
            records: self.records,
            record_bytes: bytes / self.records,
            keys: self.keys,
            workers: self.workers,
            count_to_decode: median(rounds.iter().map(Round::count_to_decode)),
            whole_to_copy: median(rounds.iter().map(Round::whole_to_copy)),
            rounds,
        })
    }

    fn round(&self, topic: &Topic) -> Result<Round> {
        let decode = self.part(topic, Kind::Decode, &[], None)?;
        let count = self.part(topic, Kind::Count, &[], None)?;
        let whole = {
            let (postgres, clickhouse) = (PostgresDatabase::create("bench"), ClickHouseDatabase::create("bench"));
            let stores = [("FLOODMARK_POSTGRES", postgres.url()), ("FLOODMARK_CLICKHOUSE", &clickhouse.url())];
            self.part(topic, Kind::Whole, &stores, None)?
        };
        let copy = {
            let clickhouse = ClickHouseDatabase::create("bench");
            // The same rows to an insert as the pipeline had.
            let insert_bytes = whole.inserted_bytes / whole.inserts.max(1);
            self.part(topic, Kind::Copy, &[("FLOODMARK_CLICKHOUSE", &clickhouse.url())], Some(insert_bytes))?
        };
        Ok(Round { decode, count, copy, whole })
    }

    fn part(
        &self,
        topic: &Topic,
        kind: Kind,
        environment: &[(&str, &str)],
        insert_bytes: Option<u64>,
    ) -> Result<Figures> {
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FLOODMARK_")) {
            command.env_remove(name);
        }
        command
            .args(["part", kind.name(), "--records", &self.records.to_string()])
            .env("FLOODMARK_BROKERS", topic.brokers())
            .env("FLOODMARK_KAFKA__TOPIC", topic.name())
            .env("FLOODMARK_WORKERS", self.workers.to_string())
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        if let Some(bytes) = insert_bytes {
            command.args(["--insert-bytes", &bytes.to_string()]);
        }
        let output = command.output().context("start a part")?;
        ensure!(output.status.success(), "the part `{}` has failed: {}", kind.name(), output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("the part `{}`", kind.name()))
    }
}

impl Report {
    fn print(&self) {
        println!(
            "\npipeline: {} records of {} bytes, fingerprint {}, {} keys, {} workers, median of {} rounds",
            self.records,
            self.record_bytes,
            self.fingerprint,
            self.keys,
            self.workers,
            self.rounds.len()
        );
        println!(
            "{:<34} {:>10} {:>10} {:>8} {:>8} {:>9} {:>8} {:>10} {:>10}",
            "part", "records/s", "durable/s", "CPU s", "us/rec.", "peak MiB", "inserts", "rows each", "incidents"
        );
        for (name, of) in PARTS {
            self.print_part(name, of);
        }
        let all = |ratio: fn(&Round) -> f64| {
            self.rounds.iter().map(|round| format!("{:.2}", ratio(round))).collect::<Vec<_>>().join(" ")
        };
        println!("b / a  {:.2}  (rounds: {})", self.count_to_decode, all(Round::count_to_decode));
        println!("d / c  {:.2}  (rounds: {}), durable", self.whole_to_copy, all(Round::whole_to_copy));
        println!("what d asked of its stores, in the last round:");
        for calls in self.rounds.iter().next_back().into_iter().flat_map(|round| &round.whole.calls).take(CALLS_SHOWN) {
            println!("  {:<48} {:>6} calls {:>9.2} s", calls.labels, calls.count, calls.seconds);
        }
    }

    fn print_part(&self, name: &str, of: fn(&Round) -> &Figures) {
        let of_parts = |figure: fn(&Figures) -> f64| median(self.rounds.iter().map(|round| figure(of(round))));
        println!(
            "{name:<34} {:>10.0} {:>10.0} {:>8.2} {:>8.2} {:>9.0} {:>8.0} {:>10.0} {:>10.0}",
            of_parts(|part| part.records as f64 / part.seconds),
            of_parts(|part| part.records as f64 / part.durable_seconds),
            of_parts(|part| part.cpu_seconds),
            of_parts(|part| part.cpu_seconds * 1e6 / part.records as f64),
            of_parts(|part| part.peak_memory_bytes as f64 / f64::from(1 << 20)),
            of_parts(|part| part.inserts as f64),
            of_parts(|part| if part.inserts == 0 { 0.0 } else { part.records as f64 / part.inserts as f64 }),
            of_parts(|part| part.incidents as f64),
        );
    }
}

type OfRound = fn(&Round) -> &Figures;
const PARTS: [(&str, OfRound); 4] = [
    ("a  consume and decode, alone", |round| &round.decode),
    ("b  pipeline without stores", |round| &round.count),
    ("c  consume, decode, insert, alone", |round| &round.copy),
    ("d  whole pipeline", |round| &round.whole),
];

impl Kind {
    /// As the hidden subcommand takes it.
    fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Count => "count",
            Self::Copy => "copy",
            Self::Whole => "whole",
        }
    }
}

/// The middle of some figures, the lower one of two.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[(figures.len() - 1) / 2]
}
