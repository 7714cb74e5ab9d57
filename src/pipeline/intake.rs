//! From a record to what the dataflow takes: decode, match, filter retries, encode the row (one intake for each
//! reading thread).
//!
//! # Promises
//!
//! - Every record ends in exactly one tally: stored, retried, unmatched or dead (G-2), at its own offset, and one bad
//!   record costs its neighbours nothing.
//! - A record below its partition's next offset was delivered again, and changes nothing (I-1).
//! - Matching comes before the retry filter (Q48): an unmatched record's id is not remembered.
//! - A backfilled record is the occurrence that its origin is (decision 13). Such records come in any order; their
//!   tallies and next offset follow when all of them are in.
//! - What a batch holds is bounded, and a batch waits for the [`Budget`].

use crate::metrics::Metrics;
use crate::pipeline::budget::{Admitted, Budget};
use crate::pipeline::recent::RecentMessages;
use crate::pipeline::retry_filter::{Candidate, RetryFilter};
use crate::pipeline::tenants::Tenants;
use floodmark_dataflow::message::PaneKey;
use floodmark_dataflow::message::{Batch, Event, EventKind, PartitionUpdate, Reading};
use floodmark_model::progress::{PartitionKey, PartitionProgress, Tallies};
use floodmark_model::rule::{Rule, RuleIndex};
use floodmark_model::wire::Rejected;
use floodmark_model::wire::backfill::standing_for;
use floodmark_model::{Coordinates, DeadReason, EventTime, Occurrence, RawRecord, TopicId};
use floodmark_sinks::rows::RowBlock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Events of one batch: enough to amortise its cost, few enough to pass on at once.
const BATCH_EVENTS_MAX: usize = 4_096;
/// Encoded bytes of one batch.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Days that the rows of one batch may touch: an insert of several batches stays under a hundred.
const BATCH_DAYS_MAX: usize = 50;

/// What the reading threads of a run share.
pub struct IntakeShared {
    /// The rules with their versions, in the order of their indexes.
    pub rules: Vec<Rule>,
    /// Whether unmatched records are stored.
    pub store_unmatched: bool,
    /// Tenant names.
    pub tenants: Tenants,
    /// Client retries.
    pub retries: Box<dyn RetryFilter>,
    /// One message of each fingerprint.
    pub recent: RecentMessages,
    /// The bound of rows in memory.
    pub budget: Arc<Budget>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Collects what one thread reads into batches.
pub struct Intake {
    shared: Arc<IntakeShared>,
    partitions: BTreeMap<PartitionKey, Partition>,
    events: Vec<Event>,
    block: RowBlock,
    candidates: Vec<Candidate>,
    /// For each candidate, what it added: bytes of `block.occurrences`, and events.
    added: Vec<(Range<usize>, Range<usize>)>,
}

struct Partition {
    update: PartitionUpdate,
    /// Since the last batch.
    has_changed: bool,
    /// What became of records that were taken in out of order, and are not covered by the next offset yet.
    gathered: Tallies,
    /// Up to where those go, once all of them are in.
    gathered_to: Option<i64>,
}

impl Partition {
    /// The tallies in which a record that is in no batch yet was counted.
    fn latest_tallies(&mut self) -> &mut Tallies {
        match self.update.reading {
            Reading::Aside => &mut self.gathered,
            Reading::Active | Reading::IdleUntil(_) => &mut self.update.tallies,
        }
    }

    /// Covers what was taken in out of order, once all of it is.
    fn cover_gathered(&mut self) {
        if let Some(next_offset) = self.gathered_to.take() {
            self.update.next_offset = self.update.next_offset.max(next_offset);
            self.update.tallies += std::mem::take(&mut self.gathered);
        }
    }
}

impl Intake {
    /// An intake without partitions.
    #[must_use]
    pub fn new(shared: Arc<IntakeShared>) -> Self {
        Self {
            shared,
            partitions: BTreeMap::new(),
            events: Vec::new(),
            block: RowBlock::default(),
            candidates: Vec::new(),
            added: Vec::new(),
        }
    }

    /// Takes a partition on where it stands; gives what the source must know of it.
    pub fn assign(
        &mut self,
        key: PartitionKey,
        stored: Option<PartitionProgress>,
        start_offset: i64,
        reading: Reading,
    ) -> (PartitionUpdate, Option<EventTime>) {
        let update = PartitionUpdate {
            key,
            next_offset: start_offset,
            greatest: None,
            reading,
            tallies: stored.map_or_else(Tallies::default, |stored| stored.tallies),
        };
        let (gathered, gathered_to) = (Tallies::default(), None);
        self.partitions.insert(key, Partition { update, has_changed: false, gathered, gathered_to });
        let watermark = stored.map(|stored| stored.watermark).filter(|time| *time > EventTime::MIN);
        (update, watermark)
    }

