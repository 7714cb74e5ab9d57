//! What a human is paged for.

use crate::identity::KeyHasher;
use crate::predicate::{Reach, Verdict};
use crate::{EventTime, Fingerprint, Window};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What kind of thing a human is paged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IncidentKind {
    /// Many occurrences of one bug (W-4).
    #[default]
    Burst,
    /// More bugs of one tenant than may have panes (W-12, Q46). It is about no bug: its fingerprint is
    /// [`Fingerprint::NONE`].
    Cardinality,
}

impl IncidentKind {
    /// The stored name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Cardinality => "cardinality",
        }
    }

    /// The kind with this stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Burst, Self::Cardinality].into_iter().find(|kind| kind.name() == name)
    }
}

/// What an incident of occurrences is about; at most one row exists for each (W-6).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncidentKey {
    /// What kind it is.
    pub kind: IncidentKind,
    /// The rule's name.
    pub rule: Arc<str>,
    /// The tenant.
    pub tenant: Arc<str>,
    /// The bug.
    pub fingerprint: Fingerprint,
    /// The window.
    pub window: Window,
}

impl IncidentKey {
    /// The identity's hash: the same on every machine and every run.
    #[must_use]
    pub fn id(&self) -> IncidentId {
        let mut key = KeyHasher::new(self.kind.name());
        key.field(Some(self.rule.as_bytes()));
        key.field(Some(self.tenant.as_bytes()));
        key.field(Some(&self.fingerprint.0));
        key.field(Some(&self.window.start.0.to_le_bytes()));
        IncidentId(key.finish())
    }
}

/// 128-bit hash of an incident's identity, shown as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncidentId(pub u128);

impl IncidentId {
    /// The id that is shown so.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for IncidentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for IncidentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a row first became due; never changed afterwards (Q45).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detection {
    /// The window's own count reached the threshold.
    Window,
    /// A burst over the window's start did (W-3).
    Bridge,
    /// A late occurrence did (W-8).
    Late,
}

impl Detection {
    /// The stored name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Bridge => "bridge",
            Self::Late => "late",
        }
    }

    /// The detection with this stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Window, Self::Bridge, Self::Late].into_iter().find(|detection| detection.name() == name)
    }
}

/// Where a row stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Its window is open.
    Open,
    /// Its window has closed and the row has its total.
    Closed,
    /// The incident of the window before took its place (W-7).
    Superseded,
    /// The totals say that it was never due (W-9).
    Withdrawn,
}

impl Status {
    /// The stored name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Superseded => "superseded",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// The status with this stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Closed, Self::Superseded, Self::Withdrawn].into_iter().find(|status| status.name() == name)
    }
}

/// One distinct message of an incident (W-10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The message; a NUL in it is shown as U+2400 (Q52).
    pub message: String,
    /// How many occurrences of the window carry it.
    pub count: u64,
}

/// A row as the judge wants it: what the store holds is changed to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedIncident {
    /// What it is about.
    pub key: IncidentKey,
    /// Whether it stands, and why; never [`Verdict::Below`].
    pub verdict: Verdict,
    /// How it first became due (Q45).
    pub detection: Detection,
    /// count(w) as judged.
    pub count: u64,
    /// Event time of the occurrence that first made it due.
    pub opened_at: EventTime,
    /// A recent message of the fingerprint, where the process has one (W-10).
    pub message: Option<Arc<str>>,
}

/// What the occurrence store answers about one window of one key (W-9, W-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowFacts {
    /// Which incident.
    pub key: IncidentKey,
    /// Distinct occurrences in the window.
    pub total: u64,
    /// Event time of the first.
    pub first_ts: EventTime,
    /// Event time of the last.
    pub last_ts: EventTime,
    /// Up to ten distinct messages, most frequent first.
    pub samples: Vec<Sample>,
}

/// What the occurrence store says of a window that has closed, in whole (W-9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedWindow {
    /// Total, times and samples.
    pub facts: WindowFacts,
    /// What the store's counts per bucket show: below, the row was never due.
    pub reach: Reach,
}

/// A stored incident, as `floodmark incidents` shows it. Times are milliseconds since 1970 UTC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IncidentRow {
    /// 32 hex digits of the identity's hash.
    pub id: String,
    /// `burst`, `cardinality` or `alert`.
    pub kind: String,
    /// Tenant.
    pub tenant: String,
    /// Rule.
    pub rule: String,
    /// 32 hex digits.
    pub fingerprint: String,
    /// First instant of the window.
    pub window_start: EventTime,
    /// First instant after the window.
    pub window_end: EventTime,
    /// `window`, `bridge` or `late`.
    pub detection: Detection,
    /// `open`, `closed`, `superseded` or `withdrawn`.
    pub status: Status,
    /// count(w) as last judged; final when `total` is set.
    pub count: u64,
    /// Distinct occurrences in the window as the occurrence store answered at or after the close.
    pub total: Option<u64>,
    /// First occurrence of the window.
    pub first_ts: Option<EventTime>,
    /// Last occurrence of the window.
    pub last_ts: Option<EventTime>,
    /// Event time of the occurrence that made it due.
    pub opened_at: EventTime,
    /// End of the window, once it has closed.
    pub closed_at: Option<EventTime>,
    /// Id of the first incident of its episode (W-11).
    pub episode_id: String,
    /// Id of the incident that took its place (W-7).
    pub superseded_by: Option<String>,
    /// Up to ten distinct messages.
    pub samples: Vec<Sample>,
}
