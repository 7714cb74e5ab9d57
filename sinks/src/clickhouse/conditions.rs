//! Conditions of queries, and how time is cut into windows and buckets.
//!
//! A condition is a piece of SQL and the values of its parameters. The server takes at most 128 KiB for one parameter's
//! text (`http_max_field_value_size`), so long lists are cut into several.

use crate::{FACTS_MAX, KeySpan};
use clickhouse::query::Query;
use floodmark_model::progress::Progress;
use floodmark_model::rule::MatchSpan;
use floodmark_model::{EventTime, IncidentKey, Rule};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// 1900-01-01, the first instant that a DateTime64 can hold, in milliseconds before 1970.
const BEFORE_EPOCH_MS: i64 = 2_208_988_800_000;

/// 2299-12-31T23:59:59.999Z, the last one.
const LAST_MS: i64 = 10_413_791_999_999;

/// The unit of the sort key of `occurrences`.
const FIVE_MINUTES: Slots = Slots::of(300_000);

/// Partitions per parameter: at most 53 bytes each.
const PARTITIONS_PER_PARAMETER: usize = 1_000;

/// Five-minute numbers per parameter: at most 10 bytes each. More are a range.
const SLOTS_PER_PARAMETER: usize = 10_000;

/// Bytes of tenant names in one query, so that their parameter stays below the server's limit even if every character is
/// escaped.
const TENANT_BYTES_MAX: usize = 48 << 10;

/// How many keys, of these tenants, fit into one query; at least one.
pub(super) fn keys_of_query<'a>(tenants: impl Iterator<Item = &'a str>) -> usize {
    let mut bytes = 0;
    let fits = |tenant: &&str| {
        bytes += tenant.len() + 4;
        bytes <= TENANT_BYTES_MAX
    };
    tenants.take(FACTS_MAX).take_while(fits).count().max(1)
}

/// A part of a WHERE clause. The text holds no value that came from outside.
pub(super) trait Condition: Sync {
    /// The SQL, ready to stand beside an AND.
    fn sql(&self) -> String;

    /// Binds the parameters that the SQL names.
    fn bind(&self, query: Query) -> Query;
}

/// The SQL of all of them.
pub(super) fn all(conditions: &[&dyn Condition]) -> String {
    let parts: Vec<String> = conditions.iter().map(|condition| condition.sql()).collect();
    if parts.is_empty() { "true".into() } else { parts.join(" AND ") }
}

/// The parameters of all of them.
pub(super) fn bind_all(query: Query, conditions: &[&dyn Condition]) -> Query {
    conditions.iter().fold(query, |query, condition| condition.bind(query))
}

/// Numbers windows or buckets of one length, so that none before 1970 needs a negative dividend: `intDiv` truncates,
/// and only from zero on that is flooring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    size_ms: i64,
    shift_ms: i64,
}

impl Slots {
    pub(super) const fn of(size_ms: i64) -> Self {
        let size_ms = if size_ms < 1 { 1 } else { size_ms };
        let slots_before_epoch = (BEFORE_EPOCH_MS + size_ms - 1) / size_ms;
        Self { size_ms, shift_ms: slots_before_epoch * size_ms }
    }

    /// The number of the slot that a row lies in.
    pub(super) fn sql(self) -> String {
        format!("intDiv(toUnixTimestamp64Milli(ts) + {}, {})", self.shift_ms, self.size_ms)
    }

    /// The number of the slot that a time lies in.
    pub(super) fn number(self, time: EventTime) -> i64 {
        (in_range(time) + self.shift_ms).div_euclid(self.size_ms)
    }

    /// The first instant of a slot.
    pub(super) fn start(self, number: i64) -> EventTime {
        EventTime(number * self.size_ms - self.shift_ms)
    }

    /// The first instant of the first slot that starts at or after a time.
    pub(super) fn start_at_or_after(self, time: EventTime) -> EventTime {
        let start = self.start(self.number(time));
        if start.0 < in_range(time) { start.plus(self.size_ms) } else { start }
    }
}

pub(super) fn in_range(time: EventTime) -> i64 {
    time.0.clamp(-BEFORE_EPOCH_MS, LAST_MS)
}

/// `from <= ts < until`.
pub(super) struct TimeSpan {
    pub(super) from: EventTime,
    pub(super) until: Option<EventTime>,
}

impl Condition for TimeSpan {
    // On ts for the days, which are partitions; on five_minutes for the sort key.
    fn sql(&self) -> String {
        let from = in_range(self.from);
        let mut sql = format!(
            "ts >= fromUnixTimestamp64Milli({from}, 'UTC') AND five_minutes >= {}",
            FIVE_MINUTES.number(self.from)
        );
        if let Some(until) = self.until {
            let (last, end) = (FIVE_MINUTES.number(until), in_range(until));
            let _ = write!(sql, " AND ts < fromUnixTimestamp64Milli({end}, 'UTC') AND five_minutes <= {last}");
        }
        sql
    }

