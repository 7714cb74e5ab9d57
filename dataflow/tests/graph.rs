//! The whole dataflow of a process, between a hand-moved clock and stores that acknowledge when told.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use floodmark_dataflow::ask::Asking;
use floodmark_dataflow::egress::{Delivery, Weighty};
use floodmark_dataflow::epoch::{Clock, EPOCH_MS};
use floodmark_dataflow::graph::{Outputs, WorkerSettings, run_worker};
use floodmark_dataflow::message::*;
use floodmark_dataflow::progress::{Cut, Flow};
use floodmark_dataflow::source::SourceSettings;
use floodmark_dataflow::state::judge::JudgeSettings;
use floodmark_dataflow::wake::Waker;
use floodmark_dataflow::window_judge::JudgeGauges;
use floodmark_model::progress::{PartitionKey, Tallies};
use floodmark_model::rule::{Rule, RuleIndex};
use floodmark_model::{Detection, EventTime, Fingerprint, TopicId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WINDOW: i64 = 300_000;
const LATENESS: i64 = 60_000;
/// How long a condition may take before the test fails.
const DEADLINE: Duration = Duration::from_secs(20);

struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct Row;

impl Weighty for Row {
    fn weight(&self) -> usize {
        1
    }
}

/// A running process.
struct Process {
    clock: Arc<HandClock>,
    inputs: Vec<(Sender<Batch<Row>>, Waker)>,
    rows: Receiver<Delivery<Row>>,
    due: Receiver<Delivery<Due>>,
    closings: Receiver<Delivery<Closing>>,
    questions: Receiver<Asking>,
    gauges: Vec<Arc<JudgeGauges>>,
    cuts: Arc<Mutex<Vec<Cut>>>,
    stop: Arc<AtomicBool>,
    workers: Option<timely::communication::WorkerGuards<()>>,
}

impl Process {
    fn start(workers: usize, start: Option<EventTime>) -> Self {
        let clock = Arc::new(HandClock(AtomicI64::new(1_000_000)));
        let ((to_rows, rows), (to_due, due), (to_closings, closings)) = (bounded(64), bounded(64), bounded(64));
        let (to_questions, questions) = bounded(64);
        let outputs = Outputs { rows: to_rows, due: to_due, closings: to_closings, questions: to_questions };
        let (flow, stop, cuts) = (Arc::new(Flow::default()), Arc::new(AtomicBool::new(false)), Arc::default());
        let gauges: Vec<Arc<JudgeGauges>> = (0..workers).map(|_| Arc::default()).collect();
        let (mut settings, mut inputs) = (Vec::new(), Vec::new());
        for (index, gauges) in gauges.iter().enumerate() {
            let (sender, batches) = unbounded();
            let waker = Waker::default();
            inputs.push((sender, waker.clone()));
            settings.push(Mutex::new(Some(WorkerSettings {
                source: SourceSettings {
                    batches,
                    waker,
                    clock: clock.clone() as Arc<dyn Clock>,
                    lateness_ms: LATENESS,
                },
                judge: JudgeSettings {
                    rules: vec![(&Rule::default()).into()],
                    max_panes: 10_000,
                    max_fingerprints: 1_000,
                    seed: 1,
                    worker: index as u32,
                    peers: workers as u32,
                    start,
                    closed: start,
                },
                outputs: outputs.clone(),
                rows_weight_max: 1_000,
                flow: Arc::clone(&flow),
                gauges: Arc::clone(gauges),
            })));
        }
        let (stopped, durable): (_, Arc<Mutex<Vec<Cut>>>) = (Arc::clone(&stop), Arc::clone(&cuts));
        let guards = timely::execute(timely::Config::process(workers), move |worker| {
            let settings = settings[worker.index()].lock().unwrap().take().unwrap();
            let hand_over = |cuts| durable.lock().unwrap().extend(cuts);
            run_worker(worker, settings, hand_over, || stopped.load(Ordering::SeqCst));
        });
        Self { clock, inputs, rows, due, closings, questions, gauges, cuts, stop, workers: Some(guards.unwrap()) }
    }

    fn tick(&self) {
        self.clock.0.fetch_add(EPOCH_MS, Ordering::SeqCst);
        self.inputs.iter().for_each(|(_, waker)| waker.wake());
    }

    fn send(&self, worker: usize, batch: Batch<Row>) {
        self.inputs[worker].0.send(batch).unwrap();
        self.inputs[worker].1.wake();
    }

    fn read(&self, worker: usize, partition: i32, next_offset: i64, events: Vec<Event>) {
        let greatest = events.iter().map(|event| event.ts).max();
        let partitions = vec![update(partition, next_offset, greatest, Reading::Active)];
        self.send(worker, Batch::Read { events, rows: Some(Row), partitions });
    }

    /// Acknowledges every delivery of a channel until `enough` says so; the clock ticks on meanwhile.
    fn until<T>(&self, what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(value) = poll() {
                return value;
            }
            assert!(started.elapsed() < DEADLINE, "waited in vain for {what}");
            self.tick();
            std::thread::yield_now();
        }
    }

    fn committed(&self) -> BTreeMap<i32, i64> {
        let cuts = self.cuts.lock().unwrap();
        let partitions = cuts.iter().flat_map(|cut| &cut.partitions);
        partitions.map(|(key, progress)| (key.partition, progress.next_offset)).collect()
    }

    fn merged(&self) -> Vec<Option<i64>> {
        self.gauges.iter().map(|gauges| gauges.merged_watermark().map(|time| time.0)).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.tick();
        drop(self.workers.take());
    }
}

