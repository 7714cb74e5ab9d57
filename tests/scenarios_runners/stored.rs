//! What stands in the stores of a process that a test plays: SQLite in memory, and the product's own recovery.

use super::place::Log;
use floodmark::config::{Config, KafkaConfig, LimitsConfig, Secret, TimeConfig};
use floodmark::input::decode::Decoder;
use floodmark::pipeline::budget::{Admitted, Budget};
use floodmark::pipeline::commit::{Pending, SameLog, ToCommit};
use floodmark::pipeline::crowds::{OpenCrowds, crowd_incident};
use floodmark::pipeline::intake::{Intake, IntakeShared};
use floodmark::pipeline::persist::Persist;
use floodmark::pipeline::questions::{answer, closed_windows};
use floodmark::pipeline::recent::RecentMessages;
use floodmark::pipeline::retry_filter::MemoryFilter;
use floodmark::pipeline::stop::Stop;
use floodmark::pipeline::tenants::Tenants;
use floodmark::recovery::{Recovered, Recovery};
use floodmark_dataflow::message::{Answer, Closing, Due, Event, PartitionUpdate, Question, Reading, WindowKey};
use floodmark_dataflow::progress::Cut;
use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, Status};
use floodmark_model::progress::{PartitionKey, Progress, Tallies};
use floodmark_model::{EventTime, Fingerprint, Identity, IncidentKey, IncidentKind, Rule, Window};
use floodmark_sinks::rows::decode_occurrences;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{Generation, IncidentStore, OccurrenceStore, Selection};
use floodmark_testkit::scenario::{Actual, ActualIncident, ActualTotal, Counters, Record, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A claim to be idle that does not run out, and is not the end of the partition either.
pub(crate) const IDLE: Reading = Reading::IdleUntil(i64::MAX - 1);

/// Q46: the limit of a scenario, or as good as none.
pub(crate) fn max_fingerprints(scenario: &Scenario) -> u32 {
    scenario.params.max_fingerprints.map_or(1_000_000, |limit| u32::try_from(limit).unwrap())
}

/// The configuration of a scenario: the defaults, whatever the environment says.
pub(crate) fn config(scenario: &Scenario, workers: usize) -> Arc<Config> {
    config_of(vec![scenario.params.rule()], max_fingerprints(scenario), workers)
}

fn config_of(rules: Vec<Rule>, max_fingerprints: u32, workers: usize) -> Arc<Config> {
    Arc::new(Config {
        pipeline: "scenario".into(),
        workers,
        listen: None,
        kafka: KafkaConfig {
            brokers: String::new(),
            topic: String::new(),
            backfill_topic: String::new(),
            group: String::new(),
            client: BTreeMap::new(),
            accept_data_loss: false,
        },
        postgres: Secret::new(""),
        clickhouse: Secret::new(""),
        redis: None,
        time: TimeConfig::default(),
        limits: LimitsConfig { max_fingerprints, ..LimitsConfig::default() },
        rules,
        store_unmatched: false,
        reconcile_every_ms: 0,
        mapping: None,
    })
}

/// The stores, which outlive processes.
pub(crate) struct Stored {
    runtime: Runtime,
    store: SqliteStore,
    config: Arc<Config>,
    decoder: Decoder,
    /// Of each distinct occurrence, whether its time was missing and whether it was clamped.
    flags: BTreeMap<Identity, (bool, bool)>,
    /// The greatest event time of all rows.
    last_event_time: Option<EventTime>,
}

/// What a process knows from its start on.
pub(crate) struct Process {
    /// What its reading threads share.
    pub(crate) intake: Arc<IntakeShared>,
    /// What was committed.
    pub(crate) recovered: Recovered,
    /// Counts and incidents from before.
    pub(crate) loaded: Vec<Event>,
    /// What became durable and is not written down yet.
    pending: Pending,
    /// What is not written down for a purpose.
    withheld: Vec<ToCommit>,
}

impl Stored {
    /// Empty stores for the processes of a scenario.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self::for_rules(&[scenario.params.rule()], max_fingerprints(scenario))
    }

    /// Empty stores for processes with these rules.
    pub(crate) fn for_rules(rules: &[Rule], max_fingerprints: u32) -> Self {
        let config = config_of(rules.to_vec(), max_fingerprints, 1);
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            store: SqliteStore::open_in_memory().unwrap(),
            decoder: Decoder::json(&config),
            config,
            flags: BTreeMap::new(),
            last_event_time: None,
        }
    }

    /// How records are read.
    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The rules.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.config.rules
    }

    /// Q46.
    pub(crate) fn max_fingerprints(&self) -> u32 {
        self.config.limits.max_fingerprints
    }

    /// T-3, in milliseconds.
    pub(crate) fn lateness_ms(&self) -> i64 {
        self.config.time.lateness_ms
    }

    /// Takes the pipeline over, and reads what is stored.
    pub(crate) fn start(&self, log: &Log, workers: usize) -> Process {
        let persist = Persist { health: Arc::default(), metrics: Arc::default(), stop: Stop::default() };
        let recovery = Recovery { occurrences: &self.store, incidents: &self.store, persist: &persist };
        let limits = &self.config.limits;
        let intake = Arc::new(IntakeShared {
            rules: self.config.rules.clone(),
            store_unmatched: false,
            tenants: Tenants::new(limits.max_tenants),
            retries: Box::new(MemoryFilter::new(limits.max_event_ids)),
            recent: RecentMessages::default(),
            budget: Budget::new(limits.max_row_bytes),
            metrics: Arc::default(),
        });
        let mut loaded = Vec::new();
        let recovered = self.runtime.block_on(async {
            let recovered = recovery.take_over(&self.config).await.expect("the stores answer");
            let partitions = &recovered.progress.partitions;
            if !partitions.is_empty() && partitions.keys().all(|key| key.topic_id != log.topic_id) {
                recovery.delete_uncommitted(&recovered.progress).await.expect("the stores answer");
            }
            recovery
                .load(&intake, &recovered.progress, &OpenCrowds::default(), |events| loaded.extend(events))
                .await
                .expect("as above");
            recovered
        });
        let pending = Pending::new(workers, &recovered.progress);
        Process { intake, recovered, loaded, pending, withheld: Vec::new() }
    }

    /// Stores rows.
    pub(crate) fn insert(&mut self, rows: &[Admitted]) {
        let blocks: Vec<_> = rows.iter().map(|rows| rows.block.clone()).collect();
        for row in blocks.iter().flat_map(|block| decode_occurrences(block.occurrences.bytes())) {
            let row = row.unwrap();
            self.flags.insert(row.identity, (row.ts_missing, row.ts_clamped));
            self.last_event_time = self.last_event_time.max(Some(row.ts));
        }
        self.wait(self.store.insert(&blocks));
    }

    /// Writes rows.
    pub(crate) fn write(&self, process: &Process, due: &[Due]) {
        let rows = due.iter().flat_map(|due| match due {
            Due::Rows(rows) => &rows[..],
            // Everything is written in order here.
            Due::Mark { .. } | Due::Crowd { .. } => &[],
        });
        let crowds = due.iter().filter_map(|due| match due {
            Due::Crowd { key, panes } => {
                let tenant = process.intake.tenants.name(key.tenant);
                Some(crowd_incident(&self.config.rules[usize::from(key.rule.0)], tenant, key, *panes))
            }
            Due::Rows(_) | Due::Mark { .. } => None,
        });
        let rows = rows.map(|row| JudgedIncident {
            key: self.incident(process, &row.key),
            verdict: row.verdict,
            detection: row.detection,
            count: u64::from(row.count),
            opened_at: row.opened_at,
            message: None,
        });
        let rows: Vec<_> = rows.chain(crowds).collect();
        if rows.is_empty() {
            return;
        }
        self.wait(self.store.write_incidents(process.generation(), &rows));
    }

    /// Answers a judge.
    pub(crate) fn answer(&self, process: &Process, question: &Question) -> Answer {
        self.wait(answer(&self.store, &self.config.rules, &process.intake.tenants, question))
    }

    /// Does what closings ask for; gives the closed times.
    pub(crate) fn close(&self, process: &Process, closings: &[Closing]) -> Vec<ToCommit> {
        let (mut keys, mut closed) = (BTreeSet::new(), Vec::new());
        for closing in closings {
            match closing {
                // Samples are nothing that a scenario looks at, and rows are written in order.
                Closing::Refresh(_) | Closing::After { .. } => {}
                Closing::Close(key) => _ = keys.insert(*key),
                Closing::ClosedTo { worker, time } => closed.push(ToCommit::Closed { worker: *worker, time: *time }),
            }
        }
        self.write_closed(process, &self.closed_windows(process, &keys));
        closed
    }

    /// What rows say of windows that have closed.
    pub(crate) fn closed_windows(&self, process: &Process, keys: &BTreeSet<WindowKey>) -> Vec<ClosedWindow> {
        let of_rule = |(index, rule): (usize, &Rule)| {
            let of_rule = keys.iter().filter(|key| usize::from(key.rule.0) == index);
            let keys: Vec<_> = of_rule.map(|key| self.incident(process, key)).collect();
            if keys.is_empty() { Vec::new() } else { self.wait(closed_windows(&self.store, rule, &keys)) }
        };
        self.config.rules.iter().enumerate().flat_map(of_rule).collect()
    }

    /// Writes it to their incidents.
    pub(crate) fn write_closed(&self, process: &Process, windows: &[ClosedWindow]) {
        if !windows.is_empty() {
            self.wait(self.store.close_incidents(process.generation(), windows, false));
        }
    }

    /// Writes progress down.
    pub(crate) fn commit(&self, process: &mut Process) {
        std::mem::take(&mut process.withheld).into_iter().for_each(|durable| process.pending.add(durable));
        if let Some(progress) = process.pending.take(&SameLog::always()) {
            self.wait(self.store.commit(process.generation(), &progress));
        }
    }

    /// The next offset that is committed for a partition.
    pub(crate) fn next_offset(&self, key: PartitionKey) -> i64 {
        self.progress().partitions.get(&key).map_or(0, |stored| stored.next_offset)
    }

    /// The time up to which all closing is stored.
    pub(crate) fn closed(&self) -> Option<EventTime> {
        self.progress().closed
    }

    /// What is committed.
    pub(crate) fn progress(&self) -> Progress {
        self.wait(self.store.progress())
    }

    /// The greatest event time of all rows.
    pub(crate) fn last_event_time(&self) -> Option<EventTime> {
        self.last_event_time
    }

    /// The first time that counts as closed once `time` has passed.
    pub(crate) fn closed_when_passed(&self, time: EventTime) -> EventTime {
        Window::containing(time, self.config.rules[0].window_ms).start
    }

    /// What stands.
    pub(crate) fn actual(&self) -> Actual {
        self.actual_of_rule(&self.config.rules[0])
    }

    /// What stands of one rule.
    pub(crate) fn actual_of_rule(&self, rule: &Rule) -> Actual {
        let mut actual = self.wait(actual_of(&self.store, rule));
        let flagged = |of: fn(&(bool, bool)) -> bool| self.flags.values().filter(|flags| of(flags)).count() as u64;
        actual.counters.ts_missing = flagged(|(missing, _)| *missing);
        actual.counters.ts_clamped = flagged(|(_, clamped)| *clamped);
        actual
    }

    /// All rows of bursts of one rule, whether they stand or not.
    pub(crate) fn rows_of_rule(&self, rule: &Rule) -> Vec<IncidentRow> {
        let mut rows = self.wait(self.store.incidents(&Selection::default()));
        rows.retain(|row| row.rule == rule.name && row.kind == IncidentKind::Burst.name());
        rows
    }

    /// What became of the records, as committed.
    pub(crate) fn tallies(&self) -> Tallies {
        let mut all = Tallies::default();
        self.progress().partitions.values().for_each(|partition| all += partition.tallies);
        all
    }

    fn incident(&self, process: &Process, key: &WindowKey) -> IncidentKey {
        let rule = &self.config.rules[usize::from(key.rule.0)];
        IncidentKey {
            kind: IncidentKind::Burst,
            rule: rule.name.as_str().into(),
            tenant: process.intake.tenants.name(key.pane.tenant),
            fingerprint: key.pane.fingerprint,
            window: Window { start: key.window_start, size_ms: rule.window_ms },
        }
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, floodmark_sinks::StoreError>>) -> T {
        self.runtime.block_on(call).unwrap()
    }
}

