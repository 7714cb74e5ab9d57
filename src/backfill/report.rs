//! What a backfill says at its end.

use super::compare::{Change, Verdict};
use floodmark_model::wire::Rejected;
use serde::Serialize;
use std::collections::BTreeMap;

/// Records that cannot be read and are listed one by one.
const LISTED_MAX: usize = 20;

/// A record that cannot be read: a dead letter of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Poison {
    /// `file:line`, or `topic/partition:offset`.
    pub place: String,
    /// The reason that is counted.
    pub reason: &'static str,
    /// What exactly.
    pub detail: String,
}

/// What was produced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Produced {
    /// Records that the backfill topic has taken in this run.
    pub records: u64,
    /// Where an earlier run of this backfill had sent records already, in words.
    pub resumed: Vec<String>,
    /// Records that cannot be read, by reason.
    pub dead_letters: BTreeMap<&'static str, u64>,
    /// The first of them.
    pub poison: Vec<Poison>,
    /// Last lines that are cut off: left out, they may still grow.
    pub cut_off: Vec<String>,
    /// Files that could not be read to their end, and why.
    pub unreadable: Vec<String>,
    /// Files that look as if they were written in another format.
    pub hints: Vec<String>,
}

impl Produced {
    /// Counts a record that cannot be read.
    pub fn rejected(&mut self, rejected: &Rejected, place: impl FnOnce() -> String) {
        *self.dead_letters.entry(rejected.reason.name()).or_default() += 1;
        if self.poison.len() < LISTED_MAX {
            let (reason, detail) = (rejected.reason.name(), rejected.detail.to_string());
            self.poison.push(Poison { place: place(), reason, detail });
        }
    }
}

/// How many incidents changed how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Incidents that did not stand before.
    pub new: usize,
    /// Those whose total grew.
    pub raised: usize,
    /// Those that stand as before.
    pub unchanged: usize,
    /// Those that do not stand any more.
    pub withdrawn: usize,
}

impl Changes {
    /// Counts them.
    #[must_use]
    pub fn of(verdicts: &[Verdict]) -> Self {
        let count = |change: Change| verdicts.iter().filter(|verdict| verdict.change == change).count();
        Self {
            new: count(Change::New),
            raised: count(Change::Raised),
            unchanged: count(Change::Unchanged),
            withdrawn: count(Change::Withdrawn),
        }
    }
}
