//! The rules of the configuration with the versions that the store knows: which one judges which window (Q51).

use floodmark_model::rule::VersionError;
use floodmark_model::{EventTime, Rule};

/// The configured rules from a start on whose watermark begins at `watermark` (T-6). `stored` is what the start before it
/// left.
///
/// # Errors
///
/// A rule cannot be changed so under its name.
pub fn changed_to(
    configured: &[Rule],
    stored: &[Rule],
    watermark: Option<EventTime>,
) -> Result<Vec<Rule>, VersionError> {
    let changed = |configured: &Rule| match named(stored, &configured.name) {
        Some(stored) => stored.clone().changed_to(configured, watermark),
        None => Ok(configured.clone()),
    };
    configured.iter().map(changed).collect()
}

/// The configured rules as the engine judges by them: what it has stored goes before what is configured, which it may not
/// have seen yet.
#[must_use]
pub fn as_stored(configured: &[Rule], stored: &[Rule]) -> Vec<Rule> {
    configured.iter().map(|rule| named(stored, &rule.name).unwrap_or(rule).clone()).collect()
}

/// [`as_stored`], and behind them the rules that are stored and not configured: an engine has judged by them.
#[must_use]
pub fn with_stored(configured: &[Rule], stored: &[Rule]) -> Vec<Rule> {
    let mut rules = as_stored(configured, stored);
    rules.extend(stored.iter().filter(|rule| named(configured, &rule.name).is_none()).cloned());
    rules
}

/// The rule of this name.
#[must_use]
pub fn named<'a>(rules: &'a [Rule], name: &str) -> Option<&'a Rule> {
    rules.iter().find(|rule| rule.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, threshold: u32) -> Rule {
        Rule { name: name.into(), threshold, ..Rule::default() }
    }

    #[test]
    fn q51_each_rule_changes_for_itself_and_one_that_is_gone_judges_no_more() {
        let stored = [rule("a", 1), rule("b", 2), rule("gone", 3)];
        let configured = [rule("new", 9), rule("b", 5), rule("a", 1)];
        let rules = changed_to(&configured, &stored, Some(EventTime(0))).unwrap();
        let thresholds = |rule: &Rule| rule.versions().map(|version| version.threshold).collect::<Vec<_>>();
        let shown: Vec<_> = rules.iter().map(|rule| (&*rule.name, thresholds(rule))).collect();
        assert_eq!(shown, [("new", vec![9]), ("b", vec![2, 5]), ("a", vec![1])]);
        assert!(changed_to(&[Rule { buckets: 2, ..rule("a", 1) }], &stored, Some(EventTime(0))).is_err());
    }

    #[test]
    fn what_is_stored_goes_before_what_is_configured() {
        let stored = [rule("a", 1)];
        assert_eq!(as_stored(&[rule("a", 7), rule("b", 2)], &stored), [rule("a", 1), rule("b", 2)]);
        assert_eq!(with_stored(&[rule("b", 2)], &stored), [rule("b", 2), rule("a", 1)]);
    }
}
