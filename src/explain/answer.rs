//! What is answered, as `--json` prints it. Times are milliseconds since 1970 UTC.

use super::Question;
use floodmark_model::EventTime;
use floodmark_model::incident::IncidentRow;
use floodmark_model::progress::Progress;
use floodmark_sinks::inspect::Transition;
use serde::Serialize;
use std::collections::BTreeMap;

/// The answer.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Tenant.
    pub tenant: String,
    /// 32 hex digits.
    pub fingerprint: String,
    /// When.
    pub time: EventTime,
    /// What holds under each rule.
    pub rules: Vec<UnderRule>,
    /// Where no incident stands: why that may be, a sentence each.
    pub hints: Vec<String>,
    /// How far the input is.
    pub watermark: Watermark,
}

/// How far the input is, as committed.
#[derive(Debug, Serialize)]
pub struct Watermark {
    /// All windows that end at or before it are closed, with all that closing writes.
    pub closed: Option<EventTime>,
    /// The least watermark of a partition: what the next start begins with.
    pub merged: Option<EventTime>,
    /// Of each partition.
    pub partitions: Vec<PartitionWatermark>,
}

impl Watermark {
    pub(super) fn of(question: &Question<'_>, progress: &Progress) -> Self {
        let known = |time: EventTime| (time > EventTime::MIN && time < EventTime::MAX).then_some(time);
        let partitions = progress.partitions.iter().map(|(key, at)| PartitionWatermark {
            topic_id: key.topic_id.to_string(),
            name: question.inputs.get(&key.topic_id).cloned(),
            backfill: question.inputs.is_empty() && at.is_backfill(),
            partition: key.partition,
            watermark: known(at.watermark),
            next_offset: at.next_offset,
            stored: at.tallies.stored,
            retried: at.tallies.retried,
            unmatched: at.tallies.unmatched,
            dead: at.tallies.dead,
        });
        Self { closed: progress.closed, merged: progress.watermark().and_then(known), partitions: partitions.collect() }
    }
}

/// How far one partition is, and what became of its records since the first.
#[derive(Debug, Serialize)]
pub struct PartitionWatermark {
    /// Id of the topic or file.
    pub topic_id: String,
    /// Path of the file; absent for topics.
    pub name: Option<String>,
    /// Whether it is of the topic of backfilled records.
    pub backfill: bool,
    /// Partition.
    pub partition: i32,
    /// Its watermark; absent before its first record.
    pub watermark: Option<EventTime>,
    /// Every record below it is durable.
    pub next_offset: i64,
    /// Records stored.
    pub stored: u64,
    /// Client retries: in no count.
    pub retried: u64,
    /// Matched by no rule: in no count.
    pub unmatched: u64,
    /// Dead letters: in no count.
    pub dead: u64,
}

/// What holds under one rule.
#[derive(Debug, Serialize)]
pub struct UnderRule {
    /// The rule's name.
    pub rule: String,
    /// N.
    pub threshold: u32,
    /// Whether it is configured: else it judges no more.
    pub is_configured: bool,
    /// In one sentence: whether there is an incident, and why.
    pub answer: String,
    /// Where stores and predicate disagree: what to do.
    pub advice: Option<String>,
    /// Whether the rule looks at this tenant.
    pub counts_tenant: bool,
    /// The window before, that of the time, and the one after it.
    pub windows: Vec<WindowFacts>,
}

/// What there is to say of one window.
#[derive(Debug, Serialize)]
pub struct WindowFacts {
    /// First instant.
    pub start: EventTime,
    /// First instant after it.
    pub end: EventTime,
    /// count(w): distinct occurrences that the rule counts.
    pub count: u64,
    /// The same in each bucket, in order.
    pub buckets: Vec<u64>,
    /// Whether the window holds N by itself (W-2).
    pub own: bool,
    /// The run over its start that holds the most (W-3).
    pub best_run: Option<ShownRun>,
    /// `own`, `bridge`, `blocked` or `below` (W-4); absent where no window further back decides.
    pub verdict: Option<&'static str>,
    /// The same in words.
    pub why: String,
    /// Whether the closed watermark has passed its end.
    pub closed: bool,
    /// The row, if there is one.
    pub incident: Option<Incident>,
    /// The most frequent message of what counts here.
    pub sample: Option<String>,
    /// Distinct occurrences of the key that the rule does not count, by reason.
    pub not_counted: BTreeMap<String, u64>,
    /// Occurrences that probably came after the window had closed: their record time is at or after its end and the
    /// lateness, and nothing else speaks against it. An estimate; absent for files, whose records have no time of their
    /// own, and where old records were read at once, so that all of the window came so.
    pub late_estimate: Option<u64>,
    /// Occurrences that count here because their `ts` was missing (T-1).
    pub ts_missing: u64,
    /// Occurrences that count here because their `ts` lay in the future (T-2).
    pub ts_clamped: u64,
    /// Occurrences that count elsewhere, though their own `ts` lies here: it lay in the future of their record (T-2). Of
    /// the day around the window.
    pub clamped_away: u64,
    /// Dead letters of any tenant with a record time in the window, by reason: what they were cannot be known.
    pub dead_letters: BTreeMap<String, u64>,
}

/// A run over a window's start.
#[derive(Debug, Serialize)]
pub struct ShownRun {
    /// First instant.
    pub start: EventTime,
    /// First instant after it.
    pub end: EventTime,
    /// What it holds.
    pub count: u64,
}

/// The row of an incident, with its history.
#[derive(Debug, Serialize)]
pub struct Incident {
    /// The row, as `floodmark incidents` shows it.
    #[serde(flatten)]
    pub row: IncidentRow,
    /// Why it is withdrawn or superseded.
    pub reason: Option<String>,
    /// What happened to it, and when.
    pub transitions: Vec<Transition>,
}
