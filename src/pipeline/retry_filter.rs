//! The filter of client retries (I-2, I-4): exact, in memory, for the windows that memory holds.
//!
//! One filter serves all reading threads of a process. It holds each id with its owner, the record that stands for the
//! occurrence, so that a replay of the owner passes. What is older than the windows in memory is forgotten: such a
//! retry is late, and the identity under which the occurrence store keeps the row judges it.

use floodmark_model::{Coordinates, EventTime, Identity};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An occurrence with a client's id, or one that stands for a record elsewhere (design, decision 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// (tenant, `event_id`), hashed; without a client's id that of the origin.
    pub identity: Identity,
    /// The record that carries it.
    pub owner: Coordinates,
    /// Its event time.
    pub ts: EventTime,
}

/// Decides which of the records with a client's id are retries.
pub trait RetryFilter: Send + Sync {
    /// For each candidate, in order: whether another record already stands for it. One that does not is remembered
    /// with its owner.
    fn are_retries(&self, candidates: &[Candidate]) -> Vec<bool>;

    /// Forgets what happened before this time.
    fn forget_before(&self, time: EventTime);

    /// What happened before this time is forgotten: memory holds none of its windows.
    fn forgotten_before(&self) -> EventTime;
}

/// Ids are forgotten by whole slices of event time.
const SLICE_MS: i64 = 60_000;
const SHARDS: usize = 64;

/// The filter in memory. When it is full the oldest slice is forgotten, which is counted: a retry that it then misses
/// is counted twice in memory and once in the occurrence store, and W-9 withdraws what was not due.
pub struct MemoryFilter {
    max_of_shard: usize,
    shards: Vec<Mutex<Shard>>,
    overflowed: AtomicU64,
    forgotten_before_ms: AtomicI64,
}

#[derive(Default)]
struct Shard {
    owners: HashMap<u128, Coordinates, foldhash::fast::RandomState>,
    slices: BTreeMap<i64, Vec<u128>>,
}

impl MemoryFilter {
    /// A filter for at most about `max` ids.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let mut shards = Vec::new();
        shards.resize_with(SHARDS, Mutex::default);
        Self {
            max_of_shard: (max / SHARDS).max(1),
            shards,
            overflowed: AtomicU64::new(0),
            forgotten_before_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// How many ids it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).owners.len()).sum()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many ids it had to forget before their time.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}

impl RetryFilter for MemoryFilter {
    fn are_retries(&self, candidates: &[Candidate]) -> Vec<bool> {
        let judge = |candidate: &Candidate| {
            let mut shard = lock(&self.shards[(candidate.identity.0 >> 64) as usize % SHARDS]);
            let is_retry = shard.is_retry(candidate);
            self.overflowed.fetch_add(shard.shrink_to(self.max_of_shard), Ordering::Relaxed);
            is_retry
        };
        candidates.iter().map(judge).collect()
    }

    fn forget_before(&self, time: EventTime) {
        self.forgotten_before_ms.fetch_max(time.0, Ordering::Relaxed);
        self.shards.iter().for_each(|shard| lock(shard).forget_before(time));
    }

    fn forgotten_before(&self) -> EventTime {
        EventTime(self.forgotten_before_ms.load(Ordering::Relaxed))
    }
}

impl Shard {
    fn is_retry(&mut self, candidate: &Candidate) -> bool {
        match self.owners.entry(candidate.identity.0) {
            Entry::Occupied(owner) => *owner.get() != candidate.owner,
            Entry::Vacant(place) => {
                place.insert(candidate.owner);
                self.slices.entry(candidate.ts.0.div_euclid(SLICE_MS)).or_default().push(candidate.identity.0);
                false
            }
        }
    }

    fn forget_before(&mut self, time: EventTime) {
        let kept = self.slices.split_off(&time.0.div_euclid(SLICE_MS));
        for id in std::mem::replace(&mut self.slices, kept).into_values().flatten() {
            self.owners.remove(&id);
        }
    }

    fn shrink_to(&mut self, max: usize) -> u64 {
        let before = self.owners.len();
        while self.owners.len() > max
            && let Some((_, ids)) = self.slices.pop_first()
        {
            ids.iter().for_each(|id| {
                self.owners.remove(id);
            });
        }
        (before - self.owners.len()) as u64
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::TopicId;

    fn candidate(id: u128, offset: i64, ts: i64) -> Candidate {
        let owner = Coordinates { topic_id: TopicId([0; 16]), partition: 0, offset };
        Candidate { identity: Identity(id), owner, ts: EventTime(ts) }
    }

    #[test]
    fn i2_another_record_with_the_same_id_is_a_retry() {
        let filter = MemoryFilter::new(1_000);
        let answers = filter.are_retries(&[candidate(1, 0, 5), candidate(1, 1, 5), candidate(2, 2, 5)]);
        assert_eq!(answers, [false, true, false]);
    }

    #[test]
    fn i4_a_replay_of_the_owner_passes() {
        let filter = MemoryFilter::new(1_000);
        assert_eq!(filter.are_retries(&[candidate(1, 0, 5), candidate(1, 0, 5)]), [false, false]);
    }

    #[test]
    fn what_memory_no_longer_holds_is_forgotten() {
        let filter = MemoryFilter::new(1_000);
        filter.are_retries(&[candidate(1, 0, 5), candidate(2, 1, 3 * SLICE_MS), candidate(3, 2, -SLICE_MS)]);
        filter.forget_before(EventTime(2 * SLICE_MS));
        assert_eq!(filter.len(), 1);
        assert_eq!(filter.are_retries(&[candidate(1, 9, 5), candidate(2, 9, 3 * SLICE_MS)]), [false, true]);
    }

    #[test]
    fn a_full_filter_forgets_the_oldest_and_says_so() {
        let filter = MemoryFilter::new(SHARDS * 10);
        let candidates: Vec<_> =
            (0..SHARDS as u128 * 20).map(|n| candidate(n << 64 | n, n as i64, n as i64 * SLICE_MS)).collect();
        filter.are_retries(&candidates);
        assert!(filter.len() <= SHARDS * 10);
        assert_eq!(filter.overflowed(), (SHARDS * 20 - filter.len()) as u64);
        let newest = candidates.last().copied().map(|last| candidate(last.identity.0, 1_000_000, last.ts.0)).unwrap();
        assert_eq!(filter.are_retries(&[newest]), [true], "the newest stay");
    }
}