fn update(partition: i32, next_offset: i64, greatest: Option<EventTime>, reading: Reading) -> PartitionUpdate {
    let key = PartitionKey { topic_id: TopicId([1; 16]), partition };
    PartitionUpdate { key, next_offset, greatest, reading, tallies: Tallies::default() }
}

fn assigned(partition: i32, reading: Reading) -> Batch<Row> {
    Batch::Assigned(vec![(update(partition, 0, None, reading), None)])
}

fn occurrence(fingerprint: u128, ts: i64) -> Event {
    Event {
        fingerprint: Fingerprint::from_bits(fingerprint << 64 | fingerprint),
        ts: EventTime(ts),
        tenant: TenantId(0),
        n: 1,
        rule: RuleIndex(0),
        kind: EventKind::Occurrence,
    }
}

fn confirm<T>(delivery: Delivery<T>) -> Vec<T> {
    let Delivery { items, acknowledge } = delivery;
    acknowledge.confirm();
    items
}

fn rows_of(due: Due) -> Vec<JudgedRow> {
    match due {
        Due::Rows(rows) => rows,
        Due::Mark { .. } | Due::Crowd { .. } => Vec::new(),
    }
}

#[test]
fn w5_an_incident_leaves_before_anything_is_acknowledged_or_the_clock_moves() {
    let process = Process::start(2, None);
    process.send(0, assigned(0, Reading::Active));
    process.send(1, assigned(1, Reading::FINISHED));
    process.read(0, 0, 10, (0..10).map(|n| occurrence(7, n)).collect());
    let delivery = process.due.recv_timeout(DEADLINE).unwrap();
    let Due::Rows(rows) = &delivery.items[0] else { panic!("{:?}", delivery.items) };
    assert_eq!((delivery.items.len(), rows.len()), (1, 1));
    assert_eq!(rows[0].key.window_start, EventTime(0));
}

#[test]
fn g3_progress_waits_for_rows_and_incidents_and_then_follows_the_clock() {
    let process = Process::start(2, None);
    process.send(0, assigned(0, Reading::Active));
    process.send(1, assigned(1, Reading::FINISHED));
    process.read(0, 0, 10, (0..10).map(|n| occurrence(7, n)).collect());
    let due = process.due.recv_timeout(DEADLINE).unwrap();
    let rows = process.until("rows", || process.rows.try_recv().ok());
    confirm(rows);
    for _ in 0..20 {
        process.tick();
        std::thread::yield_now();
    }
    assert!(process.committed().get(&0).is_none_or(|next| *next == 0), "the incident is not acknowledged");
    confirm(due);
    process.until("the commit", || process.committed().get(&0).filter(|next| **next == 10).copied());
}

