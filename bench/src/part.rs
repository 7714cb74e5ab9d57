//! One part of `pipeline` in a process of its own, so that its processor time and its peak memory are its own.
//!
//! The clock runs from the moment in which the reading threads start, before they have connected, in every part alike.
//! Settings come as `FLOODMARK_*` variables, as the product reads them; figures go to standard output as JSON.

use crate::machine;
use crate::store::{Counted, NoIncidents, NoRows};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use crossbeam_channel::{Receiver, Sender, bounded};
use floodmark::config::Config;
use floodmark::config::load::{Flags, load};
use floodmark::input::decode::Decoder;
use floodmark::input::kafka::KafkaInput;
use floodmark::metrics::Metrics;
use floodmark::pipeline::commit::SameLog;
use floodmark::pipeline::health::Health;
use floodmark::pipeline::persist::Ended;
use floodmark::pipeline::stop::{Ending, Stop};
use floodmark::pipeline::{Clock, Pipeline, Reader, Seat, SystemClock};
use floodmark_kafka::start::starts;
use floodmark_kafka::{Event, KafkaSettings, PartitionReader, Record, Topics, owned};
use floodmark_model::progress::Progress;
use floodmark_sinks::clickhouse::{ClickHouseSettings, ClickHouseStore};
use floodmark_sinks::postgres::PostgresStore;
use floodmark_sinks::rows::RowBlock;
use floodmark_sinks::{IncidentStore, OccurrenceStore};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long a part may take before its process ends.
const DEADLINE: Duration = Duration::from_secs(900);
/// How long a broker may take to answer one question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a poll waits for its first record, as in the product.
const POLL_WAIT: Duration = Duration::from_millis(50);
/// Bytes of rows in one block, as in the product.
const BLOCK_BYTES: usize = 1 << 20;
/// Threads that insert, as in the product.
const INSERTERS: usize = 2;

/// Runs one part of `pipeline`.
#[derive(Debug, Args)]
pub(crate) struct Part {
    kind: Kind,
    /// Records in the topic
    #[arg(long)]
    records: u64,
    /// Bytes of rows in one insert of the copy loop
    #[arg(long, default_value_t = 8 << 20)]
    insert_bytes: usize,
}

/// The parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Consumes and decodes, and does nothing else.
    Decode,
    /// The pipeline with stores that acknowledge at once.
    Count,
    /// Consumes, decodes, encodes rows and inserts them, and does nothing else.
    Copy,
    /// The pipeline with Postgres and ClickHouse.
    Whole,
}

/// What a part has measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Which part.
    pub(crate) part: Kind,
    /// Records read.
    pub(crate) records: u64,
    /// Until the last of them was decoded, counted and its row acknowledged, as far as the part does that.
    pub(crate) seconds: f64,
    /// Until progress said that all of them and all they caused are durable; for a loop the same as `seconds`.
    pub(crate) durable_seconds: f64,
    /// Processor time of the process from start to `durable_seconds`, user and system.
    pub(crate) cpu_seconds: f64,
    /// Peak resident memory of the process.
    pub(crate) peak_memory_bytes: u64,
    /// Inserts of rows.
    pub(crate) inserts: u64,
    /// Bytes of rows in all inserts.
    pub(crate) inserted_bytes: u64,
    /// Incidents that became due.
    pub(crate) incidents: u64,
    /// What the stores were asked to do, the longest in all first.
    pub(crate) calls: Vec<Calls>,
}

/// All calls of one kind to one store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Calls {
    /// Store and action, as the metric `sink_seconds` labels them.
    pub(crate) labels: String,
    /// How many.
    pub(crate) count: u64,
    /// How long they took, added up.
    pub(crate) seconds: f64,
}

/// The calls that metrics, as `/metrics` shows them, have timed.
pub(crate) fn calls(text: &str) -> Vec<Calls> {
    let series = |line: &str, name: &str| {
        let (labels, value) = line.strip_prefix(name)?.split_once("} ")?;
        Some((labels.to_owned(), value.parse::<f64>().ok()?))
    };
    let counts: BTreeMap<_, _> =
        text.lines().filter_map(|line| series(line, "floodmark_sink_seconds_count{")).collect();
    let seconds = text.lines().filter_map(|line| series(line, "floodmark_sink_seconds_sum{"));
    let calls =
        |(labels, seconds)| Calls { count: counts.get(&labels).map_or(0, |count| *count as u64), labels, seconds };
    let mut calls: Vec<_> = seconds.map(calls).collect();
    calls.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    calls
}

