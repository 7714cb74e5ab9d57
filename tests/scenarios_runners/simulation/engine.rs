//! What a simulated process is to the world around it: the dataflow, whoever runs it.

use super::draw::Settings;
use super::lanes::Lanes;
use crate::scenarios_runners::place::Log;
use crate::scenarios_runners::stored::{Process, Stored};
use floodmark_dataflow::message::Answer;
use floodmark_dataflow::progress::Cut;
use floodmark_dataflow::state::judge::{JudgeSettings, JudgedRule};
use floodmark_model::EventTime;
use floodmark_model::progress::PartitionKey;
use floodmark_testkit::scenario::Record;

/// The dataflow of one process, with its reading threads. What cannot be done at the moment is passed over.
pub(super) trait Engine: Sized {
    /// Confirms a delivery.
    type Acknowledge;
    /// Takes an answer back.
    type Reply;

    /// Starts on what was loaded, with its partitions where they are committed.
    fn start(start: &Start<'_>) -> Self;
    /// A reading thread takes a record in.
    fn read(&mut self, stored: &Stored, record: &Record);
    /// A partition is idle, unless its last record has just been read: that takes a while (T-4), in which its source
    /// speaks of it. `is_settled` says that it has.
    fn be_idle(&mut self, key: PartitionKey, is_settled: bool);
    /// A reading thread hands its batch over.
    fn hand_over(&mut self, worker: usize);
    /// The clock stands here.
    fn set_clock(&mut self, clock_ms: i64);
    /// A source enters the epoch of the clock.
    fn enter_epoch(&mut self, worker: usize);
    /// A judge takes in at most so many messages of each source.
    fn judge(&mut self, worker: usize, messages: usize);
    /// What may leave goes to the lanes.
    fn depart(&mut self, lanes: &mut Lanes<Self::Acknowledge, Self::Reply>);
    /// A delivery is durable.
    fn acknowledge(&mut self, acknowledge: Self::Acknowledge);
    /// An answer reaches its judge.
    fn reply(&mut self, reply: Self::Reply, answer: Answer);
    /// The cuts that have become durable.
    fn durable(&mut self) -> Vec<Cut>;
    /// The least merged watermark that a worker knows.
    fn watermark(&self) -> Option<EventTime>;
    /// What every judge may still hold (I-2).
    fn held_since(&self) -> Option<EventTime>;
    /// Occurrences that were late, those without a pane, and keys that were asked for.
    fn figures(&self) -> Figures;
    /// Takes turns until one says that it was the last; `false` when that does not come.
    fn repeat(what: &str, turn: impl FnMut() -> bool) -> bool;
}

/// What a start is given.
pub(super) struct Start<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stored: &'a Stored,
    pub(super) process: &'a Process,
    pub(super) log: &'a Log,
    pub(super) workers: usize,
    pub(super) clock_ms: i64,
}

impl Start<'_> {
    /// The judge of a worker.
    pub(super) fn judge(&self, worker: usize) -> JudgeSettings {
        let progress = &self.process.recovered.progress;
        JudgeSettings {
            rules: self.settings.rules.iter().map(JudgedRule::from).collect(),
            max_panes: self.settings.max_panes.unwrap_or(1 << 20),
            max_fingerprints: self.stored.max_fingerprints(),
            seed: 1,
            worker: worker as u32,
            peers: self.workers as u32,
            start: progress.watermark(),
            closed: progress.closed,
        }
    }

    /// The partitions of a worker's reading thread.
    pub(super) fn partitions(&self, worker: usize) -> impl Iterator<Item = PartitionKey> {
        let workers = self.workers;
        self.log.keys().filter(move |key| key.partition as usize % workers == worker)
    }
}

/// What the judges have met, over all processes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) late: u64,
    pub(super) refused: u64,
    pub(super) asked: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.late += other.late;
        self.refused += other.refused;
        self.asked += other.asked;
    }
}
