//! What is known of one bug in a page of history, as a replay reads it.

use super::pane::TenantId;
use floodmark_model::{EventTime, Fingerprint};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Index of a candidate in its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CandidateIndex(pub u16);

/// One bug of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BugKey {
    /// The tenant.
    pub tenant: TenantId,
    /// The bug.
    pub fingerprint: Fingerprint,
}

/// Something that is known of a bug. It holds as often as it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fact {
    /// An occurrence in the bucket that starts here: said once for each.
    Occurrence(EventTime),
    /// The incident that stands today in the window that starts here.
    Today(EventTime),
    /// The candidate has an incident in the window that ends where the page begins.
    Standing {
        /// Which candidate.
        candidate: CandidateIndex,
        /// Start of the window of its episode's first incident.
        episode: EventTime,
    },
}

/// All facts of one bug, each kind in order. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Facts", into = "Facts")]
pub struct History(Arc<Facts>);

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Facts {
    counts: Vec<BucketCount>,
    today: Vec<EventTime>,
    standing: Vec<(CandidateIndex, EventTime)>,
}

/// Occurrences in a bucket that has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BucketCount {
    /// First instant of the bucket.
    pub start: EventTime,
    /// Distinct occurrences in it; saturates.
    pub count: u32,
}

impl From<Facts> for History {
    fn from(facts: Facts) -> Self {
        Self(Arc::new(facts))
    }
}

impl From<History> for Facts {
    fn from(history: History) -> Self {
        Arc::unwrap_or_clone(history.0)
    }
}

impl History {
    /// The history that these facts make: they come in order, each once, with how often it holds.
    #[must_use]
    pub fn of<'a>(facts: impl IntoIterator<Item = (&'a Fact, isize)>) -> Self {
        let mut known = Facts::default();
        for (fact, times) in facts.into_iter().filter(|(_, times)| *times > 0) {
            match *fact {
                Fact::Occurrence(start) => {
                    let count = u32::try_from(times).unwrap_or(u32::MAX);
                    known.counts.push(BucketCount { start, count });
                }
                Fact::Today(start) => known.today.push(start),
                Fact::Standing { candidate, episode } => known.standing.push((candidate, episode)),
            }
        }
        // It stays in memory as long as its page.
        known.counts.shrink_to_fit();
        Self::from(known)
    }

    /// The buckets with occurrences, in order.
    #[must_use]
    pub fn counts(&self) -> &[BucketCount] {
        &self.0.counts
    }

    /// The starts of the windows that have an incident today, in order.
    #[must_use]
    pub fn today(&self) -> &[EventTime] {
        &self.0.today
    }

    /// If this candidate has an incident right before the page: the start of its episode.
    #[must_use]
    pub fn standing(&self, candidate: CandidateIndex) -> Option<EventTime> {
        self.0.standing.iter().find(|(of, _)| *of == candidate).map(|(_, episode)| *episode)
    }
}
