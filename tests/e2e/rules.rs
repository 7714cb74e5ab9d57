//! Rules that change from one start to the next (Q51), and several at once.

use super::bed::Bed;
use super::records::{Produced, T0, error};
use super::verdict::differences;
use floodmark_model::RecordTime;
use floodmark_testkit::services::engine::{Installation, Output};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

const WINDOW: i64 = 300_000;

fn installation() -> Installation {
    Installation::new(env!("CARGO_BIN_EXE_floodmark"), "")
}

fn configure(installation: &Installation, configuration: &str) {
    fs::write(installation.folder().join("floodmark.toml"), configuration).unwrap();
}

/// `count` errors of one bug of this tenant from `ts` on, a line each.
fn lines(tenant: &str, bug: u64, count: i64, ts: i64) -> String {
    (0..count).map(|n| error(tenant, bug, ts + n) + "\n").collect()
}

/// Reads a file of these lines, under this configuration.
fn read(installation: &Installation, name: &str, configuration: &str, lines: &str) -> Output {
    configure(installation, configuration);
    fs::write(installation.folder().join(name), lines).unwrap();
    installation.output("run", ["--embedded", "--json", "--input", "*.ndjson"])
}

fn rows(installation: &Installation, verb: &str) -> Vec<Value> {
    let output = installation.output(verb, ["--embedded", "--json"]);
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// (window, tenant, status, severity) of each incident; windows counted from [`T0`].
fn incidents(installation: &Installation) -> Vec<(i64, String, String, String)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let shown = |row: &Value| {
        let window = (row["window_start"].as_i64().unwrap() - T0) / WINDOW;
        (window, text(row, "tenant"), text(row, "status"), text(row, "severity"))
    };
    rows(installation, "incidents").iter().map(shown).collect()
}

fn incident(window: i64, status: &str, severity: &str) -> (i64, String, String, String) {
    (window, "acme".into(), status.into(), severity.into())
}

const TEN: &str = "[[rules]]\nname = \"default\"\nthreshold = 10\n";

#[test]
fn q51_a_changed_threshold_judges_the_windows_after_the_restarts_watermark() {
    let installation = installation();
    // The watermark ends a minute before the last record: in window 2.
    let first =
        lines("acme", 1, 10, T0) + &lines("acme", 2, 6, T0 + WINDOW) + &lines("acme", 1, 1, T0 + 3 * WINDOW - 1);
    assert_eq!(read(&installation, "a.ndjson", TEN, &first).exit_code, Some(0));
    assert_eq!(incidents(&installation), [incident(0, "closed", "critical")]);

    let five = "[[rules]]\nname = \"default\"\nthreshold = 5\nseverity = \"info\"\n";
    let second = lines("acme", 3, 6, T0 + 2 * WINDOW + WINDOW / 2) + &lines("acme", 4, 6, T0 + 3 * WINDOW + 10);
    let output = read(&installation, "b.ndjson", five, &second);
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    let found = incidents(&installation);
    assert!(found.contains(&incident(0, "closed", "critical")), "{found:?}");
    assert!(found.contains(&incident(3, "open", "info")), "by the new version: {found:?}");
    let stands = |window| found.iter().any(|(at, _, status, _)| *at == window && status != "withdrawn");
    assert!(!stands(1) && !stands(2), "by the old version: {found:?}");
}

#[test]
fn q51_a_raised_threshold_withdraws_no_incident_of_a_window_before_it() {
    let installation = installation();
    // Window 1 is still open when the input ends, and its incident with it.
    assert_eq!(read(&installation, "a.ndjson", TEN, &lines("acme", 1, 12, T0 + WINDOW + 90_000)).exit_code, Some(0));
    assert_eq!(incidents(&installation), [incident(1, "open", "critical")]);

    let hundred = "[[rules]]\nname = \"default\"\nthreshold = 100\nseverity = \"warning\"\n";
    let second = lines("acme", 1, 12, T0 + 2 * WINDOW) + &lines("acme", 1, 1, T0 + 4 * WINDOW);
    assert_eq!(read(&installation, "b.ndjson", hundred, &second).exit_code, Some(0));
    assert_eq!(incidents(&installation), [incident(1, "closed", "critical")]);
}

#[test]
fn q51_totals_are_counted_by_the_match_of_each_window() {
    let installation = installation();
    assert_eq!(read(&installation, "a.ndjson", TEN, &lines("acme", 1, 3, T0 + 90_000)).exit_code, Some(0));
    let fatal = "[[rules]]\nname = \"default\"\nthreshold = 10\nlevel = \"fatal\"\n";
    let second = lines("acme", 1, 2, T0 + 90_010)
        + &lines("acme", 1, 4, T0 + WINDOW)
        + &lines("acme", 1, 5, T0 + WINDOW + 10).replace("\"error\"", "\"fatal\"");
    assert_eq!(read(&installation, "b.ndjson", fatal, &second).exit_code, Some(0));
    let totals: Vec<_> = rows(&installation, "totals").iter().map(|row| row["total"].as_u64().unwrap()).collect();
    assert_eq!(totals, [5, 5], "errors in the first window, fatal ones alone in the second");
}