    fn bind(&self, query: Query) -> Query {
        query
    }
}

/// What a rule counts: in each window what the version of that window matches (Q51).
pub(super) struct CountedBy<'a>(pub(super) &'a Rule);

impl Condition for CountedBy<'_> {
    fn sql(&self) -> String {
        let spans = self.0.match_spans();
        let of_spans: Vec<String> = spans.iter().enumerate().map(|(n, span)| matched_in(span, n)).collect();
        if let [of_span] = &*of_spans { of_span.clone() } else { format!("(({}))", of_spans.join(") OR (")) }
    }

    fn bind(&self, query: Query) -> Query {
        self.0.match_spans().iter().enumerate().fold(query, |mut query, (n, span)| {
            if !span.matches.tenants.is_empty() {
                query = query.param(&format!("rule_tenants_{n}"), &span.matches.tenants);
            }
            if !span.matches.services.is_empty() {
                query = query.param(&format!("rule_services_{n}"), &span.matches.services);
            }
            query
        })
    }
}

/// A version begins with a window, so the time of an occurrence says whose window it lies in.
fn matched_in(span: &MatchSpan<'_>, n: usize) -> String {
    let mut sql = format!("toInt8(level) >= {}", span.matches.level as u8);
    if !span.matches.tenants.is_empty() {
        let _ = write!(sql, " AND tenant IN {{rule_tenants_{n}:Array(String)}}");
    }
    if !span.matches.services.is_empty() {
        let _ = write!(sql, " AND service IN {{rule_services_{n}:Array(String)}}");
    }
    if span.from > EventTime::MIN {
        let _ = write!(sql, " AND ts >= fromUnixTimestamp64Milli({}, 'UTC')", in_range(span.from));
    }
    if let Some(until) = span.until {
        let _ = write!(sql, " AND ts < fromUnixTimestamp64Milli({}, 'UTC')", in_range(until));
    }
    sql
}

/// One tenant.
pub(super) struct OfTenant<'a>(pub(super) &'a str);

impl Condition for OfTenant<'_> {
    fn sql(&self) -> String {
        "tenant = {tenant:String}".into()
    }

    fn bind(&self, query: Query) -> Query {
        query.param("tenant", self.0)
    }
}

/// Rows of records that are durable: below the next offset of their partition.
pub(super) struct Covered {
    partitions: Vec<String>,
    next_offsets: Vec<i64>,
}

impl Covered {
    pub(super) fn by(progress: &Progress) -> Self {
        let partitions = progress.partitions.keys().map(|key| format!("{}:{}", key.topic_id, key.partition)).collect();
        let next_offsets = progress.partitions.values().map(|partition| partition.next_offset).collect();
        Self { partitions, next_offsets }
    }

    fn chunks(&self) -> impl Iterator<Item = (&[String], &[i64])> {
        self.partitions.chunks(PARTITIONS_PER_PARAMETER).zip(self.next_offsets.chunks(PARTITIONS_PER_PARAMETER))
    }
}

impl Condition for Covered {
    // A table in a parameter, looked up by hash: as fast as a join, and it may stand in a DELETE as well. What it does
    // not hold is not covered.
    fn sql(&self) -> String {
        let lookups: Vec<String> = self
            .chunks()
            .enumerate()
            .map(|(n, _)| {
                format!(
                    "`offset` < transform(concat(toString(topic_id), ':', toString(`partition`)), \
                     {{partitions_{n}:Array(String)}}, {{next_offsets_{n}:Array(Int64)}}, toInt64({}))",
                    i64::MIN
                )
            })
            .collect();
        if lookups.is_empty() { "false".into() } else { format!("({})", lookups.join(" OR ")) }
    }

    fn bind(&self, query: Query) -> Query {
        self.chunks().enumerate().fold(query, |query, (n, (partitions, next_offsets))| {
            query.param(&format!("partitions_{n}"), partitions).param(&format!("next_offsets_{n}"), next_offsets)
        })
    }
}

/// The five minutes that spans of time touch: what the sort key begins with.
struct FiveMinutes {
    /// First and last number of each run of them; sorted, and apart from each other.
    runs: Vec<(i64, i64)>,
}