impl Part {
    /// Runs it, and prints its figures.
    pub(crate) fn run(self) -> Result<()> {
        thread::spawn(|| {
            thread::sleep(DEADLINE);
            eprintln!("floodmark-bench: a part did not end within {DEADLINE:?}");
            exit(3);
        });
        let config = Arc::new(load(None, Flags::default())?.config);
        let figures = match self.kind {
            Kind::Decode => self.decode(&config)?,
            Kind::Copy => self.copy(&config)?,
            Kind::Count => self.pipeline(config, NoRows, NoIncidents::default())?,
            Kind::Whole => {
                let incidents = PostgresStore::new(config.postgres.reveal(), &config.pipeline)?;
                let rows = clickhouse(&config)?;
                self.pipeline(config, rows, incidents)?
            }
        };
        println!("{}", serde_json::to_string(&figures)?);
        Ok(())
    }

    fn decode(&self, config: &Config) -> Result<Figures> {
        let readers = readers(config)?;
        let started = Started::now();
        let read = thread::scope(|scope| {
            let decoding = |reader: Partitions| scope.spawn(move || decode(reader, config));
            let threads: Vec<_> = readers.into_iter().map(decoding).collect();
            threads.into_iter().map(join).sum::<Result<u64>>()
        })?;
        ensure!(read == self.records, "read {read} records");
        Ok(started.figures(self, Counts::default()))
    }

    fn copy(&self, config: &Config) -> Result<Figures> {
        let runtime = runtime()?;
        let store = Counted::new(clickhouse(config)?);
        runtime.block_on(store.migrate())?;
        let readers = readers(config)?;
        let (full, to_insert) = bounded::<Vec<RowBlock>>(INSERTERS);
        let started = Started::now();
        thread::scope(|scope| {
            let inserters: Vec<_> = (0..INSERTERS)
                .map(|_| {
                    let (to_insert, store, runtime) = (to_insert.clone(), &store, runtime.handle());
                    scope.spawn(move || insert_all(store, &to_insert, runtime))
                })
                .collect();
            drop(to_insert);
            let copiers: Vec<_> = readers
                .into_iter()
                .map(|reader| {
                    let full = full.clone();
                    scope.spawn(move || copy(reader, config, self.insert_bytes, &full))
                })
                .collect();
            drop(full);
            copiers.into_iter().chain(inserters).try_for_each(join)
        })?;
        ensure!(store.rows() == self.records, "{} rows were inserted", store.rows());
        Ok(started.figures(self, Counts::of(&store)))
    }