#[test]
fn q51_another_window_length_needs_another_name() {
    let installation = installation();
    assert_eq!(read(&installation, "a.ndjson", TEN, &lines("acme", 1, 10, T0)).exit_code, Some(0));
    for other in ["window = \"1m\"", "straddle_buckets = 5"] {
        let output = read(&installation, "b.ndjson", &format!("{TEN}{other}\n"), &lines("acme", 2, 1, T0 + WINDOW));
        assert_eq!(output.exit_code, Some(2), "{output:?}");
        for part in ["\"default\"", "another name"] {
            assert!(output.stderr.contains(part), "{part:?} is missing in {}", output.stderr);
        }
    }
    let renamed = "[[rules]]\nname = \"minute\"\nwindow = \"1m\"\nthreshold = 10\n";
    assert_eq!(read(&installation, "b.ndjson", renamed, &lines("acme", 2, 10, T0 + WINDOW)).exit_code, Some(0));
    let rules: Vec<_> = rows(&installation, "incidents").iter().map(|row| row["rule"].clone()).collect();
    // The first window starts after the watermark, a minute before it: the new rule judges it as well.
    assert_eq!(rules, ["default", "minute", "minute"], "what the old name found stays");
}

#[test]
fn q51_a_rule_that_is_gone_can_still_be_looked_at() {
    let installation = installation();
    let two = format!("{TEN}[[rules]]\nname = \"minute\"\nwindow = \"1m\"\nthreshold = 5\n");
    let lines = lines("acme", 1, 12, T0) + &lines("acme", 9, 1, T0 + 4 * WINDOW);
    assert_eq!(read(&installation, "a.ndjson", &two, &lines).exit_code, Some(0));
    configure(&installation, TEN);
    let since = T0.to_string();
    let reconciled = installation.output("reconcile", ["--embedded", "--since", &since]);
    assert_eq!(reconciled.exit_code, Some(0), "{reconciled:?}");
    assert!(
        reconciled.stdout.contains("rule minute is stored but not configured here: its 1 incidents"),
        "{reconciled:?}"
    );
    assert!(reconciled.stdout.contains("2 incidents judged"), "{reconciled:?}");

    let of_bug_1 = format!("{:032x}", u128::from(0x9e37_79b9_7f4a_7c15_u64) << 64 | 1);
    let explain =
        |more: &[&str]| installation.output("explain", [&["--embedded", "acme", &*of_bug_1, &*since], more].concat());
    for asked in [&[][..], &["--rule", "minute"]] {
        let shown = explain(asked);
        assert_eq!(shown.exit_code, Some(0), "{shown:?}");
        assert!(shown.stdout.contains("rule minute (not configured)"), "{}", shown.stdout);
    }
    let refused = explain(&["--rule", "none"]);
    assert_eq!((refused.exit_code, refused.stderr.contains("default, minute")), (Some(2), true), "{refused:?}");
}

/// (rule, window) of each incident that stands, with its total.
type Found = BTreeMap<(String, String, i64), i64>;

fn produce(bed: &Bed, bug: u64, count: i64, ts: i64) {
    let record = |n| Produced { partition: 0, record_time: RecordTime(ts + n), payload: error("acme", bug, ts + n) };
    bed.produce(&(0..count).map(record).collect::<Vec<_>>());
}

#[test]
fn q51_two_rules_on_real_services_change_by_restart_each_for_itself() {
    let rules = |small: u32, large: u32| {
        let rule = |name: &str, window: &str, threshold| {
            format!("[[rules]]\nname = {name:?}\nwindow = {window:?}\nthreshold = {threshold}\n")
        };
        rule("minute", "1m", small) + &rule("five", "5m", large)
    };
    // Never idle: the watermark is what the records say, however long the test takes.
    let bed = Bed::new("rule_versions", 1, &format!("[time]\nidle_after = \"10m\"\n{}", rules(4, 6)));
    let engine = bed.start_ready(1);
    produce(&bed, 1, 5, T0);
    produce(&bed, 9, 1, T0 + 3 * WINDOW);
    bed.wait_until_durable(6);
    assert_eq!(engine.stop(), Some(0));

    // The watermark is in minute 14, and so in the third window of five: both changes begin with minute 15.
    let path = bed.installation.folder().join("floodmark.toml");
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, before.replace(&rules(4, 6), &rules(9, 3))).unwrap();
    let engine = bed.start_ready(2);
    produce(&bed, 2, 5, T0 + 3 * WINDOW);
    produce(&bed, 9, 1, T0 + 6 * WINDOW);
    bed.wait_until_durable(12);
    let expected: Found =
        [(("minute".into(), "acme".into(), T0), 5), (("five".into(), "acme".into(), T0 + 3 * WINDOW), 5)].into();
    floodmark_testkit::wait::wait_until_equal(
        "the incidents of both rules",
        super::bed::PATIENCE,
        || closed(&bed),
        |found| differences(&expected, found),
    );
    assert_eq!(bed.postgres.number("SELECT count(*) FROM incidents"), 2);
    assert_eq!(bed.postgres.number("SELECT count(*) FROM rules"), 4, "two versions of each");
    assert_eq!(engine.stop(), Some(0));
}

fn closed(bed: &Bed) -> Found {
    let rows = bed.postgres.query(
        "SELECT rule, tenant, (extract(epoch FROM window_start) * 1000)::bigint, total::bigint FROM incidents \
         WHERE status = 'closed'",
    );
    rows.iter().map(|row| ((row.get(0), row.get(1), row.get(2)), row.get(3))).collect()
}
