//! The rules as configured: what may be, and what comes of it.

use super::file::RuleEntry;
use floodmark_model::rule::{Rule, RuleMatch};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Each occurrence is matched with every rule.
const RULES_MAX: usize = 64;
/// Names in one list of a rule.
const NAMES_MAX: usize = 1_000;
/// Bytes of the names in one list: they travel to the stores with each question.
const NAMES_BYTES_MAX: usize = 48 << 10;

/// A value that cannot be.
pub(super) struct Wrong {
    /// Its key, such as `rules[0].threshold`.
    pub(super) key: String,
    /// How it was written.
    pub(super) value: String,
    /// What would be right.
    pub(super) right: String,
}

/// The rules of the entries.
pub(super) fn rules(entries: Vec<RuleEntry>) -> Result<Vec<Rule>, Wrong> {
    if entries.is_empty() || entries.len() > RULES_MAX {
        let right = format!("between 1 and {RULES_MAX} rules");
        return Err(Wrong { key: "rules".into(), value: entries.len().to_string(), right });
    }
    for (index, entry) in entries.iter().enumerate() {
        check(entry, index)?;
        if entries[..index].iter().any(|other| other.name == entry.name) {
            return wrong(index, "name", &entry.name, "another rule has this name: incidents are known by it");
        }
    }
    Ok(entries.into_iter().map(rule).collect())
}

fn wrong<T>(index: usize, key: &str, value: &impl Debug, right: &str) -> Result<T, Wrong> {
    Err(Wrong { key: format!("rules[{index}].{key}"), value: format!("{value:?}"), right: right.into() })
}

fn check(entry: &RuleEntry, index: usize) -> Result<(), Wrong> {
    let (window, buckets) = (entry.window.0, i64::from(entry.straddle_buckets));
    if entry.name.is_empty() || entry.name.len() > 128 || entry.name.contains('\0') {
        return wrong(index, "name", &entry.name, "a name of 1 to 128 bytes, without a NUL");
    }
    if !(1_000..=366 * 86_400_000).contains(&window) {
        return wrong(index, "window", &entry.window, "between 1s and 366d");
    }
    if entry.threshold == 0 {
        return wrong(index, "threshold", &0, "at least 1");
    }
    if buckets == 0 || buckets > 1_000 || window % buckets != 0 {
        return wrong(index, "straddle_buckets", &buckets, "must divide the window, and be at most 1000");
    }
    if let Some((tenant, _)) = entry.tenant_thresholds.iter().find(|(_, threshold)| **threshold == 0) {
        return wrong(index, &format!("tenant_thresholds.{tenant:?}"), &0, "at least 1");
    }
    check_names(index, "tenants", &entry.tenants)?;
    check_names(index, "services", &entry.services)?;
    check_names(index, "tenant_thresholds", entry.tenant_thresholds.keys())?;
    let matched: BTreeSet<&String> = entry.tenants.iter().collect();
    match entry.tenant_thresholds.keys().find(|tenant| !matched.is_empty() && !matched.contains(tenant)) {
        Some(tenant) => {
            wrong(index, "tenant_thresholds", tenant, "the rule does not look at this tenant: add it to its tenants")
        }
        None => Ok(()),
    }
}

fn check_names<'a>(index: usize, key: &str, names: impl IntoIterator<Item = &'a String>) -> Result<(), Wrong> {
    let (mut count, mut bytes) = (0, 0);
    for name in names {
        (count, bytes) = (count + 1, bytes + name.len());
        if name.contains('\0') {
            return wrong(index, key, name, "no record has a name with a NUL");
        }
    }
    if count > NAMES_MAX || bytes > NAMES_BYTES_MAX {
        let right = format!("at most {NAMES_MAX} names, of {NAMES_BYTES_MAX} bytes together");
        let value = format!("{count} names of {bytes} bytes");
        return Err(Wrong { key: format!("rules[{index}].{key}"), value, right });
    }
    Ok(())
}

fn rule(entry: RuleEntry) -> Rule {
    Rule {
        name: entry.name,
        window_ms: entry.window.0,
        threshold: entry.threshold,
        tenant_thresholds: entry.tenant_thresholds,
        straddle: entry.straddle,
        buckets: entry.straddle_buckets,
        severity: entry.severity,
        matches: RuleMatch { tenants: entry.tenants, services: entry.services, level: entry.level },
        ..Rule::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entries: Vec<RuleEntry>) -> String {
        let Err(Wrong { key, value, right }) = rules(entries) else { panic!("it was accepted") };
        format!("{key} = {value}: {right}")
    }

    fn entry(name: &str) -> RuleEntry {
        RuleEntry { name: name.into(), ..RuleEntry::default() }
    }

    #[test]
    fn the_entry_of_the_defaults_is_the_default_rule() {
        assert!(rules(vec![RuleEntry::default()]).is_ok_and(|rules| rules == [Rule::default()]));
    }

    #[test]
    fn what_grows_is_bounded_and_the_message_says_by_what() {
        let many = |count: usize| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>();
        let rule = |n: usize| entry(&format!("r{n}"));
        assert!(rules((0..RULES_MAX).map(rule).collect()).is_ok());
        assert!(refused((0..=RULES_MAX).map(rule).collect()).contains("between 1 and 64"));
        assert!(refused(Vec::new()).contains("between 1 and 64"));
        assert!(refused(vec![RuleEntry { services: many(NAMES_MAX + 1), ..entry("a") }]).contains("1000 names"));
        let long = vec!["x".repeat(NAMES_BYTES_MAX + 1)];
        assert!(refused(vec![RuleEntry { tenants: long, ..entry("a") }]).starts_with("rules[0].tenants"));
        let overrides = many(NAMES_MAX + 1).into_iter().map(|name| (name, 1)).collect();
        assert!(refused(vec![RuleEntry { tenant_thresholds: overrides, ..entry("a") }]).contains("tenant_thresholds"));
    }

    #[test]
    fn a_tenants_threshold_must_be_possible_and_of_use() {
        let of = |tenant: &str, threshold| [(tenant.to_owned(), threshold)].into();
        let zero = RuleEntry { tenant_thresholds: of("acme", 0), ..entry("a") };
        assert_eq!(refused(vec![zero]), "rules[0].tenant_thresholds.\"acme\" = 0: at least 1");
        let unmatched = RuleEntry { tenants: vec!["b".into()], tenant_thresholds: of("acme", 5), ..entry("a") };
        assert!(refused(vec![entry("b"), unmatched]).contains("rules[1].tenant_thresholds = \"acme\""));
        assert!(refused(vec![RuleEntry { tenant_thresholds: of("a\0", 5), ..entry("a") }]).contains("NUL"));
        assert!(refused(vec![entry("a\0")]).contains("NUL"));
        assert!(refused(vec![entry("a"), entry("a")]).contains("another rule has this name"));
    }
}
