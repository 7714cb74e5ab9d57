//! A steady load, open loop: how many records are sent follows from the time alone.

use crate::records::Shape;
use crate::setup::{PARTITIONS, Setup, now};
use anyhow::Result;
use floodmark_kafka::{Outgoing, Producer};
use floodmark_model::RecordTime;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often records are sent.
const TICK: Duration = Duration::from_millis(10);
/// How long it is remembered how many records there were.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A thread that sends records until this is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<Mutex<VecDeque<(Instant, u64)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Sends `rate` records a second.
    pub(crate) fn start(setup: &Setup, rate: u64, keys: u64) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(Mutex::new(VecDeque::from([(Instant::now(), 0)])));
        let mut producer = Producer::new(&setup.kafka(&[])?)?;
        let (topic, stopped, counts) = (setup.topic.name().to_owned(), Arc::clone(&stop), Arc::clone(&sent));
        let shape = Shape { keys, with_fingerprint: true };
        let thread = thread::spawn(move || {
            let (started, mut total) = (Instant::now(), 0);
            while !stopped.load(Ordering::Relaxed) {
                let due = (started.elapsed().as_secs_f64() * rate as f64) as u64;
                let ts = now();
                let records = (total..due).map(|n| {
                    let partition = (n % PARTITIONS as u64) as i32;
                    Outgoing::new(shape.record(n, ts).into_bytes()).to(partition).at(RecordTime(ts.0))
                });
                producer.send_all(&topic, records).unwrap_or_else(|error| panic!("the load: {error}"));
                total = due;
                note(&counts, total);
                thread::sleep(TICK);
            }
        });
        Ok(Self { stop, sent, thread: Some(thread) })
    }

    /// How many records the brokers held at this moment, as far as is remembered.
    pub(crate) fn sent_at(&self, moment: Instant) -> u64 {
        let sent = lock(&self.sent);
        sent.iter().take_while(|(at, _)| *at <= moment).last().map_or(0, |(_, total)| *total)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has aborted the process already.
            let _ = thread.join();
        }
    }
}

fn note(counts: &Mutex<VecDeque<(Instant, u64)>>, total: u64) {
    let (mut counts, now) = (lock(counts), Instant::now());
    counts.push_back((now, total));
    while counts.front().is_some_and(|(at, _)| now - *at > REMEMBERED) {
        counts.pop_front();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