impl Process {
    fn generation(&self) -> Generation {
        self.recovered.generation
    }

    /// Takes in what has become durable; [`Stored::commit`] writes it down.
    pub(crate) fn is_durable(&mut self, durable: impl IntoIterator<Item = ToCommit>) {
        self.withheld.extend(durable);
    }

    /// As [`Self::is_durable`], for cuts.
    pub(crate) fn are_durable(&mut self, cuts: Vec<Cut>) {
        self.is_durable((!cuts.is_empty()).then_some(ToCommit::Cuts(cuts)));
    }

    /// Takes a partition on where it is committed.
    pub(crate) fn assign(
        &self,
        intake: &mut Intake,
        log: &Log,
        key: PartitionKey,
    ) -> (PartitionUpdate, Option<EventTime>) {
        let stored = self.recovered.progress.partitions.get(&key).copied();
        let reading = if log.is_empty(key) { IDLE } else { Reading::Active };
        intake.assign(key, stored, stored.map_or(0, |stored| stored.next_offset), reading)
    }

    /// Whether a record is durable, so that a start does not read it.
    pub(crate) fn covers(&self, record: &Record) -> bool {
        let key = PartitionKey { topic_id: record.at.topic_id, partition: record.at.partition };
        self.recovered.progress.covers(key, record.at.offset)
    }
}