    fn pipeline<O: OccurrenceStore, I: IncidentStore>(
        &self,
        config: Arc<Config>,
        rows: O,
        incidents: I,
    ) -> Result<Figures> {
        let runtime = runtime()?;
        let (rows, metrics, stop) = (Arc::new(Counted::new(rows)), Arc::new(Metrics::default()), Stop::default());
        let (due, durable) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (health, same_log) = (Arc::new(Health::starting()), SameLog::always());
        let input = Arc::new(KafkaInput {
            settings: settings(&config)?,
            config: Arc::clone(&config),
            health: Arc::clone(&health),
            metrics: Arc::clone(&metrics),
            stop: stop.clone(),
            // What is durable is to be committed at once, not when the topic's id was asked again.
            same_log: Arc::clone(&same_log),
            clock: Arc::clone(&clock),
        });
        let next_offsets = Mutex::new(BTreeMap::new());
        let (counting, committing) = (Arc::clone(&due), Arc::clone(&durable));
        let pipeline = Pipeline {
            config,
            occurrences: Arc::clone(&rows),
            incidents: Arc::new(incidents),
            clock,
            metrics: Arc::clone(&metrics),
            health,
            stop: stop.clone(),
            same_log,
            on_incident: Some(Arc::new(move |_| _ = counting.fetch_add(1, Ordering::Relaxed))),
            on_commit: Some(Arc::new(move |progress, _| {
                // A commit names the partitions that have moved.
                let mut next_offsets = next_offsets.lock().unwrap_or_else(PoisonError::into_inner);
                next_offsets
                    .extend(progress.partitions.iter().map(|(key, progress)| (*key, progress.next_offset as u64)));
                committing.store(next_offsets.values().sum(), Ordering::Release);
            })),
        };
        let started = Arc::new(OnceLock::new());
        let watch = Watch { records: self.records, rows: &rows, metrics: &metrics, durable: &durable, stop: &stop };
        let (ending, figures) = thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let seconds = watch.wait_for(&started, Watch::is_counted)?;
                watch.wait_for(&started, Watch::is_durable)?;
                let figures =
                    started.get().map(|started| Figures { seconds, ..started.figures(self, Counts::of(&rows)) });
                stop.end(Ending::Requested);
                figures
            });
            let mut readers = |progress: &Progress, workers, forget: &mut dyn FnMut() -> Result<(), Ended>| {
                let readers = input.readers(progress, workers, forget)?;
                let timed = |reader| -> Box<dyn Reader> { Box::new(Timed { reader, started: Arc::clone(&started) }) };
                Ok(readers.into_iter().map(timed).collect())
            };
            let ending = pipeline.run(runtime.handle(), &mut readers);
            (ending, join(watching))
        });
        let Some(figures) = figures else { bail!("the pipeline has ended: {ending:?}") };
        Ok(Figures { incidents: due.load(Ordering::Relaxed), calls: calls(&metrics.render(true)), ..figures })
    }
}

/// Notes when the first reading thread starts.
struct Timed {
    reader: Box<dyn Reader>,
    started: Arc<OnceLock<Started>>,
}

impl Reader for Timed {
    fn read(self: Box<Self>, seat: Seat) {
        self.started.get_or_init(Started::now);
        self.reader.read(seat);
    }
}

/// The moment in which the reading threads start.
struct Started(Instant);

/// What was inserted.
#[derive(Default)]
struct Counts {
    inserts: u64,
    bytes: u64,
}

impl Counts {
    fn of<O>(store: &Counted<O>) -> Self {
        Self { inserts: store.inserts(), bytes: store.bytes() }
    }
}

impl Started {
    fn now() -> Self {
        Self(Instant::now())
    }

    /// What has been used until now.
    fn figures(&self, part: &Part, counts: Counts) -> Figures {
        let seconds = self.0.elapsed().as_secs_f64();
        Figures {
            part: part.kind,
            records: part.records,
            seconds,
            durable_seconds: seconds,
            cpu_seconds: machine::cpu_seconds(),
            peak_memory_bytes: machine::peak_memory_bytes(),
            inserts: counts.inserts,
            inserted_bytes: counts.bytes,
            incidents: 0,
            calls: Vec::new(),
        }
    }
}

/// Looks at a pipeline from outside.
struct Watch<'a, O> {
    records: u64,
    rows: &'a Counted<O>,
    metrics: &'a Metrics,
    durable: &'a AtomicU64,
    stop: &'a Stop,
}

