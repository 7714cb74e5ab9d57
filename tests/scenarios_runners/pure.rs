//! The plain state code, without timely: one worker, one batch after another, a clock that stands still.

use super::place::{Log, Place, Plan, Survives, take_steps};
use super::stored::{IDLE, Process, Stored};
use floodmark::pipeline::budget::Admitted;
use floodmark::pipeline::intake::Intake;
use floodmark_dataflow::message::{Batch, Control, Due};
use floodmark_dataflow::progress::Cut;
use floodmark_dataflow::state::crowds::Crowds;
use floodmark_dataflow::state::judge::{Judge, JudgeSettings, JudgedRule};
use floodmark_dataflow::state::merged_watermark::MergedWatermark;
use floodmark_dataflow::state::partitions::Partitions;
use floodmark_model::EventTime;
use floodmark_testkit::scenario::{Actual, FingerprintLabels, Labels, Record, Scenario};
use std::sync::Arc;

/// Runs a scenario, and says what differs from what it expects.
pub(crate) fn run(scenario: &Scenario, plan: Plan) -> Result<(), String> {
    let steps = scenario.steps(FingerprintLabels::Given);
    let stored = Stored::new(scenario);
    let mut pure = Pure { stored, worker: None };
    let actual = take_steps(scenario, &steps, plan, &mut pure);
    scenario.compare(&Labels::given(scenario), &actual)
}

struct Pure {
    stored: Stored,
    worker: Option<Worker>,
}

/// What memory holds.
struct Worker {
    process: Process,
    intake: Intake,
    partitions: Partitions,
    merged: MergedWatermark,
    judge: Judge,
    crowds: Crowds,
    epoch: u64,
    clock_ms: i64,
    /// On their way to the stores.
    rows: Vec<Admitted>,
    due: Vec<Due>,
}

impl Worker {
    fn read(&mut self, stored: &Stored, record: &Record) {
        let raw = record.as_raw();
        self.intake.record(raw, record.at.offset + 1, stored.decoder().decode(raw));
    }

    /// What was read goes through the judge: the end of a batch, and of its epoch.
    fn hand_over(&mut self) {
        self.epoch += 1;
        if let Some(Batch::Read { events, rows, partitions }) = self.intake.take() {
            partitions.into_iter().for_each(|update| self.partitions.update(update));
            events.iter().for_each(|event| self.judge.apply(event, self.epoch, &mut |due| self.due.push(due)));
            self.rows.extend(rows);
        }
        let watermark = self.partitions.watermark(self.clock_ms);
        self.merged.update(&Control { source: 0, to: 0, watermark, clock_ms: self.clock_ms });
        let merged = self.merged.advance();
        self.judge.advance(merged, self.epoch, &mut |due| self.due.push(due));
        self.judge.tell(|crowd| {
            let panes = self.crowds.add(&crowd);
            self.due.extend(panes.map(|panes| Due::Crowd { key: crowd.key, panes }));
        });
    }

    fn store(&mut self, stored: &mut Stored, survives: Survives) {
        let rows = std::mem::take(&mut self.rows);
        if survives.rows {
            stored.insert(&rows);
            self.answer(stored);
        }
        let due = std::mem::take(&mut self.due);
        if survives.incidents {
            stored.write(&self.process, &due);
        }
        if survives.progress {
            let mut closed = Vec::new();
            while self.judge.is_waiting() {
                let mut closings = Vec::new();
                let due = &mut self.due;
                self.judge.release(|_| true, &mut |new| due.push(new), &mut |closing| closings.push(closing));
                self.answer(stored);
                stored.write(&self.process, &std::mem::take(&mut self.due));
                closed.extend(stored.close(&self.process, &closings));
            }
            assert_eq!(self.judge.oldest_epoch(), None, "all is judged");
            let partitions = self.partitions.take_progress(self.merged.advance(), self.clock_ms);
            self.process.are_durable(vec![Cut { epoch: self.epoch, partitions }]);
            self.process.is_durable(closed);
            stored.commit(&mut self.process);
        }
    }
}

impl Worker {
    /// Everything that is stored is acknowledged: what waits for that is asked and answered.
    fn answer(&mut self, stored: &Stored) {
        while let Some(question) = self.judge.ask(|_| true) {
            let answer = stored.answer(&self.process, &question);
            self.judge.answer(answer, &mut |due| self.due.push(due));
        }
    }
}

impl Pure {
    fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("started")
    }
}

impl Place for Pure {
    fn start(&mut self, log: &Log) {
        let process = self.stored.start(log, 1);
        let progress = Arc::clone(&process.recovered.progress);
        let mut judge = Judge::new(&JudgeSettings {
            rules: self.stored.rules().iter().map(JudgedRule::from).collect(),
            max_panes: 10_000,
            max_fingerprints: self.stored.max_fingerprints(),
            seed: 1,
            worker: 0,
            peers: 1,
            start: progress.watermark(),
            closed: progress.closed,
        });
        let crowds = Crowds::new(self.stored.max_fingerprints().into());
        let mut due = Vec::new();
        process.loaded.iter().for_each(|event| judge.apply(event, 0, &mut |new| due.push(new)));
        let mut partitions = Partitions::new(self.stored.lateness_ms());
        let mut intake = Intake::new(Arc::clone(&process.intake));
        for key in log.keys() {
            let (update, watermark) = process.assign(&mut intake, log, key);
            partitions.assign(update, watermark);
        }
        let merged = MergedWatermark::new(1, progress.watermark());
        let mut worker =
            Worker { process, intake, partitions, merged, judge, crowds, epoch: 0, clock_ms: 0, rows: Vec::new(), due };
        // The first control record, before any record: what was loaded is judged.
        worker.hand_over();
        for record in &log.records {
            if !worker.process.covers(record) {
                worker.read(&self.stored, record);
            }
        }
        self.worker = Some(worker);
    }

    fn read(&mut self, record: &Record) {
        self.worker.as_mut().expect("started").read(&self.stored, record);
    }

    fn read_again(&mut self, record: &Record) {
        self.read(record);
    }

    fn settle(&mut self) {
        let worker = self.worker.as_mut().expect("started");
        worker.hand_over();
        worker.store(&mut self.stored, Survives::EVERYTHING);
    }

    fn pass(&mut self, time: EventTime) {
        self.settle();
        let worker = self.worker();
        for key in worker.intake.partitions().collect::<Vec<_>>() {
            worker.intake.set_reading(key, IDLE);
        }
        worker.hand_over();
        let merged = worker.merged.advance().expect("a record came before");
        worker.clock_ms += (time.0 - merged.0).max(0);
        self.settle();
        assert!(self.worker().merged.advance() >= Some(time));
    }

    fn end(&mut self, survives: Survives) {
        let mut worker = self.worker.take().expect("started");
        worker.hand_over();
        worker.store(&mut self.stored, survives);
    }

    fn recreate_topic(&mut self, log: &Log) {
        self.end(Survives::EVERYTHING);
        self.start(log);
    }

    fn actual(&mut self) -> Actual {
        self.stored.actual()
    }
}
