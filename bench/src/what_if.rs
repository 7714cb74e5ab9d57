//! `what-if` over stored occurrences, against a ClickHouse query for each candidate.
//!
//! The occurrences are made by the server. The queries compute everything there, bridges and their chains included, and
//! answer one number, the candidate's incidents, which must be that of `what-if`.

use crate::machine;
use crate::pipeline::median;
use crate::store::NoIncidents;
use anyhow::{Result, ensure};
use clap::Args;
use floodmark::what_if::{Answer, CandidateAnswer, Choices, Question, ROWS_PER_PAGE, ask};
use floodmark_model::{EventTime, Rule};
use floodmark_sinks::OccurrenceStore;
use floodmark_sinks::clickhouse::{ClickHouseSettings, ClickHouseStore};
use floodmark_testkit::services::clickhouse::ClickHouseDatabase;
use serde::Serialize;
use std::time::Instant;

/// Measures candidate rules over history. Needs ClickHouse; `FLOODMARK_TEST_CLICKHOUSE` says where.
#[derive(Debug, Args)]
pub(crate) struct WhatIf {
    /// Stored occurrences
    #[arg(long, default_value_t = 10_000_000)]
    occurrences: u64,
    /// Distinct bugs
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// Days over which they are spread
    #[arg(long, default_value_t = 7)]
    days: i64,
    /// Workers of the replay
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// How often both are measured
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// 2026-01-01T00:00:00Z.
const T0: i64 = 1_767_225_600_000;
const DAY_MS: i64 = 86_400_000;
/// Occurrences of one burst, which lasts [`BURST_MS`].
const BURST: u64 = 20;
const BURST_MS: u64 = 120_000;
/// Occurrences that the server makes at once.
const INSERTED_AT_ONCE: u64 = 1_000_000;
/// Between 1900 and 1970: a multiple of every window here, so that times before 1970 would be floored as well.
const SHIFT_MS: i64 = 2_208_988_800_000;

#[derive(Debug, Serialize)]
struct Report {
    occurrences: u64,
    candidates: Vec<Candidate>,
    /// Seconds of `what-if`, in each round.
    what_if: Vec<f64>,
    /// Seconds of all queries together, in each round.
    queries: Vec<f64>,
    what_if_to_queries: f64,
    cpu_seconds: f64,
    memory_bytes_before: u64,
    peak_memory_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Candidate {
    window_ms: i64,
    threshold: u32,
    incidents: u64,
    episodes: u64,
    query_seconds: Vec<f64>,
}

impl WhatIf {
    /// Measures, and prints.
    pub(crate) fn run(self) -> Result<()> {
        ensure!(
            self.occurrences > 0 && self.keys > 0 && self.days > 0 && self.rounds > 0,
            "every number is at least 1"
        );
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let database = ClickHouseDatabase::create("bench what if");
        let store = ClickHouseStore::new(&ClickHouseSettings::new(database.url()))?;
        runtime.block_on(store.migrate())?;
        self.fill(&database);
        let question = self.question()?;
        let memory_bytes_before = machine::memory_bytes();
        let (mut what_if, mut queries, mut cpu_seconds) = (Vec::new(), Vec::new(), 0.0);
        let mut candidates: Vec<Candidate> = Vec::new();
        for _ in 0..self.rounds {
            let (started, cpu_before) = (Instant::now(), machine::cpu_seconds());
            let nothing = NoIncidents::default();
            let ask = ask(&store, &nothing, &question, self.workers, ROWS_PER_PAGE, |_, _| ());
            let answer = runtime.block_on(ask)?;
            what_if.push(started.elapsed().as_secs_f64());
            cpu_seconds = machine::cpu_seconds() - cpu_before;
            queries.push(compare(&database, &answer, &mut candidates)?);
        }
        let report = Report {
            occurrences: database.number("SELECT count() FROM occurrences FINAL"),
            candidates,
            what_if_to_queries: median(what_if.iter().copied()) / median(queries.iter().copied()),
            what_if,
            queries,
            cpu_seconds,
            memory_bytes_before,
            peak_memory_bytes: machine::peak_memory_bytes(),
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?)
        } else {
            report.print(&self)
        }
        Ok(())
    }

    fn question(&self) -> Result<Question> {
        let choices = Choices {
            thresholds: vec![5, 10, 20],
            windows_ms: vec![60_000, 300_000],
            straddles: vec![true],
            buckets: Some(10),
        };
        let (since, until) = (EventTime(T0 - DAY_MS), EventTime(T0 + (self.days + 1) * DAY_MS));
        Question::new(Rule::default(), &choices, since, until, None).map_err(anyhow::Error::msg)
    }

