//! From a record to what the dataflow takes: decode, match, filter retries, encode the row (one intake for each
//! reading thread).
//!
//! # Promises
//!
//! - Every record ends in exactly one tally: stored, retried, unmatched or dead (G-2), at its own offset, and one bad
//!   record costs its neighbours nothing.
//! - A record below its partition's next offset was delivered again, and changes nothing (I-1).
//! - Matching comes before the retry filter (Q48): an unmatched record's id is not remembered.
//! - What a batch holds is bounded, and a batch waits for the [`Budget`].

use crate::metrics::Metrics;
use crate::pipeline::budget::{Admitted, Budget};
use crate::pipeline::recent::RecentMessages;
use crate::pipeline::retry_filter::{Candidate, RetryFilter};
use crate::pipeline::tenants::Tenants;
use floodmark_dataflow::message::{Batch, Event, EventKind, PartitionUpdate, Reading};
use floodmark_dataflow::state::panes::PaneKey;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Tallies};
use floodmark_model::rule::{Rule, RuleIndex};
use floodmark_model::wire::Rejected;
use floodmark_model::{DeadReason, EventTime, Occurrence, RawRecord};
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
        self.partitions.insert(key, Partition { update, has_changed: false });
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
        let Partition { update, has_changed } = self.partition(key);
        update.next_offset = next_offset;
        update.greatest = update.greatest.max(occurred);
        update.reading = Reading::Active;
        update.tallies += tally;
        *has_changed = true;
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
        if !occurrence.event_id.is_empty() {
            let (identity, owner, ts) = (occurrence.identity, occurrence.at, occurrence.ts);
            self.candidates.push(Candidate { identity, owner, ts });
            self.added.push((bytes_before..block.occurrences.bytes().len(), events_before..events.len()));
        }
        Ok(Tallies { stored: 1, ..Tallies::default() })
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
        let update = |partition: &mut Partition| std::mem::take(&mut partition.has_changed).then_some(partition.update);
        let partitions = self.partitions.values_mut().filter_map(update).collect();
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
            let tallies = &mut self.partition(key).update.tallies;
            tallies.stored -= 1;
            tallies.retried += 1;
        }
    }

    fn partition(&mut self, key: PartitionKey) -> &mut Partition {
        self.partitions.get_mut(&key).expect("records come only from assigned partitions")
    }
}
