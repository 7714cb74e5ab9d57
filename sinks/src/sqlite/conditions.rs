//! Conditions of queries, and how time is cut into windows and buckets.

use floodmark_model::progress::Progress;
use floodmark_model::{EventTime, Rule, TopicId};
use serde_json::json;

/// Condition on a row of `occurrences`, with the parameters of [`RuleFilter`]. The same as `Rule::counts_fields`.
pub(super) const RULE_COUNTS: &str = "occurrences.level >= :level
    AND (:tenants IS NULL OR occurrences.tenant IN (SELECT value FROM json_each(:tenants)))
    AND (:services IS NULL OR occurrences.service IN (SELECT value FROM json_each(:services)))";

/// The parameters of [`RULE_COUNTS`].
pub(super) struct RuleFilter {
    /// `:level`.
    pub(super) level: u8,
    /// `:tenants`: a JSON array; NULL stands for every tenant.
    pub(super) tenants: Option<String>,
    /// `:services`: likewise.
    pub(super) services: Option<String>,
}

impl RuleFilter {
    pub(super) fn of(rule: &Rule) -> Self {
        let list = |names: &[String]| (!names.is_empty()).then(|| json!(names).to_string());
        Self {
            level: rule.matches.level as u8,
            tenants: list(&rule.matches.tenants),
            services: list(&rule.matches.services),
        }
    }
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
