//! The whole pipeline of an embedded run: one SQLite file holds rows, incidents and progress.
//!
//! Only the reader is the test's own, since files can say neither a record's time nor its partition. A kill goes on
//! with a copy of the file and its log, taken while the process still runs: what a crash would have left.

use super::place::{Log, Place, Plan, Survives, take_steps};
use super::stored::{IDLE, actual_of, config};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use floodmark::config::Config;
use floodmark::input::decode::Decoder;
use floodmark::pipeline::commit::SameLog;
use floodmark::pipeline::persist::Ended;
use floodmark::pipeline::stop::{Ending, Stop};
use floodmark::pipeline::{Clock, Pipeline, Reader, Seat, SystemClock};
use floodmark_dataflow::message::{Batch, Reading};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::{EventTime, Window};
use floodmark_sinks::IncidentStore;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_testkit::scenario::{Actual, FingerprintLabels, Record, Scenario, labels};
use floodmark_testkit::wait::{DEADLINE, wait_for, wait_until};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Runs a scenario, and says what differs from what it expects.
pub(crate) fn run(scenario: &Scenario, plan: Plan) -> Result<(), String> {
    let steps = scenario.steps(FingerprintLabels::Message);
    let labels =
        labels::decoded(&scenario.params.rule(), &steps).map_err(|error| format!("{}: {error:#}", scenario.id))?;
    let mut embedded = Embedded::new(scenario);
    let actual = take_steps(scenario, &steps, plan, &mut embedded);
    scenario.compare(&labels, &actual)
}

const WORKERS: usize = 2;

/// The system's clock, and what it was moved on.
#[derive(Default)]
struct MovedClock(AtomicI64);

impl Clock for MovedClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.0.load(Ordering::SeqCst)
    }
}

struct Embedded {
    runtime: Runtime,
    config: Arc<Config>,
    clock: Arc<MovedClock>,
    folder: TempDir,
    kills: usize,
    running: Option<Running>,
}

/// A running pipeline.
struct Running {
    stop: Stop,
    thread: JoinHandle<Ending>,
    store: SqliteStore,
    commands: Vec<Sender<Command>>,
    keys: Vec<PartitionKey>,
    /// How far each partition was sent.
    sent: BTreeMap<PartitionKey, i64>,
}

/// What a reading thread is told.
enum Command {
    Read(Record),
    HandOver,
    BeIdle,
}

/// Reads what it is told to.
struct ToldReader {
    partitions: Vec<(PartitionKey, Reading)>,
    commands: Receiver<Command>,
    decoder: Decoder,
}

impl Reader for ToldReader {
    fn read(self: Box<Self>, seat: Seat) {
        // The pipeline has ended, and `stop` knows why.
        let _ = self.follow(seat);
    }
}