impl<O> Watch<'_, O> {
    /// Waits, and says how long it took from the start; `None` when the pipeline has ended before.
    fn wait_for(&self, started: &OnceLock<Started>, is_done: impl Fn(&Self) -> bool) -> Option<f64> {
        while !is_done(self) {
            if self.stop.is_stopped() {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some(started.get()?.0.elapsed().as_secs_f64())
    }

    /// Every row is acknowledged, and every record has been judged.
    fn is_counted(&self) -> bool {
        self.rows.rows() >= self.records && counted(self.metrics) >= self.records
    }

    fn is_durable(&self) -> bool {
        self.durable.load(Ordering::Acquire) >= self.records
    }
}

/// Occurrences that the judges have counted, late ones included.
fn counted(metrics: &Metrics) -> u64 {
    let names = ["floodmark_occurrences_counted_total ", "floodmark_occurrences_late_total "];
    let text = metrics.render(true);
    let value =
        |name| text.lines().find_map(|line| line.strip_prefix(name)).and_then(|value| value.parse::<u64>().ok());
    names.into_iter().filter_map(value).sum()
}

/// One worker's partitions, from their first record to the end that they have now.
struct Partitions {
    reader: PartitionReader,
    records: u64,
}

impl Partitions {
    fn read(mut self, mut each: impl FnMut(&Record<'_>) -> Result<()>) -> Result<u64> {
        let mut read = 0;
        while read < self.records {
            let mut result = Ok(());
            self.reader.poll(0, POLL_WAIT, &mut |event| match event {
                Event::Record(record) => {
                    read += 1;
                    if result.is_ok() {
                        result = each(&record);
                    }
                }
                Event::EndOfPartition { .. } => {}
                Event::Lost(lost) => result = Err(anyhow::anyhow!("{lost}")),
                Event::Trouble(what) => eprintln!("floodmark-bench: {what}"),
            })?;
            result?;
        }
        Ok(read)
    }
}

fn readers(config: &Config) -> Result<Vec<Partitions>> {
    let (settings, name) = (settings(config)?, &config.kafka.topic);
    let topics = Topics::new(&settings, ANSWER_TIMEOUT)?;
    let description = topics.describe(name)?;
    let of_worker = |worker| {
        let own: Vec<_> = owned(description.partitions(), worker, config.workers).collect();
        let mut reader = PartitionReader::new(&settings, &config.kafka.group, description.topic.clone())?;
        let starts = starts(&topics, &description.topic.name, own.iter().map(|partition| (*partition, None)))?;
        reader.add(&starts)?;
        let ends =
            own.iter().map(|partition| topics.watermarks(name, *partition).map(|(low, high)| (high - low) as u64));
        let records = ends.sum::<Result<u64, _>>()?;
        Ok(Partitions { reader, records })
    };
    (0..config.workers).map(of_worker).collect()
}

/// Decodes what it reads; returns how many records that were.
fn decode(reader: Partitions, config: &Config) -> Result<u64> {
    let decoder = Decoder::json(config);
    reader.read(|record| {
        let decoded = record.raw().map(|raw| decoder.decode(raw));
        let is_good = matches!(decoded, Some(Ok(Some(_))));
        black_box(decoded);
        is_good.then_some(()).context("a record is bad")
    })
}

/// Fills inserts from what it reads.
fn copy(reader: Partitions, config: &Config, insert_bytes: usize, full: &Sender<Vec<RowBlock>>) -> Result<()> {
    let decoder = Decoder::json(config);
    let (mut blocks, mut block, mut bytes) = (Vec::new(), RowBlock::default(), 0);
    reader.read(|record| {
        let decoded = record.raw().map(|raw| decoder.decode(raw));
        let Some(Ok(Some(occurrence))) = decoded else { bail!("a record is bad") };
        block.push_occurrence(&occurrence);
        if block.bytes() >= BLOCK_BYTES {
            bytes += block.bytes();
            blocks.push(std::mem::take(&mut block));
        }
        if bytes >= insert_bytes {
            bytes = 0;
            full.send(std::mem::take(&mut blocks)).context("inserting has failed")?;
        }
        Ok(())
    })?;
    blocks.push(block);
    full.send(blocks).context("inserting has failed")
}

fn insert_all<O: OccurrenceStore>(
    store: &Counted<O>,
    to_insert: &Receiver<Vec<RowBlock>>,
    runtime: &tokio::runtime::Handle,
) -> Result<()> {
    to_insert.iter().try_for_each(|blocks| Ok(runtime.block_on(store.insert(&blocks))?))
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn settings(config: &Config) -> Result<KafkaSettings> {
    Ok(KafkaSettings::new(&*config.kafka.brokers, "floodmark-bench", config.kafka.client.clone())?)
}

fn clickhouse(config: &Config) -> Result<ClickHouseStore> {
    Ok(ClickHouseStore::new(&ClickHouseSettings::new(config.clickhouse.reveal()))?)
}

/// As the product's.
fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}
