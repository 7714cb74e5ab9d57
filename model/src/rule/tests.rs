use super::*;
use proptest::prelude::*;

const WINDOW: i64 = 300_000;

fn rule(threshold: u32) -> Rule {
    Rule { threshold, ..Rule::default() }
}

fn for_level(level: Level) -> Rule {
    Rule { matches: RuleMatch { level, ..RuleMatch::default() }, ..Rule::default() }
}

/// (from, threshold) of each version.
fn versions(rule: &Rule) -> Vec<(i64, u32)> {
    rule.versions().map(|version| (version.from.0, version.threshold)).collect()
}

fn changed(stored: Rule, configured: &Rule, watermark: i64) -> Rule {
    stored.changed_to(configured, Some(EventTime(watermark))).unwrap()
}

#[test]
fn a_tenant_may_have_a_threshold_of_its_own() {
    let rule = Rule { tenant_thresholds: [("acme".into(), 50), ("".into(), 2)].into(), ..rule(10) };
    assert_eq!(["acme", "", "other"].map(|tenant| rule.threshold_for(tenant)), [50, 2, 10]);
    assert_eq!((rule.least_threshold(), rule.greatest_threshold()), (2, 50));
    let rule = changed(rule, &super::tests::rule(60), 0);
    assert_eq!((rule.least_threshold(), rule.greatest_threshold()), (2, 60), "of every version");
    assert_eq!(rule.threshold_for("acme"), 60, "of the newest version");
}

#[test]
fn q51_a_window_is_judged_by_the_version_of_its_own_start() {
    let rule = changed(rule(10), &rule(5), WINDOW + 1);
    assert_eq!(versions(&rule), [(i64::MIN, 10), (2 * WINDOW, 5)], "the first window that starts after the watermark");
    let at = |time: i64| rule.at(EventTime(time)).threshold;
    assert_eq!([i64::MIN, 0, 2 * WINDOW - 1, 2 * WINDOW, i64::MAX].map(at), [10, 10, 10, 5, 5]);
}

#[test]
fn q51_a_window_that_starts_at_the_watermark_is_not_after_it() {
    assert_eq!(versions(&changed(rule(10), &rule(5), WINDOW)), [(i64::MIN, 10), (2 * WINDOW, 5)]);
    assert_eq!(versions(&changed(rule(10), &rule(5), -1)), [(i64::MIN, 10), (0, 5)], "also before 1970");
}

#[test]
fn q51_before_the_first_version_the_first_one_judges() {
    let first = Rule { from: EventTime(WINDOW), ..rule(10) };
    let second = Rule { from: EventTime(2 * WINDOW), ..rule(5) };
    let rule = Rule::of_versions(vec![first, second]).unwrap();
    assert_eq!(rule.at(EventTime(0)).threshold, 10);
    assert_eq!(Rule::of_versions(Vec::new()), None);
}

#[test]
fn q51_a_restart_without_a_change_makes_no_version() {
    let rule = changed(rule(10), &rule(5), 0);
    assert_eq!(changed(rule.clone(), &super::tests::rule(5), 9 * WINDOW), rule);
    assert_eq!(rule.clone().changed_to(&super::tests::rule(5), None), Ok(rule));
}

#[test]
fn q51_a_version_that_has_not_begun_is_replaced() {
    let two = changed(rule(10), &rule(5), 7);
    assert_eq!(versions(&changed(two.clone(), &rule(3), WINDOW - 1)), [(i64::MIN, 10), (WINDOW, 3)]);
    assert_eq!(versions(&changed(two.clone(), &rule(3), WINDOW)), [(i64::MIN, 10), (WINDOW, 5), (2 * WINDOW, 3)]);
    assert_eq!(versions(&changed(two, &rule(10), WINDOW - 1)), [(i64::MIN, 10)], "taken back before it began");
}

#[test]
fn q51_a_change_before_anything_was_judged_replaces_the_first_version() {
    for watermark in [None, Some(EventTime::MIN)] {
        assert_eq!(versions(&rule(10).changed_to(&rule(5), watermark).unwrap()), [(i64::MIN, 5)]);
    }
    let other_window = Rule { window_ms: 60_000, ..rule(10) };
    assert_eq!(rule(10).changed_to(&other_window, None), Ok(other_window));
}