/// Incidents, totals and tallies of a store. It is asked for no flags: what they count is told apart by each level.
pub(crate) async fn actual_of(store: &SqliteStore, rule: &Rule) -> Result<Actual, floodmark_sinks::StoreError> {
    let everything = Selection::default();
    let mut rows = store.incidents(&everything).await?;
    rows.retain(|row| row.rule == rule.name);
    let starts: BTreeMap<&str, EventTime> = rows.iter().map(|row| (&*row.id, row.window_start)).collect();
    let live = |row: &&IncidentRow| matches!(row.status, Status::Open | Status::Closed);
    let of_kind = |kind: IncidentKind| rows.iter().filter(live).filter(move |row| row.kind == kind.name());
    let crowds = of_kind(IncidentKind::Cardinality).map(|row| (row.tenant.clone(), row.window_start));
    let incidents = of_kind(IncidentKind::Burst).map(|row| ActualIncident {
        tenant: row.tenant.clone(),
        fingerprint: fingerprint(&row.fingerprint),
        window_start: row.window_start,
        count: row.total.unwrap_or(row.count),
        episode: starts.get(&*row.episode_id).copied(),
    });
    let totals = store.totals(rule, &everything).await?.into_iter().map(|row| ActualTotal {
        fingerprint: fingerprint(&row.fingerprint),
        tenant: row.tenant,
        window_start: row.window_start,
        total: row.total,
    });
    let progress = store.progress().await?;
    let tallies = || progress.partitions.values().map(|partition| partition.tallies);
    let counters = Counters {
        client_retry: tallies().map(|tallies| tallies.retried).sum(),
        dead_letter: tallies().map(|tallies| tallies.dead).sum(),
        unmatched: tallies().map(|tallies| tallies.unmatched).sum(),
        ..Counters::default()
    };
    Ok(Actual { incidents: incidents.collect(), totals: totals.collect(), counters, cardinality: crowds.collect() })
}

fn fingerprint(hex: &str) -> Fingerprint {
    Fingerprint::from_hex(hex).unwrap()
}