impl FiveMinutes {
    /// Of half-open spans in any order.
    fn of(spans: impl Iterator<Item = (EventTime, EventTime)>) -> Self {
        let numbers =
            |(from, until): (EventTime, EventTime)| (FIVE_MINUTES.number(from), FIVE_MINUTES.number(until.minus(1)));
        let mut touched: Vec<_> = spans.map(numbers).collect();
        touched.sort_unstable();
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for (first, last) in touched {
            match runs.last_mut() {
                Some(run) if first <= run.1 + 1 => run.1 = run.1.max(last),
                _ => runs.push((first, last)),
            }
        }
        Self { runs }
    }

    fn are_listed(&self) -> bool {
        let numbers: i64 = self.runs.iter().map(|(first, last)| last - first + 1).sum();
        numbers <= SLOTS_PER_PARAMETER as i64
    }
}

impl Condition for FiveMinutes {
    fn sql(&self) -> String {
        if self.are_listed() {
            return "five_minutes IN {five_minutes:Array(Int64)}".into();
        }
        let (first, last) = (self.runs.first(), self.runs.last());
        format!("five_minutes BETWEEN {} AND {}", first.map_or(0, |run| run.0), last.map_or(0, |run| run.1))
    }

    fn bind(&self, query: Query) -> Query {
        if !self.are_listed() {
            return query;
        }
        let numbers: Vec<i64> = self.runs.iter().flat_map(|(first, last)| *first..=*last).collect();
        query.param("five_minutes", &numbers)
    }
}

/// Rows of records that the retry filter knows by their identity: those with a client's id, and those that were
/// backfilled (design, decision 13).
pub(super) struct KnownByIdentity {
    backfill_topics: Vec<String>,
}

impl KnownByIdentity {
    pub(super) fn of(progress: &Progress) -> Self {
        let backfills = progress.partitions.iter().filter(|(_, partition)| partition.is_backfill());
        let topics: BTreeSet<String> = backfills.map(|(key, _)| key.topic_id.to_string()).collect();
        Self { backfill_topics: topics.into_iter().collect() }
    }
}

impl Condition for KnownByIdentity {
    fn sql(&self) -> String {
        if self.backfill_topics.is_empty() {
            return "event_id != ''".into();
        }
        "(event_id != '' OR has({backfill_topics:Array(String)}, toString(topic_id)))".into()
    }

    fn bind(&self, query: Query) -> Query {
        if self.backfill_topics.is_empty() {
            return query;
        }
        query.param("backfill_topics", &self.backfill_topics)
    }
}

/// Rows of topics of which anything is committed.
pub(super) struct OfKnownTopics(Vec<String>);

impl OfKnownTopics {
    pub(super) fn of(progress: &Progress) -> Self {
        let topics: BTreeSet<String> = progress.partitions.keys().map(|key| key.topic_id.to_string()).collect();
        Self(topics.into_iter().collect())
    }
}

impl Condition for OfKnownTopics {
    fn sql(&self) -> String {
        "has({known_topics:Array(String)}, toString(topic_id))".into()
    }

    fn bind(&self, query: Query) -> Query {
        query.param("known_topics", &self.0)
    }
}

/// Windows of keys: one (tenant, fingerprint, window) each.
pub(super) struct InWindows {
    windows: Slots,
    tenants: Vec<String>,
    fingerprints: Vec<u128>,
    numbers: Vec<i64>,
    five_minutes: FiveMinutes,
}

impl InWindows {
    pub(super) fn of(keys: &[IncidentKey], windows: Slots) -> Self {
        let span = |key: &IncidentKey| (key.window.start, key.window.start.plus(windows.size_ms));
        Self {
            windows,
            tenants: keys.iter().map(|key| key.tenant.to_string()).collect(),
            fingerprints: keys.iter().map(|key| key.fingerprint.bits()).collect(),
            numbers: keys.iter().map(|key| windows.number(key.window.start)).collect(),
            five_minutes: FiveMinutes::of(keys.iter().map(span)),
        }
    }
}

impl Condition for InWindows {
    // The first two lines are for the sort key; the last is the condition proper.
    fn sql(&self) -> String {
        format!(
            "{times} AND tenant IN {{tenants:Array(String)}} AND fingerprint_bits IN {{fingerprints:Array(UInt128)}} \
             AND (tenant, fingerprint_bits, {window}) IN \
             arrayZip({{tenants:Array(String)}}, {{fingerprints:Array(UInt128)}}, {{windows:Array(Int64)}})",
            times = self.five_minutes.sql(),
            window = self.windows.sql()
        )
    }

    fn bind(&self, query: Query) -> Query {
        let query = self.five_minutes.bind(query);
        query.param("tenants", &self.tenants).param("fingerprints", &self.fingerprints).param("windows", &self.numbers)
    }
}

