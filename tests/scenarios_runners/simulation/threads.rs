//! The timely graph: its threads go on by themselves, so a run only says what comes in and how slow the stores are.

use super::engine::{Engine, Figures, Start};
use super::lanes::{Lanes, Sent};
use crate::scenarios_runners::stored::{IDLE, Stored};
use crate::scenarios_runners::timely::Timely;
use floodmark_dataflow::ask::{Asking, Reply};
use floodmark_dataflow::egress::{Acknowledge, Delivery};
use floodmark_dataflow::message::Answer;
use floodmark_dataflow::progress::Cut;
use floodmark_model::EventTime;
use floodmark_model::progress::PartitionKey;
use floodmark_testkit::scenario::Record;
use floodmark_testkit::wait::{DEADLINE, wait_until};
use std::thread;

/// A process of threads.
pub(super) struct Threads(Timely);

impl Engine for Threads {
    type Acknowledge = Acknowledge;
    type Reply = Reply;

    fn start(start: &Start<'_>) -> Self {
        let judges = (0..start.workers).map(|worker| start.judge(worker)).collect();
        Self(Timely::start(start.stored, start.process, start.log, judges, start.clock_ms))
    }

    fn read(&mut self, stored: &Stored, record: &Record) {
        self.0.read(stored, record);
    }

    fn be_idle(&mut self, key: PartitionKey, is_settled: bool) {
        if is_settled || self.0.watermark().is_some() {
            self.0.thread(key.partition).intake.set_reading(key, IDLE);
        }
    }

    fn hand_over(&mut self, worker: usize) {
        let worker = worker % self.0.threads.len();
        let thread = &mut self.0.threads[worker];
        if let Some(batch) = thread.intake.take() {
            thread.send(batch);
        }
    }

    fn set_clock(&mut self, clock_ms: i64) {
        self.0.tick(clock_ms - self.0.now_ms());
    }

    fn enter_epoch(&mut self, _: usize) {
        thread::yield_now();
    }

    fn judge(&mut self, _: usize, _: usize) {
        thread::yield_now();
    }

    fn depart(&mut self, lanes: &mut Lanes<Acknowledge, Reply>) {
        lanes.rows.extend(self.0.rows.try_iter().map(sent));
        lanes.due.extend(self.0.due.try_iter().map(sent));
        lanes.closings.extend(self.0.closings.try_iter().map(sent));
        lanes.questions.extend(self.0.questions.try_iter().map(|Asking { question, reply }| (question, reply)));
    }

    fn acknowledge(&mut self, acknowledge: Acknowledge) {
        acknowledge.confirm();
    }

    fn reply(&mut self, reply: Reply, answer: Answer) {
        reply.answer(answer);
    }

    fn durable(&mut self) -> Vec<Cut> {
        self.0.durable()
    }

    fn watermark(&self) -> Option<EventTime> {
        self.0.watermark()
    }

    fn held_since(&self) -> Option<EventTime> {
        self.0.gauges.iter().map(|gauges| gauges.held_since()).min().flatten()
    }

    fn figures(&self) -> Figures {
        let mut all = Figures::default();
        for figures in self.0.gauges.iter().map(|gauges| gauges.figures()) {
            all += Figures { late: figures.late, refused: figures.refused, asked: figures.asked };
        }
        all
    }

    fn repeat(what: &str, turn: impl FnMut() -> bool) -> bool {
        wait_until(what, DEADLINE, turn);
        true
    }
}

fn sent<T>(Delivery { items, acknowledge }: Delivery<T>) -> Sent<T, Acknowledge> {
    Sent { items, acknowledge }
}