#[test]
fn a_window_closes_behind_the_watermark_and_the_acknowledgement_of_all_rows() {
    let process = Process::start(1, None);
    process.send(0, assigned(0, Reading::Active));
    process.read(0, 0, 11, (0..10).map(|n| occurrence(7, n)).chain([occurrence(8, WINDOW + LATENESS)]).collect());
    confirm(process.due.recv_timeout(DEADLINE).unwrap());
    process.until("the watermark", || (process.merged() == [Some(WINDOW)]).then_some(()));
    assert!(process.closings.is_empty(), "rows are not acknowledged");
    let closed = process.until("the closing", || {
        process.rows.try_iter().for_each(|rows| _ = confirm(rows));
        let items: Vec<_> = process.closings.try_iter().flat_map(confirm).collect();
        items.iter().any(|closing| matches!(closing, Closing::ClosedTo { .. })).then_some(items)
    });
    let closes = closed.iter().filter(|closing| matches!(closing, Closing::Close(_))).count();
    assert_eq!(closes, 1, "{closed:?}");
}

#[test]
fn t3_t4_a_lagging_partition_holds_closing_and_no_page_and_an_idle_one_holds_nothing() {
    let process = Process::start(2, None);
    process.send(
        0,
        Batch::Assigned(vec![(update(0, 0, None, Reading::Active), None), (update(2, 0, None, Reading::Active), None)]),
    );
    process.send(1, assigned(1, Reading::Active));
    process.read(1, 1, 10, (0..10).map(|n| occurrence(7, 10 * WINDOW + n)).collect());
    confirm(process.due.recv_timeout(DEADLINE).unwrap());
    process.read(0, 0, 1, vec![occurrence(1, LATENESS)]);
    for _ in 0..20 {
        process.tick();
        std::thread::yield_now();
    }
    assert_eq!(process.merged(), [None, None], "partition 2 has given no record");
    process.read(0, 2, 1, vec![occurrence(1, 2 * LATENESS)]);
    process.until("the least watermark", || (process.merged() == [Some(0), Some(0)]).then_some(()));
    process.send(
        0,
        Batch::Read { events: Vec::new(), rows: None, partitions: vec![update(0, 1, None, Reading::FINISHED)] },
    );
    process.until("the next one", || (process.merged() == [Some(LATENESS), Some(LATENESS)]).then_some(()));
}

#[test]
fn t5_a_stop_closes_no_window() {
    let process = Process::start(2, None);
    process.send(0, assigned(0, Reading::Active));
    process.send(1, assigned(1, Reading::FINISHED));
    process.read(0, 0, 10, (0..10).map(|n| occurrence(7, n)).collect());
    confirm(process.due.recv_timeout(DEADLINE).unwrap());
    process.until("rows", || process.rows.try_recv().ok().map(confirm));
    let closings = process.closings.clone();
    drop(process);
    let left: Vec<_> = closings.try_iter().flat_map(|delivery| delivery.items).collect();
    assert!(left.iter().all(|closing| matches!(closing, Closing::Refresh(_))), "{left:?}");
}

#[test]
fn w1_any_number_of_workers_finds_the_same_incidents() {
    let mut found = Vec::new();
    for workers in [1, 2, 4] {
        let process = Process::start(workers, None);
        for worker in 0..workers {
            process.send(worker, assigned(worker as i32, Reading::Active));
        }
        for n in 0..2_000i64 {
            let worker = n as usize % workers;
            let events = vec![occurrence(n as u128 % 150, (n * 7_919) % WINDOW)];
            process.read(worker, worker as i32, n + 1, events);
        }
        let mut incidents = BTreeSet::new();
        process.until("all commits", || {
            process.rows.try_iter().for_each(|rows| _ = confirm(rows));
            for due in process.due.try_iter().flat_map(confirm).flat_map(rows_of) {
                assert!(incidents.insert((due.key.pane.fingerprint, due.key.window_start)), "twice: {due:?}");
            }
            process.closings.try_iter().for_each(|closings| _ = confirm(closings));
            let committed = process.committed();
            (committed.len() == workers && committed.values().all(|next| *next > 2_000 - workers as i64)).then_some(())
        });
        assert_eq!(process.gauges.iter().map(|gauges| gauges.figures().counted).sum::<u64>(), 2_000);
        found.push(incidents);
    }
    assert_eq!(found[0].len(), 150);
    assert!(found.iter().all(|incidents| *incidents == found[0]));
}

