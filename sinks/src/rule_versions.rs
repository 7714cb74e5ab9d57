//! Versions of rules as rows, one for each version, and back (Q51).

use floodmark_model::{EventTime, Rule};
use serde_json::Value;

/// A row of the table `rules`.
pub(crate) struct VersionRow {
    pub(crate) name: String,
    /// From 1 on.
    pub(crate) version: i32,
    /// `None`: from the beginning of time on.
    pub(crate) first_window: Option<EventTime>,
    pub(crate) content: Value,
}

/// A row that no floodmark of this release or an earlier one wrote.
#[derive(Debug, thiserror::Error)]
#[error(
    "table rules holds a version {version} of rule {rule:?} that cannot be read: {cause}; run the release that wrote it"
)]
pub(crate) struct UnknownVersion {
    rule: String,
    version: i32,
    cause: serde_json::Error,
}

/// The rows of rules, in the order of the rules, oldest version first.
pub(crate) fn rows(rules: &[Rule]) -> Result<Vec<VersionRow>, serde_json::Error> {
    let numbered = rules.iter().flat_map(|rule| (1..).zip(rule.versions()));
    let row = |(version, rule): (i32, &Rule)| {
        Ok(VersionRow {
            name: rule.name.clone(),
            version,
            first_window: (rule.from > EventTime::MIN).then_some(rule.from),
            content: serde_json::to_value(rule)?,
        })
    };
    numbered.map(row).collect()
}

/// The rules of rows, which come sorted by name and version.
pub(crate) fn rules(rows: Vec<VersionRow>) -> Result<Vec<Rule>, UnknownVersion> {
    let mut versions = Vec::with_capacity(rows.len());
    for VersionRow { name, version, first_window, content } in rows {
        match serde_json::from_value::<Rule>(content) {
            Ok(rule) => versions.push(Rule { name, from: first_window.unwrap_or(EventTime::MIN), ..rule }),
            Err(cause) => return Err(UnknownVersion { rule: name, version, cause }),
        }
    }
    Ok(versions.chunk_by(|a, b| a.name == b.name).filter_map(|of_name| Rule::of_versions(of_name.to_vec())).collect())
}