impl ToldReader {
    fn follow(&self, seat: Seat) -> Result<(), Ended> {
        let Seat { mut intake, output, stop, progress, .. } = seat;
        let assigned = self.partitions.iter().map(|(key, reading)| {
            let stored = progress.partitions.get(key).copied();
            intake.assign(*key, stored, stored.map_or(0, |stored| stored.next_offset), *reading)
        });
        let assigned = assigned.collect();
        output.send(Batch::Assigned(assigned))?;
        while !stop.is_stopped() {
            match self.commands.recv_timeout(Duration::from_millis(10)) {
                Ok(Command::Read(record)) => {
                    let raw = record.as_raw();
                    intake.record(raw, record.at.offset + 1, self.decoder.decode(raw));
                    continue;
                }
                Ok(Command::HandOver) => {}
                Ok(Command::BeIdle) => {
                    self.partitions.iter().for_each(|(key, _)| intake.set_reading(*key, IDLE));
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if let Some(batch) = intake.take() {
                output.send(batch)?;
            }
        }
        Ok(())
    }
}

impl Running {
    fn tell(&self, partition: i32, command: Command) {
        self.commands[partition as usize % WORKERS].send(command).expect("the reader listens");
    }

    fn read(&mut self, record: &Record) {
        let key = PartitionKey { topic_id: record.at.topic_id, partition: record.at.partition };
        let sent = self.sent.entry(key).or_default();
        *sent = (*sent).max(record.at.offset + 1);
        self.tell(key.partition, Command::Read(record.clone()));
    }

    fn tell_all(&self, command: fn() -> Command) {
        (0..WORKERS as i32).for_each(|worker| self.tell(worker, command()));
    }

    fn progress(&self, runtime: &Runtime) -> Progress {
        runtime.block_on(self.store.progress()).unwrap()
    }

    fn settle(&self, runtime: &Runtime) {
        self.tell_all(|| Command::HandOver);
        wait_until("the commit", DEADLINE, || {
            let progress = self.progress(runtime);
            self.sent.iter().all(|(key, sent)| progress.covers(*key, sent - 1))
        });
    }

    /// The least watermark that is committed for the topic.
    fn watermark(&self, runtime: &Runtime) -> Option<EventTime> {
        let progress = self.progress(runtime);
        let of_topic = self.keys.iter().filter_map(|key| progress.partitions.get(key));
        of_topic.map(|stored| stored.watermark).min()
    }

    fn end(self) {
        self.stop.end(Ending::Requested);
        let ending = self.thread.join().expect("no panic");
        assert!(matches!(ending, Ending::Requested), "{ending:?}");
    }
}

impl Embedded {
    fn new(scenario: &Scenario) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self {
            runtime,
            config: config(scenario, WORKERS),
            clock: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
            kills: 0,
            running: None,
        }
    }

    /// The store since the latest kill.
    fn file(&self) -> PathBuf {
        self.folder.path().join(format!("after_{}_kills.sqlite", self.kills))
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("started")
    }

    /// Goes on with what is on the disk at this moment; as if nothing of the topic had been committed, where its records
    /// are to be read again.
    fn crash(&mut self, running: Running, read_again: bool) {
        let before = self.file();
        self.kills += 1;
        for suffix in ["", "-wal"] {
            let path = |file: &PathBuf| PathBuf::from(format!("{}{suffix}", file.display()));
            std::fs::copy(path(&before), path(&self.file())).unwrap();
        }
        let topic_id = running.keys[0].topic_id;
        running.end();
        if read_again {
            let file = rusqlite::Connection::open(self.file()).unwrap();
            file.execute("DELETE FROM progress WHERE topic_id = ?", [topic_id.0]).unwrap();
            file.execute("UPDATE pipeline SET closed = NULL", []).unwrap();
        }
    }

    fn count(&self, condition: &str) -> u64 {
        let file = rusqlite::Connection::open(self.file()).unwrap();
        let sql = format!("SELECT count(*) FROM occurrences WHERE {condition}");
        file.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap()
    }
}

impl Place for Embedded {
    fn start(&mut self, log: &Log) {
        // A child that another test forks has the lock until it executes its program.
        let store = wait_for("the lock of the store", DEADLINE, || SqliteStore::open(&self.file()).ok());
        let stop = Stop::default();
        let pipeline = Pipeline {
            config: Arc::clone(&self.config),
            occurrences: Arc::new(store.clone()),
            incidents: Arc::new(store.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            metrics: Arc::default(),
            health: Arc::default(),
            stop: stop.clone(),
            same_log: SameLog::always(),
            on_incident: None,
            on_commit: None,
        };
        let keys: Vec<_> = log.keys().collect();
        let (mut readers, mut commands) = (Vec::new(), Vec::new());
        for worker in 0..WORKERS {
            let (sender, receiver) = unbounded();
            commands.push(sender);
            let own = keys.iter().filter(|key| key.partition as usize % WORKERS == worker);
            let reading = |key: &PartitionKey| if log.is_empty(*key) { IDLE } else { Reading::Active };
            let partitions = own.map(|key| (*key, reading(key))).collect();
            let decoder = Decoder::json(&self.config);
            readers.push(Box::new(ToldReader { partitions, commands: receiver, decoder }) as Box<dyn Reader>);
        }
        let (runtime, topic_id) = (self.runtime.handle().clone(), log.topic_id);
        let thread = std::thread::spawn(move || {
            let mut readers = Some(readers);
            pipeline.run(&runtime, &mut |progress, _, forget_uncommitted| {
                let partitions = &progress.partitions;
                if !partitions.is_empty() && partitions.keys().all(|key| key.topic_id != topic_id) {
                    forget_uncommitted()?;
                }
                Ok(readers.take().expect("made once"))
            })
        });
        let mut running = Running { stop, thread, store, commands, keys, sent: BTreeMap::new() };
        log.records.iter().for_each(|record| running.read(record));
        self.running = Some(running);
    }

    fn read(&mut self, record: &Record) {
        self.running.as_mut().expect("started").read(record);
    }

    fn read_again(&mut self, record: &Record) {
        self.read(record);
    }

    fn settle(&mut self) {
        self.running().settle(&self.runtime);
    }

    fn pass(&mut self, time: EventTime) {
        self.settle();
        let (running, runtime) = (self.running(), &self.runtime);
        let before = running.watermark(runtime);
        running.tell_all(|| Command::BeIdle);
        // It moves as the clock does once all are idle.
        let is_idle = || running.watermark(runtime).filter(|now| Some(*now) > before);
        let watermark = wait_for("all to be idle", DEADLINE, is_idle);
        self.clock.0.fetch_add((time.0 - watermark.0).max(0), Ordering::SeqCst);
        let end = Window::containing(time, self.config.rules[0].window_ms).start;
        wait_until("the closing", DEADLINE, || running.progress(runtime).closed >= Some(end));
    }

    fn end(&mut self, survives: Survives) {
        let running = self.running.take().expect("started");
        if survives == Survives::EVERYTHING {
            running.settle(&self.runtime);
            running.end();
        } else if survives.rows {
            running.settle(&self.runtime);
            self.crash(running, true);
        } else {
            running.tell_all(|| Command::HandOver);
            self.crash(running, false);
        }
    }

    fn recreate_topic(&mut self, log: &Log) {
        self.end(Survives::EVERYTHING);
        self.start(log);
    }

    fn actual(&mut self) -> Actual {
        let store = SqliteStore::open_read_only(&self.file()).unwrap();
        let mut actual = self.runtime.block_on(actual_of(&store, &self.config.rules[0])).unwrap();
        actual.counters.ts_missing = self.count("ts_missing");
        actual.counters.ts_clamped = self.count("ts_clamped");
        actual
    }
}
