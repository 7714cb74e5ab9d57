//! What is answered, as `--json` prints it. Times are milliseconds since 1970 UTC.

use floodmark_model::EventTime;
use serde::Serialize;

/// What other rules would have done.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The base rule's name.
    pub rule: String,
    /// Only this tenant was asked about.
    pub tenant: Option<String>,
    /// Windows that start at or after this time were judged.
    pub since: EventTime,
    /// Windows that start before this time were judged.
    pub until: EventTime,
    /// What is stored of that; `None`: nothing.
    pub history: Option<HistoryRange>,
    /// Distinct occurrences that the base rule matches.
    pub occurrences: u64,
    /// Incidents of the base rule that stand today.
    pub incidents_today: u64,
    /// One for each candidate; the base rule as it stood and stands is the first.
    pub candidates: Vec<CandidateAnswer>,
    /// What else there is to know of them, a sentence each.
    pub notes: Vec<String>,
}

/// The part of the range of which occurrences are stored, whatever rule counts them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HistoryRange {
    /// Event time of the first.
    pub first_ts: EventTime,
    /// Event time of the last.
    pub last_ts: EventTime,
    /// Days from the first to the last; at least 1. Pages per day are counted over them.
    pub days: f64,
}

/// What one candidate would have done.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateAnswer {
    /// Length of its windows.
    pub window_ms: i64,
    /// Its threshold.
    pub threshold: u32,
    /// Whether bursts over a window boundary count.
    pub straddle: bool,
    /// Buckets of a window.
    pub straddle_buckets: u16,
    /// Whether the base rule is this very one.
    pub runs_today: bool,
    /// Incidents.
    pub incidents: u64,
    /// Episodes that begin in the range: each pages once.
    pub episodes: u64,
    /// Episodes per day of the history.
    pub pages_per_day: f64,
    /// Incidents where today there is none.
    pub new: Difference,
    /// Incidents of today that it would not have.
    pub vanished: Difference,
    /// The bugs with most incidents.
    pub noisiest: Vec<Noisy>,
}

/// Incidents by which a candidate differs from today.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// How many there are.
    pub count: u64,
    /// The earliest, in order.
    pub incidents: Vec<Listed>,
    /// How many more there are.
    pub left_out: u64,
}

/// An incident in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Listed {
    /// Start of its window.
    pub window_start: EventTime,
    /// Tenant.
    pub tenant: String,
    /// 32 hex digits.
    pub fingerprint: String,
}

/// A bug with many incidents.
#[derive(Clone, Debug, Serialize)]
pub struct Noisy {
    /// Tenant.
    pub tenant: String,
    /// 32 hex digits.
    pub fingerprint: String,
    /// Its incidents.
    pub incidents: u64,
    /// Occurrences in their windows.
    pub occurrences: u64,
    /// The most frequent message of its busiest window.
    pub message: String,
}