    /// Bursts of 20 in two minutes: the smaller a bug's number, the more frequent.
    fn fill(&self, database: &ClickHouseDatabase) {
        let mut from = 0;
        while from < self.occurrences {
            let count = INSERTED_AT_ONCE.min(self.occurrences - from);
            database.query(&format!(
                "INSERT INTO occurrences (tenant, fingerprint_bits, ts, level, service, host, message, identity, version, \
                 topic_id, `partition`, `offset`, record_time, raw) \
                 WITH intDiv(number, {BURST}) AS burst, \
                 least(cityHash64(burst, 1) % {keys}, cityHash64(burst, 2) % {keys}) AS bug, \
                 fromUnixTimestamp64Milli(toInt64({T0} + cityHash64(burst, 3) % ({days} * {DAY_MS} - {BURST_MS}) \
                 + cityHash64(number, 4) % {BURST_MS}), 'UTC') AS at \
                 SELECT concat('tenant-', toString(bug % 7)), bug + 1, at, 'error', 'checkout', 'host-1', \
                 concat('upstream ', toString(bug), ' answers 503'), reinterpretAsUInt128(sipHash128(number)), number, \
                 toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0'), 0, number, at, '{{}}' \
                 FROM numbers({from}, {count})",
                keys = self.keys,
                days = self.days,
            ));
            from += count;
        }
    }
}

/// Runs a query for each candidate; their seconds together. Each must find what `what-if` found.
fn compare(database: &ClickHouseDatabase, answer: &Answer, candidates: &mut Vec<Candidate>) -> Result<f64> {
    let mut seconds = 0.0;
    for (index, of) in answer.candidates.iter().enumerate() {
        let started = Instant::now();
        let incidents = database.number(&query(of));
        let took = started.elapsed().as_secs_f64();
        let (window_ms, threshold) = (of.window_ms, of.threshold);
        ensure!(
            incidents == of.incidents,
            "window {window_ms} ms, threshold {threshold}: what-if finds {} incidents, the query {incidents}",
            of.incidents
        );
        if candidates.len() <= index {
            let query_seconds = Vec::new();
            candidates.push(Candidate { window_ms, threshold, incidents, episodes: of.episodes, query_seconds });
        }
        candidates[index].query_seconds.push(took);
        seconds += took;
    }
    Ok(seconds)
}

/// W-4 in one query: counts per bucket, windows with the one before them, what they reach, and the chain of each bug.
fn query(candidate: &CandidateAnswer) -> String {
    let CandidateAnswer { window_ms, threshold, straddle_buckets: buckets, .. } = *candidate;
    format!(
        "WITH \
         counts AS (SELECT tenant, fingerprint_bits, \
             intDiv(toUnixTimestamp64Milli(ts) + {SHIFT_MS}, {bucket_ms}) AS bucket, sum(occurrence_count) AS n \
             FROM occurrences FINAL WHERE level >= 'warn' GROUP BY tenant, fingerprint_bits, bucket), \
         windows AS (SELECT tenant, fingerprint_bits, intDiv(bucket, {buckets}) AS w, sum(n) AS total, \
             groupArrayInsertAt(0, {buckets})(n, toUInt32(bucket % {buckets})) AS during \
             FROM counts GROUP BY tenant, fingerprint_bits, w), \
         pairs AS (SELECT tenant, fingerprint_bits, w, total, during, lagInFrame(w) OVER bug + 1 = w AS adjacent, \
             lagInFrame(total) OVER bug AS total_before, lagInFrame(during) OVER bug AS before FROM windows \
             WINDOW bug AS (PARTITION BY tenant, fingerprint_bits ORDER BY w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)), \
         reaches AS (SELECT tenant, fingerprint_bits, w, multiIf(total >= {threshold}, 2, \
             adjacent AND total + total_before >= {threshold} AND arrayExists(i -> \
             arraySum(arraySlice(before, i + 1)) + arraySum(arraySlice(during, 1, i)) >= {threshold}, \
             range(1, {buckets})), 1, 0) AS reach FROM pairs WHERE reach > 0), \
         chains AS (SELECT arraySort(groupArray((toInt64(w), toUInt8(reach)))) AS chain \
             FROM reaches GROUP BY tenant, fingerprint_bits) \
         SELECT sum(arrayFold((so_far, x) -> \
             (x.1, \
              toUInt8(x.2 = 2 OR NOT (so_far.1 + 1 = x.1 AND so_far.2 = 1)), \
              so_far.3 + toUInt64(x.2 = 2 OR NOT (so_far.1 + 1 = x.1 AND so_far.2 = 1))), \
             chain, (toInt64(-1), toUInt8(0), toUInt64(0))).3) FROM chains",
        bucket_ms = window_ms / i64::from(buckets),
    )
}

impl Report {
    fn print(&self, options: &WhatIf) {
        println!(
            "what-if: {} occurrences of {} bugs in {} days, {} candidates, {} workers, {} rounds; {}",
            self.occurrences,
            options.keys,
            options.days,
            self.candidates.len(),
            options.workers,
            self.what_if.len(),
            machine::describe()
        );
        println!("{:>10} {:>10} {:>11} {:>11} {:>10}", "window ms", "threshold", "incidents", "episodes", "query s");
        for of in &self.candidates {
            let seconds = median(of.query_seconds.iter().copied());
            println!(
                "{:>10} {:>10} {:>11} {:>11} {seconds:>10.2}",
                of.window_ms, of.threshold, of.incidents, of.episodes
            );
        }
        let all = |seconds: &[f64]| seconds.iter().map(|s| format!("{s:.2}")).collect::<Vec<_>>().join(" ");
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "what-if, all candidates:     {:.2} s  (rounds: {})",
            median(self.what_if.iter().copied()),
            all(&self.what_if)
        );
        println!(
            "a query for each, together:  {:.2} s  (rounds: {})",
            median(self.queries.iter().copied()),
            all(&self.queries)
        );
        println!("what-if / queries: {:.2}", self.what_if_to_queries);
        println!(
            "what-if itself, without the server: {:.2} s of processor, peak memory {:.0} MiB ({:.0} MiB before)",
            self.cpu_seconds,
            mib(self.peak_memory_bytes),
            mib(self.memory_bytes_before)
        );
    }
}