#[test]
fn g3_ten_million_occurrences_of_one_instant_are_committed_as_they_go() {
    const BATCH: i64 = 8_192;
    const BATCHES: i64 = 10_000_000 / BATCH + 1;
    let process = Process::start(2, None);
    process.send(0, assigned(0, Reading::Active));
    process.send(1, assigned(1, Reading::FINISHED));
    let mut commits = BTreeSet::new();
    for batch in 1..=BATCHES {
        process.read(0, 0, batch * BATCH, (0..BATCH).map(|n| occurrence(n as u128 % 1_000, 7)).collect());
        let counted = || process.gauges.iter().map(|gauges| gauges.figures().counted).sum::<u64>();
        // Not too far ahead of the judges, as a reading thread's channel is bounded.
        process.until("the judges", || {
            process.rows.try_iter().for_each(|rows| _ = confirm(rows));
            process.due.try_iter().for_each(|due| _ = confirm(due));
            process.closings.try_iter().for_each(|closings| _ = confirm(closings));
            (counted() as i64 + 64 * BATCH >= batch * BATCH).then_some(())
        });
        commits.extend(process.committed().get(&0).copied());
    }
    process.until("the last commit", || {
        process.rows.try_iter().for_each(|rows| _ = confirm(rows));
        process.due.try_iter().for_each(|due| _ = confirm(due));
        process.closings.try_iter().for_each(|closings| _ = confirm(closings));
        process.committed().get(&0).filter(|next| **next == BATCHES * BATCH).copied()
    });
    assert!(commits.len() > 10, "{} commits on the way", commits.len());
}

#[test]
fn w8_a_late_occurrence_waits_for_rows_and_answer_and_progress_waits_for_it() {
    let process = Process::start(2, Some(EventTime(100 * WINDOW)));
    process.send(0, assigned(0, Reading::Active));
    process.send(1, assigned(1, Reading::FINISHED));
    process.read(0, 0, 1, vec![occurrence(7, 5)]);
    for _ in 0..20 {
        process.tick();
        std::thread::yield_now();
    }
    assert!(process.questions.is_empty(), "its row is not acknowledged");
    let asked = process.until("the question", || {
        process.rows.try_iter().for_each(|rows| _ = confirm(rows));
        process.questions.try_recv().ok()
    });
    let Question::Keys(keys) = &asked.question else { panic!("{asked:?}") };
    assert_eq!(keys.len(), 1);
    assert!(keys[0].spans.iter().any(|(from, until)| (from.0..until.0).contains(&5)));
    for _ in 0..20 {
        process.tick();
        std::thread::yield_now();
    }
    assert!(process.committed().get(&0).is_none_or(|next| *next == 0), "it is not judged");
    // Nine were counted by an earlier run.
    asked.reply.answer(Answer::Keys(vec![vec![(EventTime(0), 10)]]));
    let (due, rows) = process.until("the incident", || {
        let due = process.due.try_recv().ok()?;
        let rows: Vec<_> = due.items.iter().cloned().flat_map(rows_of).collect();
        if rows.is_empty() {
            confirm(due);
            return None;
        }
        Some((due, rows))
    });
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].key.window_start, rows[0].detection), (EventTime(0), Detection::Late));
    assert!(process.committed().get(&0).is_none_or(|next| *next == 0), "it is not stored");
    confirm(due);
    process.until("the commit", || {
        process.due.try_iter().for_each(|due| _ = confirm(due));
        process.closings.try_iter().for_each(|closings| _ = confirm(closings));
        process.committed().get(&0).filter(|next| **next == 1).copied()
    });
}