    /// Notes whether a partition holds the merged watermark (T-4).
    pub fn set_reading(&mut self, key: PartitionKey, reading: Reading) {
        let partition = self.partition(key);
        if partition.update.reading != reading {
            partition.update.reading = reading;
            partition.has_changed = true;
        }
    }

    /// The partitions that it was given.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionKey> {
        self.partitions.keys().copied()
    }

    /// The next offset of a partition.
    #[must_use]
    pub fn next_offset(&self, key: PartitionKey) -> Option<i64> {
        self.partitions.get(&key).map(|partition| partition.update.next_offset)
    }

    /// Moves the next offset over records that do not exist (compacted, aborted, or blank).
    pub fn skip_to(&mut self, key: PartitionKey, next_offset: i64) {
        let partition = self.partition(key);
        if next_offset > partition.update.next_offset {
            partition.update.next_offset = next_offset;
            partition.has_changed = true;
        }
    }

    /// Whether the batch should be handed over before more is read into it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.events.len() >= BATCH_EVENTS_MAX
            || self.block.bytes() >= BATCH_BYTES_MAX
            || self.block.days.len() >= BATCH_DAYS_MAX
    }

    /// Takes in one record, which ends at `next_offset`. `decoded` is `Ok(None)` where the configuration filters the
    /// record out: it counts as unmatched.
    pub fn record(
        &mut self,
        record: RawRecord<'_>,
        next_offset: i64,
        decoded: Result<Option<Occurrence<'_>>, Rejected>,
    ) {
        let key = PartitionKey { topic_id: record.at.topic_id, partition: record.at.partition };
        if record.at.offset < self.partition(key).update.next_offset {
            self.shared.metrics.redelivered.inc();
            return;
        }
        let occurred = decoded.as_ref().ok().and_then(Option::as_ref).map(|occurrence| occurrence.ts);
        let outcome = match decoded {
            Err(rejected) => Err(rejected),
            Ok(None) => Ok(Tallies { unmatched: 1, ..Tallies::default() }),
            Ok(Some(occurrence)) => self.occurrence(&occurrence),
        };
        let tally = outcome.unwrap_or_else(|rejected| self.dead(&record, &rejected));
        let Partition { update, has_changed, .. } = self.partition(key);
        update.next_offset = next_offset;
        update.greatest = update.greatest.max(occurred);
        update.reading = Reading::Active;
        update.tallies += tally;
        *has_changed = true;
    }

    /// Takes in a record of the backfill topic, which may come in any order; [`Self::gathered_to`] follows. `origin` is
    /// the record that it stands for, and `live` the topic that is read live: what stands there is or will be counted
    /// as long as memory holds its window, and behind that the occurrence store replaces it.
    pub fn backfilled(
        &mut self,
        record: RawRecord<'_>,
        origin: Option<Coordinates>,
        live: TopicId,
        decoded: Result<Option<Occurrence<'_>>, Rejected>,
    ) {
        let outcome = match decoded {
            Err(rejected) => Err(rejected),
            Ok(None) => Ok(Tallies { unmatched: 1, ..Tallies::default() }),
            Ok(Some(occurrence)) => match origin {
                None => self.occurrence(&occurrence),
                Some(origin) => self.standing_for(&standing_for(occurrence, origin), origin.topic_id == live),
            },
        };
        // A line that cannot be read is one dead letter, however often it is backfilled.
        let place = RawRecord { at: origin.unwrap_or(record.at), ..record };
        let tally = outcome.unwrap_or_else(|rejected| self.dead(&place, &rejected));
        let partition = self.partition(PartitionKey { topic_id: record.at.topic_id, partition: record.at.partition });
        partition.gathered += tally;
        partition.has_changed = true;
    }

    /// An occurrence that stands for a record elsewhere.
    fn standing_for(&mut self, occurrence: &Occurrence<'_>, is_read_live: bool) -> Result<Tallies, Rejected> {
        let is_held = occurrence.ts >= self.shared.retries.forgotten_before();
        if is_read_live && is_held && self.shared.rules.iter().any(|rule| rule.counts(occurrence)) {
            return Ok(Tallies { retried: 1, ..Tallies::default() });
        }
        self.occurrence(occurrence)
    }

    /// All records of a partition below `next_offset` were given to [`Self::backfilled`].
    pub fn gathered_to(&mut self, key: PartitionKey, next_offset: i64) {
        let partition = self.partition(key);
        partition.gathered_to = partition.gathered_to.max(Some(next_offset));
        partition.has_changed = true;
    }

    /// Whether who may wait may hand over a batch.
    #[must_use]
    pub fn has_room_to_spare(&self) -> bool {
        self.shared.budget.has_room_to_spare()
    }

    /// An occurrence: counted for each rule whose version of that window matches it (Q51), and stored once.
    fn occurrence(&mut self, occurrence: &Occurrence<'_>) -> Result<Tallies, Rejected> {
        let Self { shared, block, events, .. } = self;
        let mut matching = shared.rules.iter().enumerate().filter(|(_, rule)| rule.counts(occurrence)).peekable();
        if matching.peek().is_none() {
            if shared.store_unmatched {
                block.push_unmatched(occurrence);
            }
            return Ok(Tallies { unmatched: 1, ..Tallies::default() });
        }
        let Some(tenant) = shared.tenants.number(&occurrence.tenant) else {
            let detail = "the directory of tenants is full: raise limits.max_tenants";
            return Err(Rejected::new(DeadReason::TooManyTenants, detail));
        };
        shared.metrics.timestamps(occurrence.ts_missing, occurrence.ts_clamped);
        let (bytes_before, events_before) = (block.occurrences.bytes().len(), events.len());
        block.push_occurrence(occurrence);
        events.extend(matching.map(|(index, _)| Event {
            fingerprint: occurrence.fingerprint,
            ts: occurrence.ts,
            tenant,
            n: 1,
            rule: RuleIndex(index as u16),
            kind: EventKind::Occurrence,
        }));
        shared.recent.keep(PaneKey { fingerprint: occurrence.fingerprint, tenant }, &occurrence.message);
        let is_known_by_identity = match occurrence.origin {
            None => !occurrence.event_id.is_empty(),
            // Of what memory no longer holds the occurrence store judges: millions of old records need no memory.
            Some(_) => occurrence.ts >= shared.retries.forgotten_before(),
        };
        if is_known_by_identity {
            let (identity, owner, ts) = (occurrence.identity, occurrence.at, occurrence.ts);
            self.candidates.push(Candidate { identity, owner, ts });
            self.added.push((bytes_before..block.occurrences.bytes().len(), events_before..events.len()));
        }
        let is_unique = occurrence.origin.is_none() && occurrence.event_id.is_empty();
        Ok(Tallies { stored: 1, unique: is_unique.into(), ..Tallies::default() })
    }

    fn dead(&mut self, record: &RawRecord<'_>, rejected: &Rejected) -> Tallies {
        self.block.push_dead_letter(&rejected.clone().into_dead_letter(*record));
        self.shared.metrics.dead_letter(rejected.reason);
        Tallies { dead: 1, ..Tallies::default() }
    }

    /// The batch so far, once its rows fit into the budget; `None` when nothing has changed.
    pub fn take(&mut self) -> Option<Batch<Admitted>> {
        if self.partitions.values().all(|partition| !partition.has_changed) {
            return None;
        }
        self.drop_retries();
        let next = RowBlock::with_room_for(&self.block);
        let block = std::mem::replace(&mut self.block, next);
        let rows = (block.rows() > 0).then(|| self.shared.budget.admit(block));
        let changed = self.partitions.values_mut().filter(|partition| partition.has_changed);
        let update = |partition: &mut Partition| {
            partition.has_changed = false;
            partition.cover_gathered();
            partition.update
        };
        let partitions = changed.map(update).collect();
        Some(Batch::Read { events: std::mem::take(&mut self.events), rows, partitions })
    }

    /// I-2: takes the retries out again; they were tallied as stored.
    fn drop_retries(&mut self) {
        let candidates = std::mem::take(&mut self.candidates);
        let added = std::mem::take(&mut self.added);
        if candidates.is_empty() {
            return;
        }
        let are_retries = self.shared.retries.are_retries(&candidates);
        let retries = || are_retries.iter().enumerate().filter(|(_, is_retry)| **is_retry).map(|(index, _)| index);
        let rows: Vec<_> = retries().map(|index| added[index].0.clone()).collect();
        self.block.occurrences.cut(&rows);
        for index in retries().collect::<Vec<_>>().into_iter().rev() {
            self.events.drain(added[index].1.clone());
        }
        for index in retries() {
            let owner = candidates[index].owner;
            let key = PartitionKey { topic_id: owner.topic_id, partition: owner.partition };
            let tallies = self.partition(key).latest_tallies();
            tallies.stored -= 1;
            tallies.retried += 1;
        }
    }

    fn partition(&mut self, key: PartitionKey) -> &mut Partition {
        self.partitions.get_mut(&key).expect("records come only from assigned partitions")
    }
}

#[cfg(test)]
mod tests;