#[test]
fn q51_other_windows_need_another_name() {
    for other in [Rule { window_ms: 60_000, ..rule(10) }, Rule { buckets: 5, ..rule(10) }] {
        let refused = rule(10).changed_to(&other, Some(EventTime(0))).unwrap_err();
        assert!(matches!(refused, VersionError::OtherWindows { .. }));
        let text = refused.to_string();
        for part in ["\"default\"", "300000 ms", "another name"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}

#[test]
fn the_number_of_versions_is_bounded() {
    let mut grown = rule(1);
    for n in 1..VERSIONS_MAX {
        grown = changed(grown, &rule(n as u32 + 1), n as i64 * WINDOW);
    }
    assert_eq!(grown.versions().count(), VERSIONS_MAX);
    let again = grown.changed_to(&rule(9_999), Some(EventTime(1_000 * WINDOW)));
    assert_eq!(again, Err(VersionError::TooMany { name: "default".into() }));
}

#[test]
fn q51_an_occurrence_is_matched_by_the_version_of_its_window() {
    let rule = changed(for_level(Level::Warn), &for_level(Level::Fatal), WINDOW - 1);
    let counts = |ts: i64, level| rule.counts_fields(EventTime(ts), "acme", "", level);
    assert!(counts(WINDOW - 1, Level::Warn) && !counts(WINDOW, Level::Error) && counts(WINDOW, Level::Fatal));
}

#[test]
fn versions_that_match_alike_are_one_span() {
    let rule = changed(for_level(Level::Warn), &Rule { threshold: 5, ..for_level(Level::Warn) }, 0);
    let whole = MatchSpan { from: EventTime::MIN, until: None, matches: &rule.matches };
    assert_eq!(rule.match_spans(), [whole]);

    let rule = changed(rule.clone(), &for_level(Level::Fatal), 5 * WINDOW);
    let (before, after) = (&rule.earlier[0].matches, &rule.matches);
    let change = EventTime(6 * WINDOW);
    assert_eq!(
        rule.match_spans(),
        [
            MatchSpan { from: EventTime::MIN, until: Some(change), matches: before },
            MatchSpan { from: change, until: None, matches: after },
        ]
    );
}

#[test]
fn what_is_stored_of_a_version_is_what_it_says() {
    let rule = changed(
        Rule { tenant_thresholds: [("a \"b\"".into(), 7)].into(), severity: Severity::Info, ..for_level(Level::Info) },
        &rule(3),
        0,
    );
    for version in rule.versions() {
        let text = serde_json::to_string(version).unwrap();
        let read: Rule = serde_json::from_str(&text).unwrap();
        assert!(read.says_the_same(version) && read.earlier.is_empty() && read.from == EventTime::MIN, "{text}");
    }
    let older: Rule = serde_json::from_str(r#"{"name": "default"}"#).unwrap();
    assert_eq!(older, Rule::default(), "what an older release did not know has its default");
    assert!(Severity::Info < Severity::Warning && Severity::Warning < Severity::Critical);
    for severity in [Severity::Info, Severity::Warning, Severity::Critical] {
        assert_eq!(serde_json::to_value(severity).unwrap(), severity.name());
    }
}

proptest! {
    #[test]
    fn q51_a_change_never_touches_the_windows_up_to_the_watermark(
        changes in prop::collection::vec((0..20 * WINDOW, 1..6u32), 1..8),
        probe in -WINDOW..30 * WINDOW,
    ) {
        let mut changes = changes;
        changes.sort_unstable();
        let mut now = rule(1);
        for (watermark, threshold) in changes {
            let before = now.clone();
            now = changed(now, &rule(threshold), watermark);
            let start = crate::Window::containing(EventTime(probe), WINDOW).start;
            if start.0 <= watermark {
                prop_assert_eq!(now.at(start).threshold, before.at(start).threshold);
            } else {
                prop_assert_eq!(now.at(start).threshold, threshold);
            }
            prop_assert!(now.versions().map(|version| version.from).is_sorted_by(|a, b| a < b));
            let says_the_same = |(a, b): (&Rule, &Rule)| a.says_the_same(b);
            prop_assert!(!now.versions().zip(now.versions().skip(1)).any(says_the_same));
        }
    }
}