/// Keys, in the five minutes that any of their spans touches. Which rows lie in a span of their own key is for
/// [`InSpans::SPANS`] to say.
pub(super) struct InSpans {
    tenants: Vec<String>,
    fingerprints: Vec<u128>,
    /// The first slot of each span, and the one behind its last.
    slots: (Vec<i64>, Vec<i64>),
    whole: TimeSpan,
    five_minutes: FiveMinutes,
}

impl InSpans {
    /// A table of the spans: tenant, fingerprint, number of the first slot, and of the one behind the last.
    pub(super) const SPANS: &str = "(SELECT span.1 AS tenant, span.2 AS fingerprint_bits, span.3 AS first, span.4 AS end \
        FROM (SELECT arrayJoin(arrayZip({tenants:Array(String)}, {fingerprints:Array(UInt128)}, \
        {firsts:Array(Int64)}, {ends:Array(Int64)})) AS span))";

    /// The spans begin and end with a slot.
    pub(super) fn of(spans: &[KeySpan], slots: Slots) -> Self {
        let behind = |span: &KeySpan| slots.number(span.until.minus(1)) + 1;
        Self {
            tenants: spans.iter().map(|span| span.tenant.to_string()).collect(),
            fingerprints: spans.iter().map(|span| span.fingerprint.bits()).collect(),
            slots: (spans.iter().map(|span| slots.number(span.from)).collect(), spans.iter().map(behind).collect()),
            whole: TimeSpan {
                from: spans.iter().map(|span| span.from).min().unwrap_or(EventTime::MIN),
                until: spans.iter().map(|span| span.until).max(),
            },
            five_minutes: FiveMinutes::of(spans.iter().map(|span| (span.from, span.until))),
        }
    }
}

impl Condition for InSpans {
    // The first is for the days; the others, down to the last, are for the sort key.
    fn sql(&self) -> String {
        format!(
            "{whole} AND {times} AND tenant IN {{tenants:Array(String)}} \
             AND fingerprint_bits IN {{fingerprints:Array(UInt128)}} \
             AND (tenant, fingerprint_bits) IN arrayZip({{tenants:Array(String)}}, {{fingerprints:Array(UInt128)}})",
            whole = self.whole.sql(),
            times = self.five_minutes.sql(),
        )
    }

    fn bind(&self, query: Query) -> Query {
        let query = self.five_minutes.bind(query);
        query
            .param("tenants", &self.tenants)
            .param("fingerprints", &self.fingerprints)
            .param("firsts", &self.slots.0)
            .param("ends", &self.slots.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_before_1970_are_floored_like_windows() {
        for size_ms in [1, 7, 30_000, 60_000, 300_000, 420_000, 86_400_000, 90_000_000_000] {
            let slots = Slots::of(size_ms);
            for time in [-BEFORE_EPOCH_MS, -300_001, -300_000, -1, 0, 1, 299_999, 300_000, 1_772_323_200_123] {
                let number = slots.number(EventTime(time));
                assert!(number >= 0, "{size_ms} {time}");
                let window = floodmark_model::Window::containing(EventTime(time), size_ms);
                assert_eq!(slots.start(number), window.start, "{size_ms} {time}");
                let next = slots.start_at_or_after(EventTime(time));
                assert!(next.0 >= time && next.0 < time + size_ms && next.0.rem_euclid(size_ms) == 0);
            }
        }
    }

    #[test]
    fn five_minutes_of_spans_are_merged_and_listed_while_they_are_few() {
        let minutes = |from: i64, until: i64| (EventTime(from * 60_000), EventTime(until * 60_000));
        let runs = |spans: &[(EventTime, EventTime)]| {
            let first = FIVE_MINUTES.number(EventTime(0));
            let FiveMinutes { runs } = FiveMinutes::of(spans.iter().copied());
            runs.iter().map(|run| (run.0 - first, run.1 - first)).collect::<Vec<_>>()
        };
        assert_eq!(runs(&[minutes(20, 25), minutes(-5, 5), minutes(4, 15)]), [(-1, 2), (4, 4)]);
        let year = minutes(0, 365 * 24 * 60);
        assert!(!FiveMinutes::of([year].into_iter()).are_listed());
        assert!(FiveMinutes::of(std::iter::repeat_n(minutes(0, 24 * 60), 5_000)).are_listed());
    }

    #[test]
    fn times_beyond_what_the_column_holds_are_clamped() {
        assert_eq!(FIVE_MINUTES.number(EventTime::MIN), 0);
        assert_eq!(FIVE_MINUTES.number(EventTime(i64::MAX)), FIVE_MINUTES.number(EventTime(LAST_MS)));
    }
}
