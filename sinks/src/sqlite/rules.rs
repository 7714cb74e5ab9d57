//! Versions of rules (Q51).

use super::classify::Trouble;
use super::pipeline::NOW;
use crate::rule_versions::{self, VersionRow};
use floodmark_model::{EventTime, Rule};
use rusqlite::{Connection, Transaction, params};

/// See [`crate::IncidentStore::store_rules`].
pub(super) fn write(transaction: &Transaction<'_>, rules: &[Rule]) -> Result<(), Trouble> {
    let rows = rule_versions::rows(rules)
        .map_err(|error| Trouble::Refused(format!("cannot write a version of a rule: {error}")))?;
    let mut write = transaction.prepare_cached(&format!(
        "INSERT INTO rules (name, version, first_window, content, created_at) VALUES (?, ?, ?, ?, {NOW})
        ON CONFLICT (name, version) DO UPDATE SET first_window = excluded.first_window, content = excluded.content,
            created_at = excluded.created_at
        WHERE (first_window, content) IS NOT (excluded.first_window, excluded.content)"
    ))?;
    for row in &rows {
        let first_window = row.first_window.map(|time| time.0);
        write.execute(params![row.name, row.version, first_window, row.content.to_string()])?;
    }
    let mut forget = transaction.prepare_cached("DELETE FROM rules WHERE name = ? AND version > ?")?;
    for rule in rules {
        forget.execute(params![rule.name, rule.versions().count() as i64])?;
    }
    Ok(())
}

/// See [`crate::IncidentStore::rules`].
pub(super) fn read(reader: &Connection) -> Result<Vec<Rule>, Trouble> {
    let mut statement =
        reader.prepare_cached("SELECT name, version, first_window, content FROM rules ORDER BY name, version")?;
    let rows = statement.query_and_then([], |row| {
        let (name, content): (String, String) = (row.get(0)?, row.get(3)?);
        let content = serde_json::from_str(&content)
            .map_err(|error| Trouble::Refused(format!("table rules holds no JSON for rule {name:?}: {error}")))?;
        let first_window = row.get::<_, Option<i64>>(2)?.map(EventTime);
        Ok::<_, Trouble>(VersionRow { name, version: row.get(1)?, first_window, content })
    })?;
    let rows = rows.collect::<Result<_, _>>()?;
    rule_versions::rules(rows).map_err(|unknown| Trouble::Refused(unknown.to_string()))
}
