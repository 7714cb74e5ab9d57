//! What Prometheus sees. Every record and every drop has a counter with a reason.

use crate::reconcile::Kind;
use floodmark_dataflow::state::judge::JudgeFigures;
use floodmark_dataflow::window_judge::JudgeGauges;
use floodmark_model::progress::{PartitionProgress, Tallies};
use floodmark_model::{DeadReason, Detection, EventTime};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Labels of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Labels of an incident.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DetectionLabel {
    detection: &'static str,
}

/// Labels of what became of records.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Labels of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartitionLabel {
    partition: i32,
}

/// Labels of a kind of difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// Labels of a store and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkLabel {
    sink: &'static str,
    action: &'static str,
}

/// What became of the records of one process, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Figures {
    /// Records read, each at its own offset.
    pub read: u64,
    /// Stored as occurrences.
    pub stored: u64,
    /// Client retries.
    pub retried: u64,
    /// Counted by no rule.
    pub unmatched: u64,
    /// Dead letters.
    pub dead: u64,
    /// Occurrences whose window was closed, once for each rule.
    pub late: u64,
    /// Records delivered again and ignored.
    pub redelivered: u64,
}

/// The judges that work now, and what those before them had counted: a process that starts anew has others.
#[derive(Default)]
struct Judges {
    now: Vec<Arc<JudgeGauges>>,
    before: JudgeFigures,
}

/// Which of the two topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// The one that is read live.
    Live,
    /// The one of backfilled records.
    Backfill,
}

/// Where a partition stands.
#[derive(Default)]
struct Place {
    next_offset: Option<i64>,
    end: Option<i64>,
}

/// The metrics of one process.
pub struct Metrics {
    registry: Registry,
    judges: Mutex<Judges>,
    places: Mutex<BTreeMap<(Log, i32), Place>>,
    /// Records delivered again (I-1).
    pub redelivered: Counter,
    /// Event ids that the retry filter had to forget before their time.
    pub event_ids_forgotten: Counter,
    records: Counter,
    outcomes: Family<OutcomeLabel, Counter>,
    dead_letters: Family<ReasonLabel, Counter>,
    ts_missing: Counter,
    ts_clamped: Counter,
    incidents: Family<DetectionLabel, Counter>,
    withdrawn: Counter,
    counted: Counter,
    late: Counter,
    refused: Counter,
    late_keys_asked: Counter,
    late_keys_waiting: Gauge,
    panes_open: Gauge,
    panes_retained: Gauge,
    state_bytes: Gauge,
    watermark: Gauge<f64, AtomicU64>,
    partition_watermark: Family<PartitionLabel, Gauge<f64, AtomicU64>>,
    watermark_lag: Family<PartitionLabel, Gauge<f64, AtomicU64>>,
    consumer_lag: Family<PartitionLabel, Gauge>,
    backfill_lag: Family<PartitionLabel, Gauge>,
    sink_seconds: Family<SinkLabel, Histogram>,
    sink_failures: Family<SinkLabel, Counter>,
    reconcile_differences: Family<KindLabel, Gauge>,
    reconcile_last_success: Gauge<f64, AtomicU64>,
    ready: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("floodmark");
        let sink_seconds = Family::new_with_constructor(sink_histogram as fn() -> Histogram);
        let metrics = Self {
            judges: Mutex::default(),
            places: Mutex::default(),
            redelivered: Counter::default(),
            event_ids_forgotten: Counter::default(),
            records: Counter::default(),
            outcomes: Family::default(),
            dead_letters: Family::default(),
            ts_missing: Counter::default(),
            ts_clamped: Counter::default(),
            incidents: Family::default(),
            withdrawn: Counter::default(),
            counted: Counter::default(),
            late: Counter::default(),
            refused: Counter::default(),
            late_keys_asked: Counter::default(),
            late_keys_waiting: Gauge::default(),
            panes_open: Gauge::default(),
            panes_retained: Gauge::default(),
            state_bytes: Gauge::default(),
            watermark: Gauge::default(),
            partition_watermark: Family::default(),
            watermark_lag: Family::default(),
            consumer_lag: Family::default(),
            backfill_lag: Family::default(),
            sink_seconds,
            sink_failures: Family::default(),
            reconcile_differences: Family::default(),
            reconcile_last_success: Gauge::default(),
            ready: Gauge::default(),
            registry: Registry::default(),
        };
        metrics.register(&mut registry);
        Self { registry, ..metrics }
    }
}

