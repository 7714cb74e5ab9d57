//! What travels through the dataflow.

pub use crate::state::pane::{PaneKey, TenantId};
use floodmark_model::progress::{PartitionKey, Tallies};
use floodmark_model::rule::RuleIndex;
use floodmark_model::{Detection, EventTime, Fingerprint, Verdict};
use serde::{Deserialize, Serialize};

/// What an [`Event`] adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// An occurrence that has just been read.
    Occurrence,
    /// Occurrences counted before the start, read back from the occurrence store: `ts` is the start of their bucket.
    Loaded,
    /// A row stored before the start: `ts` is the start of its window.
    Stored {
        /// As it was judged.
        verdict: Verdict,
        /// How it first became due.
        detection: Detection,
    },
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

/// A row as the judge wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedRow {
    /// What it is about.
    pub key: WindowKey,
    /// Whether it stands, and why; never [`Verdict::Below`].
    pub verdict: Verdict,
    /// How it first became due (Q45).
    pub detection: Detection,
    /// count(w) as judged; it may be more than the judge's counters can say.
    pub count: u32,
    /// Event time of the occurrence that made the judge look.
    pub opened_at: EventTime,
}

/// All bugs of one tenant in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CrowdKey {
    /// The rule.
    pub rule: RuleIndex,
    /// First instant of the window.
    pub window_start: EventTime,
    /// The tenant.
    pub tenant: TenantId,
}

impl CrowdKey {
    /// Which worker counts it, modulo the number of workers.
    #[must_use]
    pub fn route(&self) -> u64 {
        // As good as any key of a pane: what differs is mixed.
        let bits = u128::from(self.rule.0) << 64 | u128::from(self.window_start.0.cast_unsigned());
        PaneKey { fingerprint: Fingerprint::from_bits(bits), tenant: self.tenant }.route()
    }
}

/// What a judge says of a tenant's window since it last spoke of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// Which window.
    pub key: CrowdKey,
    /// First instant after it.
    pub window_end: EventTime,
    /// New panes.
    pub panes: u32,
    /// A key had no pane.
    pub has_refused: bool,
}

/// What goes to the store of incidents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// The rows of one key that one judgement changes, in the order of their windows: one write (W-7).
    Rows(Vec<JudgedRow>),
    /// More bugs of a tenant in a window than are allowed (Q46).
    Crowd {
        /// Which.
        key: CrowdKey,
        /// The panes that there are.
        panes: u64,
    },
    /// Everything that this worker sent before is to be stored before what follows the same number among the closings.
    Mark {
        /// Index of the worker.
        worker: u32,
        /// Counts up.
        number: u64,
    },
}

/// What is read from the occurrence store for incidents, and written to their rows, once the rows that the judge had
/// seen are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// W-10: samples of an incident whose window is open.
    Refresh(WindowKey),
    /// What follows waits until the store of incidents has this worker's [`Due::Mark`].
    After {
        /// Index of the worker.
        worker: u32,
        /// The mark's number.
        number: u64,
    },
    /// W-9: total and samples of a row whose window has closed.
    Close(WindowKey),
    /// All closing up to this time has been sent by this worker (design, decision 6).
    ClosedTo {
        /// Index of the worker.
        worker: u32,
        /// The time.
        time: EventTime,
    },
}

/// What a judge asks the occurrence store for keys of which memory does not know enough (design, decision 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Counts per bucket of keys (W-8).
    Keys(Vec<KeyQuestion>),
    /// The keys that can have an incident in a window (Q46).
    Window {
        /// The rule.
        rule: RuleIndex,
        /// First instant of the window.
        window_start: EventTime,
    },
}

/// A question about one key: its counts in some stretches of time, each of whole windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuestion {
    /// The rule.
    pub rule: RuleIndex,
    /// Tenant and fingerprint.
    pub pane: PaneKey,
    /// From, and until where; in order and apart from each other.
    pub spans: Vec<(EventTime, EventTime)>,
}

/// What the occurrence store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// For each key of the question, in its order.
    Keys(Vec<KeyAnswer>),
    /// The keys of the window, in any order.
    Window(Vec<PaneKey>),
}

/// The buckets of one key that are not empty: first instant and count. In any order.
pub type KeyAnswer = Vec<(EventTime, u32)>;
