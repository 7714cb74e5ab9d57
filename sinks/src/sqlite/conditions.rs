//! Conditions of queries, and how time is cut into windows and buckets.

use floodmark_model::progress::Progress;
use floodmark_model::rule::{MatchSpan, RuleMatch};
use floodmark_model::{EventTime, Rule, TopicId};
use rusqlite::types::Value;
use serde_json::json;

/// What a rule counts: in each window what the version of that window matches (Q51). The same as
/// `Rule::counts_fields`.
pub(super) struct RuleFilter {
    /// Condition on a row of `occurrences`, with the parameters below.
    pub(super) sql: String,
    /// `:level`, or of several versions a JSON array of them.
    pub(super) level: Value,
    /// `:tenants`: a JSON array; NULL stands for every tenant. Of several versions a JSON array of them.
    pub(super) tenants: Option<String>,
    /// `:services`: likewise.
    pub(super) services: Option<String>,
}

impl RuleFilter {
    pub(super) fn of(rule: &Rule) -> Self {
        match &*rule.match_spans() {
            [only] => Self::of_one(only.matches),
            several => Self::of_several(several),
        }
    }

    fn of_one(matches: &RuleMatch) -> Self {
        let list = |names: &[String]| (!names.is_empty()).then(|| json!(names).to_string());
        Self {
            sql: counted(None),
            level: Value::Integer(i64::from(matches.level as u8)),
            tenants: list(&matches.tenants),
            services: list(&matches.services),
        }
    }

    fn of_several(spans: &[MatchSpan<'_>]) -> Self {
        let levels: Vec<u8> = spans.iter().map(|span| span.matches.level as u8).collect();
        let lists = |names: fn(&RuleMatch) -> &[String]| {
            let list =
                |span: &MatchSpan<'_>| Some(names(span.matches)).filter(|names| !names.is_empty()).map(<[_]>::to_vec);
            Some(json!(spans.iter().map(list).collect::<Vec<_>>()).to_string())
        };
        let counted: Vec<String> = spans.iter().enumerate().map(|(place, span)| counted_in(span, place)).collect();
        Self {
            sql: format!("(({}))", counted.join(") OR (")),
            level: Value::Text(json!(levels).to_string()),
            tenants: lists(|matches| &matches.tenants),
            services: lists(|matches| &matches.services),
        }
    }
}

/// A version begins with a window, so the time of an occurrence says whose window it lies in.
fn counted_in(span: &MatchSpan<'_>, place: usize) -> String {
    let mut sql = counted(Some(place));
    if span.from > EventTime::MIN {
        sql += &format!(" AND occurrences.ts >= {}", span.from.0);
    }
    if let Some(until) = span.until {
        sql += &format!(" AND occurrences.ts < {}", until.0);
    }
    sql
}

/// What one version counts; its `place` in the parameters where they are those of several.
fn counted(place: Option<usize>) -> String {
    let at = place.map_or(String::new(), |place| format!(" ->> {place}"));
    let path = place.map_or(String::new(), |place| format!(", '$[{place}]'"));
    format!(
        "occurrences.level >= :level{at}
        AND (:tenants{at} IS NULL OR occurrences.tenant IN (SELECT value FROM json_each(:tenants{path})))
        AND (:services{at} IS NULL OR occurrences.service IN (SELECT value FROM json_each(:services{path})))"
    )
}

/// `cut (topic, "partition", next_offset)` from the parameter `:cut`.
pub(super) const CUT: &str = "WITH cut (topic, \"partition\", next_offset) AS MATERIALIZED (
    SELECT topics.topic, value ->> 1, value ->> 2 FROM json_each(:cut) JOIN topics ON topics.topic_id = unhex(value ->> 0)
)";

/// Keeps the rows of records that the cut covers. `CROSS JOIN` reads the rows first, by time, and looks each one's
/// partition up.
pub(super) const COVERED: &str = "CROSS JOIN cut ON cut.topic = occurrences.topic
    AND cut.\"partition\" = occurrences.\"partition\" AND occurrences.\"offset\" < cut.next_offset";

/// The parameter of [`CUT`]: up to where each partition's records are durable.
pub(super) fn cut(progress: &Progress) -> String {
    let rows: Vec<_> =
        progress.partitions.iter().map(|(key, at)| json!([hex(key.topic_id), key.partition, at.next_offset])).collect();
    json!(rows).to_string()
}

fn hex(id: TopicId) -> String {
    format!("{:032x}", u128::from_be_bytes(id.0))
}

/// `time` floored to a multiple of `size`, toward minus infinity: SQLite's `%` keeps the sign of the dividend.
pub(super) fn floored(time: &str, size: &str) -> String {
    format!("({time} - ({time} % {size} + {size}) % {size})")
}

/// The step of the column `ten_seconds`.
const TEN_SECONDS_MS: i64 = 10_000;

/// The ten seconds that `time` lies in, counted from 1970.
pub(super) fn ten_seconds(time: EventTime) -> i64 {
    time.0.div_euclid(TEN_SECONDS_MS)
}