fn sink_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 18))
}

impl Metrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("records_read", "Records read, each at its own offset", self.records.clone());
        registry.register("records", "Records by outcome: stored, retried, unmatched, dead", self.outcomes.clone());
        registry.register("records_redelivered", "Records delivered again and ignored (I-1)", self.redelivered.clone());
        registry.register("dead_letters", "Records that cannot be read, by reason", self.dead_letters.clone());
        registry.register("ts_missing", "Occurrences without a usable ts (T-1)", self.ts_missing.clone());
        registry.register("ts_clamped", "Occurrences with a ts in the future (T-2)", self.ts_clamped.clone());
        registry.register("occurrences_counted", "Occurrences counted, once for each rule", self.counted.clone());
        registry.register("occurrences_late", "Occurrences whose window was closed (T-7)", self.late.clone());
        registry.register("occurrences_refused", "Occurrences without a pane (W-12, Q46)", self.refused.clone());
        registry.register("late_keys_asked", "Keys asked of the occurrence store (W-8)", self.late_keys_asked.clone());
        registry.register("late_keys_waiting", "Keys that wait to be judged (W-8)", self.late_keys_waiting.clone());
        registry.register(
            "event_ids_forgotten",
            "Event ids forgotten early: limits.max_event_ids (I-2)",
            self.event_ids_forgotten.clone(),
        );
        registry.register("incidents", "Incidents by detection", self.incidents.clone());
        registry.register("incidents_withdrawn", "Incidents withdrawn by their totals (W-9)", self.withdrawn.clone());
        registry.register("panes_open", "Panes of open windows", self.panes_open.clone());
        registry.register("panes_retained", "Panes of closed windows that are still held", self.panes_retained.clone());
        registry.register_with_unit("state", "Memory of all panes", Unit::Bytes, self.state_bytes.clone());
        registry.register_with_unit(
            "watermark_timestamp",
            "The merged watermark, seconds since 1970",
            Unit::Seconds,
            self.watermark.clone(),
        );
        registry.register_with_unit(
            "partition_watermark_timestamp",
            "Watermark of each partition as last committed, seconds since 1970",
            Unit::Seconds,
            self.partition_watermark.clone(),
        );
        registry.register_with_unit(
            "watermark_lag",
            "How far each partition's committed watermark is behind the clock",
            Unit::Seconds,
            self.watermark_lag.clone(),
        );
        registry.register(
            "consumer_lag",
            "Records of each partition that are not durable yet",
            self.consumer_lag.clone(),
        );
        registry.register(
            "backfill_lag",
            "Records of each partition of the backfill topic that are not durable yet",
            self.backfill_lag.clone(),
        );
        registry.register_with_unit("sink", "Time of one call to a store", Unit::Seconds, self.sink_seconds.clone());
        registry.register("sink_failures", "Failed calls to a store", self.sink_failures.clone());
        registry.register(
            "reconcile_differences",
            "What the latest comparison of log, tallies, rows and incidents found, by kind",
            self.reconcile_differences.clone(),
        );
        registry.register_with_unit(
            "reconcile_last_success_timestamp",
            "When the latest comparison ended, seconds since 1970; 0 before the first",
            Unit::Seconds,
            self.reconcile_last_success.clone(),
        );
        registry.register("ready", "1 when /readyz answers 200", self.ready.clone());
    }

    /// Says whose figures are shown from now on; those of the judges before stay counted.
    pub fn set_judges(&self, gauges: Vec<Arc<JudgeGauges>>) {
        let mut judges = self.judges.lock().unwrap_or_else(PoisonError::into_inner);
        for figures in judges.now.iter().map(|judge| judge.figures()).collect::<Vec<_>>() {
            judges.before.counted += figures.counted;
            judges.before.late += figures.late;
            judges.before.refused += figures.refused;
            judges.before.asked += figures.asked;
        }
        judges.now = gauges;
    }

    /// Counts what became of records.
    pub fn tallied(&self, tallies: Tallies) {
        self.records.inc_by(tallies.read());
        let outcomes = [
            ("stored", tallies.stored),
            ("retried", tallies.retried),
            ("unmatched", tallies.unmatched),
            ("dead", tallies.dead),
        ];
        for (outcome, count) in outcomes.into_iter().filter(|(_, count)| *count > 0) {
            self.outcomes.get_or_create(&OutcomeLabel { outcome }).inc_by(count);
        }
    }

    /// Counts a dead letter.
    pub fn dead_letter(&self, reason: DeadReason) {
        self.dead_letters.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
    }

    /// Counts what T-1 and T-2 did.
    pub fn timestamps(&self, missing: bool, clamped: bool) {
        if missing {
            self.ts_missing.inc();
        }
        if clamped {
            self.ts_clamped.inc();
        }
    }

    /// Counts a new incident.
    pub fn incident(&self, detection: Detection) {
        self.incidents.get_or_create(&DetectionLabel { detection: detection.name() }).inc();
    }

    /// Counts incidents that their totals withdrew.
    pub fn withdrawn(&self, count: u64) {
        self.withdrawn.inc_by(count);
    }

    /// Notes how far a partition is committed.
    pub fn partition_committed(&self, partition: i32, progress: &PartitionProgress, now_ms: i64) {
        let log = if progress.is_backfill() { Log::Backfill } else { Log::Live };
        self.show_lag(log, partition, |place| place.next_offset = Some(progress.next_offset));
        let watermark = progress.watermark;
        if watermark == EventTime::MIN || progress.is_backfill() {
            return;
        }
        let label = PartitionLabel { partition };
        let seconds = |ms: i64| ms as f64 / 1_000.0;
        self.partition_watermark.get_or_create(&label).set(seconds(watermark.0));
        self.watermark_lag.get_or_create(&label).set(seconds(now_ms.saturating_sub(watermark.0)));
    }

    /// Notes the offset that a partition's next record will get.
    pub fn partition_ends(&self, log: Log, partition: i32, end: i64) {
        self.show_lag(log, partition, |place| place.end = Some(end));
    }

    /// The lag is what lies between progress and the end.
    fn show_lag(&self, log: Log, partition: i32, note: impl FnOnce(&mut Place)) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry((log, partition)).or_default();
        note(place);
        if let Some(end) = place.end {
            let lag = end - place.next_offset.unwrap_or(0).min(end);
            let shown = match log {
                Log::Live => &self.consumer_lag,
                Log::Backfill => &self.backfill_lag,
            };
            shown.get_or_create(&PartitionLabel { partition }).set(lag);
        }
    }

    /// Times a call to a store.
    pub fn sink_call(&self, sink: &'static str, action: &'static str, took: Duration, failed: bool) {
        let label = SinkLabel { sink, action };
        self.sink_seconds.get_or_create(&label).observe(took.as_secs_f64());
        if failed {
            self.sink_failures.get_or_create(&label).inc();
        }
    }

    /// Notes what a comparison of log, tallies, rows and incidents found.
    pub fn reconciled(&self, counts: &BTreeMap<&'static str, u64>, now_ms: i64) {
        for kind in Kind::ALL.map(Kind::name) {
            let count = counts.get(kind).copied().unwrap_or(0);
            let gauge = self.reconcile_differences.get_or_create(&KindLabel { kind });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.reconcile_last_success.set(now_ms as f64 / 1_000.0);
    }

    /// Dead letters by reason, of reasons that there were.
    #[must_use]
    pub fn dead_letters(&self) -> BTreeMap<&'static str, u64> {
        let count = |reason: DeadReason| {
            let reason = reason.name();
            (reason, self.dead_letters.get_or_create(&ReasonLabel { reason }).get())
        };
        DeadReason::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
    }

    /// The figures of a summary, as committed.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.read_judges();
        let of = |outcome| self.outcomes.get_or_create(&OutcomeLabel { outcome }).get();
        Figures {
            read: self.records.get(),
            stored: of("stored"),
            retried: of("retried"),
            unmatched: of("unmatched"),
            dead: of("dead"),
            late: self.late.get(),
            redelivered: self.redelivered.get(),
        }
    }

    /// Everything in the Prometheus text format.
    #[must_use]
    pub fn render(&self, is_ready: bool) -> String {
        self.ready.set(i64::from(is_ready));
        self.read_judges();
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    fn read_judges(&self) {
        let judges = self.judges.lock().unwrap_or_else(PoisonError::into_inner);
        let figures: Vec<_> = judges.now.iter().map(|judge| judge.figures()).collect();
        let raise = |counter: &Counter, total: u64| {
            counter.inc_by(total.saturating_sub(counter.get()));
        };
        let with = |before: u64, of: fn(&JudgeFigures) -> u64| before + figures.iter().map(of).sum::<u64>();
        raise(&self.counted, with(judges.before.counted, |figures| figures.counted));
        raise(&self.late, with(judges.before.late, |figures| figures.late));
        raise(&self.refused, with(judges.before.refused, |figures| figures.refused));
        raise(&self.late_keys_asked, with(judges.before.asked, |figures| figures.asked));
        let set = |gauge: &Gauge, total: usize| {
            gauge.set(i64::try_from(total).unwrap_or(i64::MAX));
        };
        set(&self.late_keys_waiting, figures.iter().map(|figures| figures.waiting).sum());
        set(&self.panes_open, figures.iter().map(|figures| figures.open_panes).sum());
        set(&self.panes_retained, figures.iter().map(|figures| figures.retained_panes).sum());
        set(&self.state_bytes, figures.iter().map(|figures| figures.bytes).sum());
        // None of one judge is the least of all.
        if let Some(merged) = judges.now.iter().map(|judge| judge.merged_watermark()).min().flatten() {
            self.watermark.set(merged.0 as f64 / 1_000.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_what_lies_between_progress_and_the_end() {
        let metrics = Metrics::default();
        let shows =
            |lag: &str| metrics.render(true).contains(&format!("floodmark_consumer_lag{{partition=\"3\"}} {lag}\n"));
        metrics.partition_ends(Log::Live, 3, 50);
        metrics.partition_ends(Log::Backfill, 3, 7);
        assert!(shows("50"));
        let progress = PartitionProgress { next_offset: 20, watermark: EventTime::MIN, tallies: Tallies::default() };
        metrics.partition_committed(3, &progress, 0);
        assert!(shows("30"));
        metrics.partition_committed(3, &PartitionProgress { next_offset: 60, ..progress }, 0);
        assert!(shows("0"), "the end is not asked for as often");
    }

    #[test]
    fn every_outcome_and_reason_shows() {
        let metrics = Metrics::default();
        metrics.tallied(Tallies { stored: 3, retried: 1, unmatched: 2, dead: 1, unique: 0 });
        metrics.dead_letter(DeadReason::MalformedJson);
        metrics.incident(Detection::Window);
        let text = metrics.render(true);
        for line in [
            "floodmark_records_read_total 7",
            "floodmark_records_total{outcome=\"stored\"} 3",
            "floodmark_dead_letters_total{reason=\"malformed_json\"} 1",
            "floodmark_incidents_total{detection=\"window\"} 1",
            "floodmark_ready 1",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
