//! What travels through the dataflow.

pub use crate::state::panes::{PaneKey, TenantId};
use floodmark_model::progress::{PartitionKey, Tallies};
use floodmark_model::rule::RuleIndex;
use floodmark_model::{Detection, EventTime, Fingerprint};
use serde::{Deserialize, Serialize};

/// What an [`Event`] adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// An occurrence that has just been read.
    Occurrence,
    /// Occurrences counted before the start, read back from the occurrence store: `ts` is the start of their bucket.
    Loaded,
    /// An incident stored before the start: `ts` is the start of its window.
    Fired,
}

/// One occurrence for one rule, as the judge sees it: no strings, no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The bug.
    pub fingerprint: Fingerprint,
    /// Effective event time.
    pub ts: EventTime,
    /// The tenant.
    pub tenant: TenantId,
    /// How many occurrences; 1 unless loaded.
    pub n: u32,
    /// The rule that counts it.
    pub rule: RuleIndex,
    /// What it adds to.
    pub kind: EventKind,
}

impl Event {
    /// The key of its pane.
    #[must_use]
    pub fn key(&self) -> PaneKey {
        PaneKey { fingerprint: self.fingerprint, tenant: self.tenant }
    }
}

/// What a source says of its partitions' watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceWatermark {
    /// A partition has not given its first record: hold the merged watermark where it stands.
    Holding,
    /// The least watermark of its partitions that are not idle.
    At(EventTime),
    /// It has no partition that is not idle.
    Idle,
    /// All its partitions are read to their end for good (Q53): the greatest of their watermarks.
    Finished(EventTime),
}

/// Sent by every source to every worker, with each epoch, in the stream of its records (design, decision 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Index of the source: that of its worker.
    pub source: u32,
    /// Which worker this copy is for.
    pub to: u32,
    /// What it says.
    pub watermark: SourceWatermark,
    /// The source's clock, in milliseconds since 1970.
    pub clock_ms: i64,
}

/// A record of the exchanged stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// To the judge of its key.
    Event(Event),
    /// To the worker it names.
    Control(Control),
}

impl Message {
    /// Where it goes, modulo the number of workers.
    #[must_use]
    pub fn route(&self) -> u64 {
        match self {
            Self::Event(event) => event.key().route(),
            Self::Control(control) => u64::from(control.to),
        }
    }
}

/// How a partition is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Records are expected: the partition's watermark counts.
    Active,
    /// T-4: read to its end, and silent for `idle_after`. The claim runs out by itself at this time of the clock, in
    /// milliseconds, so that a reading thread which is stuck need not take it back.
    IdleUntil(i64),
    /// A partition of the backfill topic (design, decision 13): it never holds the merged watermark and never moves it,
    /// so that its records are late or not by the others alone.
    Aside,
}

impl Reading {
    /// Read to its end for good (Q53): such a partition never holds the watermark again.
    pub const FINISHED: Self = Self::IdleUntil(i64::MAX);
}

/// The state of one partition after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionUpdate {
    /// Which partition.
    pub key: PartitionKey,
    /// Every record below it is in this batch or an earlier one.
    pub next_offset: i64,
    /// The greatest effective event time read so far; `None` before the first record.
    pub greatest: Option<EventTime>,
    /// Whether it holds the merged watermark.
    pub reading: Reading,
    /// What became of its records so far.
    pub tallies: Tallies,
}

/// What a reading thread hands to its worker's source.
#[derive(Debug)]
pub enum Batch<R> {
    /// Counts and incidents from before the start. They come before [`Batch::Assigned`].
    Loaded(Vec<Event>),
    /// The source's partitions, with the watermarks that are stored for them (T-6). Until it comes the source says
    /// nothing of its watermark, and so every judge waits.
    Assigned(Vec<(PartitionUpdate, Option<EventTime>)>),
    /// Records that were read, the rows to store for them, and how far that brings their partitions.
    Read {
        /// Counted occurrences.
        events: Vec<Event>,
        /// Rows for the occurrence store; `None` when there are none.
        rows: Option<R>,
        /// The partitions that changed.
        partitions: Vec<PartitionUpdate>,
    },
}

/// What a window's verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowKey {
    /// The rule.
    pub rule: RuleIndex,
    /// First instant of the window.
    pub window_start: EventTime,
    /// Tenant and fingerprint.
    pub pane: PaneKey,
}

/// An incident that has become due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// What it is about.
    pub key: WindowKey,
    /// How it became due.
    pub detection: Detection,
    /// count(w) when it became due: the threshold, which the count has just reached, or more when it was loaded.
    pub count: u32,
    /// Event time of the occurrence that made it due.
    pub opened_at: EventTime,
}

/// What is read from the occurrence store for incidents, and written to their rows, once the rows that the judge had
/// seen are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// W-10: samples of an incident whose window is open.
    Refresh(WindowKey),
    /// W-9: total and samples of an incident whose window has closed.
    Close(WindowKey),
    /// W-9: a late occurrence has changed the total of this window; it may have an incident.
    Late(WindowKey),
    /// Q46: keys of this window had no pane; they are judged from the occurrence store.
    Sweep {
        /// The rule.
        rule: RuleIndex,
        /// First instant of the window.
        window_start: EventTime,
    },
    /// All closing up to this time has been sent by this worker (design, decision 6).
    ClosedTo {
        /// Index of the worker.
        worker: u32,
        /// The time.
        time: EventTime,
    },
}
