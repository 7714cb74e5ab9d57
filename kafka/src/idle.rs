//! T-4: which partitions are idle, as a plain struct over plain values.
//!
//! Silence is not idleness. A partition is idle while all of this holds:
//!
//! - it was read to its end, and no record has come since;
//! - the reader has *looked* for `idle_after` since then: it went through all that its queue held
//!   ([`Polled::seen_until_ms`](crate::Polled::seen_until_ms)). A reader that is blocked, throttled or far behind looks
//!   at nothing, whatever the clock says, and after a pause it has to watch for `idle_after` anew;
//! - it has a leader, by an answer that is fresh.
//!
//! Every claim runs out by itself ([`Idleness::idle_until`]), so that a reader which is stuck in a full channel need
//! not be able to take it back.

/// How old may be what the reader has seen, and the brokers' answer about leaders, for a claim to stand.
pub const FRESH_MS: i64 = 3_000;

/// Decides about the partitions of one reader. Times are milliseconds of one clock that does not go back.
#[derive(Debug)]
pub struct Idleness {
    idle_after_ms: i64,
    /// By partition number: a record finds its partition without a search.
    partitions: Vec<Option<Partition>>,
    seen_until_ms: i64,
    leaders_asked_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Partition {
    /// Since when it has been at its end.
    at_end_since_ms: Option<i64>,
    has_leader: bool,
    reported_idle: bool,
}

impl Idleness {
    /// No partitions yet; one is idle after `idle_after_ms` of silence at its end.
    #[must_use]
    pub fn new(idle_after_ms: i64, now_ms: i64) -> Self {
        Self { idle_after_ms, partitions: Vec::new(), seen_until_ms: now_ms, leaders_asked_ms: now_ms }
    }

    /// Begins with a partition whose leader has just answered what it holds. One that is empty starts idle; one that
    /// holds records does not.
    pub fn add(&mut self, partition: i32, is_empty: bool) {
        let Ok(index) = usize::try_from(partition) else { return };
        if self.partitions.len() <= index {
            self.partitions.resize(index + 1, None);
        }
        let at_end_since_ms = is_empty.then(|| self.seen_until_ms.saturating_sub(self.idle_after_ms));
        self.partitions[index] = Some(Partition { at_end_since_ms, has_leader: true, reported_idle: false });
    }

    /// A record of the partition was read.
    pub fn record(&mut self, partition: i32) {
        if let Some(partition) = self.partition_mut(partition) {
            partition.at_end_since_ms = None;
        }
    }

    /// The partition was read to its end.
    pub fn end_of_partition(&mut self, partition: i32, now_ms: i64) {
        if let Some(partition) = self.partition_mut(partition) {
            partition.at_end_since_ms.get_or_insert(now_ms);
        }
    }

    /// The reader has gone through all that had reached it by `seen_until_ms`. After a poll's records.
    pub fn seen(&mut self, seen_until_ms: i64) {
        // It did not look for a while: what was quiet before says nothing about the time between.
        if seen_until_ms.saturating_sub(self.seen_until_ms) > FRESH_MS {
            for partition in self.partitions.iter_mut().flatten() {
                partition.at_end_since_ms = partition.at_end_since_ms.map(|since| since.max(seen_until_ms));
            }
        }
        self.seen_until_ms = self.seen_until_ms.max(seen_until_ms);
    }

    /// Whether each partition, from 0, has a leader, by an answer to a question of `asked_ms`.
    pub fn leaders(&mut self, leaders: &[bool], asked_ms: i64) {
        self.leaders_asked_ms = self.leaders_asked_ms.max(asked_ms);
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            if let Some(partition) = partition {
                partition.has_leader = leaders.get(index).copied().unwrap_or(false);
            }
        }
    }

    /// Until when the partition may be taken for idle, if it is (exclusive). The claim is renewed by
    /// [`Self::seen`] and [`Self::leaders`], and taken back at once by [`Self::record`].
    #[must_use]
    pub fn idle_until(&self, partition: i32) -> Option<i64> {
        self.claim(self.partitions.get(usize::try_from(partition).ok()?)?.as_ref()?)
    }

    /// Whether the partition is idle at this moment.
    #[must_use]
    pub fn is_idle(&self, partition: i32, now_ms: i64) -> bool {
        self.idle_until(partition).is_some_and(|until| now_ms < until)
    }

    /// Calls `changed` for each partition that became idle (`true`) or stopped being so since the last call.
    pub fn changes(&mut self, now_ms: i64, mut changed: impl FnMut(i32, bool)) {
        for index in 0..self.partitions.len() {
            let Some(partition) = self.partitions[index] else { continue };
            let is_idle = self.claim(&partition).is_some_and(|until| now_ms < until);
            if is_idle != partition.reported_idle {
                self.partitions[index] = Some(Partition { reported_idle: is_idle, ..partition });
                changed(i32::try_from(index).expect("came from an i32"), is_idle);
            }
        }
    }

    fn claim(&self, partition: &Partition) -> Option<i64> {
        let since = partition.at_end_since_ms?;
        let watched_ms = self.seen_until_ms.saturating_sub(since);
        let is_idle = watched_ms >= self.idle_after_ms && partition.has_leader;
        is_idle.then(|| self.seen_until_ms.min(self.leaders_asked_ms).saturating_add(FRESH_MS))
    }

    fn partition_mut(&mut self, partition: i32) -> Option<&mut Partition> {
        self.partitions.get_mut(usize::try_from(partition).ok()?)?.as_mut()
    }
}

#[cfg(test)]
mod tests;
