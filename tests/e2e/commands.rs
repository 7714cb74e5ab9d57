//! The commands as a person meets them: clear errors, exit codes, no secret shown.

use super::records::{T0, error};
use floodmark_testkit::services::engine::{Installation, Output};
use floodmark_testkit::wait::{DEADLINE, wait_until};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::Stdio;

fn installation(configuration: &str) -> Installation {
    Installation::new(env!("CARGO_BIN_EXE_floodmark"), configuration)
}

/// One line on standard error that says all of `parts`, and this exit code.
fn assert_fails(output: &Output, exit_code: i32, parts: &[&str]) {
    assert_eq!(output.exit_code, Some(exit_code), "{output:?}");
    assert_eq!(output.stderr.trim_end().lines().count(), 1, "one line: {}", output.stderr);
    for part in parts {
        assert!(output.stderr.contains(part), "{part:?} is missing in {}", output.stderr);
    }
}

fn run_embedded(installation: &Installation, arguments: &[&str]) -> Output {
    installation.output("run", [&["--embedded", "--json"], arguments].concat())
}

fn summary(output: &Output) -> Value {
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn a_wrong_configuration_is_one_line_with_key_value_file_and_what_would_be_right() {
    for (text, parts) in [
        ("wrokers = 2", &["wrokers", "workers", "floodmark.toml"] as &[&str]),
        ("workers = 0", &["workers", "0", "floodmark.toml", "between 1 and 1024"]),
        ("workers = \"many\"", &["workers", "many", "floodmark.toml"]),
        ("[time]\nlateness = \"soon\"", &["time.lateness", "soon", "floodmark.toml", "60s"]),
        ("[[rules]]\nname = \"a\"\nthreshold = 0", &["threshold", "0", "floodmark.toml", "at least 1"]),
        (
            "[[rules]]\nname = \"a\"\nwindow = \"5m\"\nstraddle_buckets = 7",
            &["straddle_buckets", "7", "floodmark.toml"],
        ),
        ("workers = ", &["floodmark.toml"]),
    ] {
        assert_fails(&installation(text).output::<&str>("check", []), 2, parts);
    }
    let output = installation("").with_environment("FLOODMARK_WORKERS", "none").output::<&str>("check", []);
    assert_fails(&output, 2, &["workers", "none", "environment"]);
}

#[test]
fn what_is_missing_is_named_with_the_ways_to_give_it() {
    assert_fails(&installation("").output::<&str>("run", []), 2, &["kafka.brokers", "--brokers", "FLOODMARK_BROKERS"]);
    assert_fails(&installation("").output::<&str>("totals", []), 2, &["clickhouse", "--clickhouse", "--embedded"]);
    assert_fails(&run_embedded(&installation(""), &[]), 2, &["--input"]);
    assert_fails(&run_embedded(&installation(""), &["--input", "none/*.log"]), 2, &["none/*.log", "no file"]);
}

#[test]
fn a_password_is_never_shown() {
    let refused = installation("").output("run", ["--postgres", "postgres://me:hunter2@db/x"]);
    assert_fails(&refused, 2, &["--postgres", "FLOODMARK_POSTGRES"]);
    assert!(!refused.stderr.contains("hunter2"));
    let shown = installation("clickhouse = \"http://me:hunter2@db:8123/x\"")
        .with_environment("FLOODMARK_POSTGRES", "postgres://me:hunter2@db/x")
        .output::<&str>("check", []);
    assert_eq!(shown.exit_code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("postgres://me:") && !shown.stdout.contains("hunter2"), "{}", shown.stdout);
    let keywords = "postgres = \"host=db password='hunter2'\"\nclickhouse = \"http://db:8123/x?password=hunter2\"\n\
        [kafka.client]\n\"sasl.oauthbearer.config\" = \"secret=hunter2\"";
    let shown = installation(keywords).output::<&str>("check", []);
    assert_eq!(shown.exit_code, Some(0), "{shown:?}");
    assert!(!shown.stdout.contains("hunter2"), "{}", shown.stdout);
    let setting = shown.stdout.lines().find(|line| line.contains("sasl.oauthbearer.config")).unwrap();
    assert!(setting.contains(".toml"), "{setting}");
}

#[test]
fn the_version_names_itself() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_floodmark")).arg("--version").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown.trim(), format!("floodmark {}", floodmark::VERSION));
}

#[test]
fn stores_that_are_away_are_waited_for_and_named() {
    let installation = installation("clickhouse = \"http://127.0.0.1:1/x\"\n[kafka]\nbrokers = \"127.0.0.1:1\"")
        .with_environment("FLOODMARK_POSTGRES", "postgres://me@127.0.0.1:1/x");
    let engine = installation.start::<&str>([]);
    wait_until("the reason", DEADLINE, || {
        engine.get("/readyz").is_some_and(|answer| answer.status == 503 && answer.body.contains("postgres"))
    });
    assert_eq!(engine.get("/healthz").unwrap().status, 200);
    assert_eq!(engine.metric("floodmark_ready", ""), Some(0.0));
    assert_eq!(engine.stop(), Some(0));
}

/// So many errors of one bug, a line each.
fn lines(bug: u64, records: i64) -> String {
    (0..records).map(|n| error("acme", bug, T0 + n) + "\n").collect()
}

#[test]
fn a_file_that_grows_goes_on_where_it_was_and_one_that_moved_is_the_same() {
    let installation = installation("");
    let path = |name: &str| installation.folder().join(name);
    let counts = |output: &Output| {
        let summary = summary(output);
        [&summary["records"]["read"], &summary["occurrences"]].map(|value| value.as_u64().unwrap())
    };
    let first = lines(1, 60);
    fs::write(path("a.ndjson"), &first).unwrap();
    assert_eq!(counts(&run_embedded(&installation, &["--input", "*.ndjson"])), [60, 60]);
    assert_eq!(counts(&run_embedded(&installation, &["--input", "*.ndjson"])), [0, 60], "nothing twice");
    fs::write(path("a.ndjson"), format!("{first}{}", lines(2, 5))).unwrap();
    fs::rename(path("a.ndjson"), path("b.ndjson")).unwrap();
    assert_eq!(counts(&run_embedded(&installation, &["--input", "*.ndjson"])), [5, 65]);
    fs::copy(path("b.ndjson"), path("copy.ndjson")).unwrap();
    assert_fails(&run_embedded(&installation, &["--input", "*.ndjson"]), 2, &["b.ndjson", "copy.ndjson", "alike"]);
}

#[test]
fn a_record_that_is_cut_off_at_the_end_waits_for_the_rest_of_it() {
    let installation = installation("");
    let path = |name: &str| installation.folder().join(name);
    let json = lines(1, 12);
    let log = "2026-01-01 00:00:00,000 ERROR [main] a.B - no\njava.io.IOException: x\n\tat a.B\n";
    for (name, format, whole, cut) in [("a.ndjson", "ndjson", &*json, 30), ("b.log", "log4j", log, 60)] {
        let store = format!("{name}.sqlite");
        let read = || summary(&run_embedded(&installation, &["--store", &store, "--format", format, "--input", name]));
        fs::write(path(name), &whole[..whole.len() - cut]).unwrap();
        read();
        fs::write(path(name), whole).unwrap();
        let summary = read();
        let records = whole.lines().filter(|line| line.starts_with(['{', '2'])).count();
        assert_eq!(summary["occurrences"].as_u64(), Some(records as u64), "{name}");
        assert_eq!(summary["dead_letters"], serde_json::json!({}), "{name}");
    }
}

#[test]
fn a_file_that_is_another_one_than_its_beginning_says_is_refused() {
    let installation = installation("");
    let path = |name: &str| installation.folder().join(name);
    fs::write(path("a.ndjson"), lines(1, 200)).unwrap();
    summary(&run_embedded(&installation, &["--input", "a.ndjson"]));
    fs::write(path("b.ndjson"), lines(1, 300)).unwrap();
    let output = run_embedded(&installation, &["--input", "b.ndjson"]);
    assert_fails(&output, 2, &["b.ndjson", "a.ndjson", "another store"]);
    fs::write(path("a.ndjson"), lines(1, 100)).unwrap();
    let output = run_embedded(&installation, &["--input", "a.ndjson"]);
    assert_fails(&output, 2, &["a.ndjson", "would count twice", "--again"]);
}

#[test]
fn a_log_that_is_rotated_goes_on_under_its_new_name() {
    let installation = installation("");
    let path = |name: &str| installation.folder().join(name);
    fs::write(path("app.log"), lines(1, 12)).unwrap();
    summary(&run_embedded(&installation, &["--input", "app.log*"]));
    fs::write(path("app.log.1"), lines(1, 15)).unwrap();
    fs::write(path("app.log"), lines(2, 3)).unwrap();
    let summary = summary(&run_embedded(&installation, &["--input", "app.log*"]));
    assert_eq!((summary["records"]["read"].as_u64(), summary["occurrences"].as_u64()), (Some(3 + 3), Some(18)));
}

#[test]
fn a_file_that_two_patterns_name_is_read_once() {
    let installation = installation("");
    fs::write(installation.folder().join("a1.ndjson"), lines(1, 12)).unwrap();
    let summary = summary(&run_embedded(&installation, &["--input", "*.ndjson", "a1*", "a*"]));
    assert_eq!(summary["records"]["read"].as_u64(), Some(12));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let installation = installation("");
    fs::write(installation.folder().join("a.ndjson"), (0..3_000).map(|bug| lines(bug, 1)).collect::<String>()).unwrap();
    summary(&run_embedded(&installation, &["--input", "a.ndjson"]));
    let mut command = installation.command("totals", ["--embedded", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &[][..]));
}

#[test]
fn the_end_of_an_input_waits_for_all_that_its_watermark_closes() {
    let installation = installation("");
    let minute = 60_000;
    let windows = 600;
    let of_window = |window: i64| (0..10).map(move |n| error("acme", 1, T0 + window * 5 * minute + n) + "\n");
    let all: String = (0..windows).flat_map(of_window).collect();
    fs::write(installation.folder().join("a.ndjson"), all).unwrap();
    let summary = summary(&run_embedded(&installation, &["--workers", "1", "--input", "a.ndjson"]));
    let incidents = summary["incidents"].as_array().unwrap();
    let open = incidents.iter().filter(|incident| incident["status"] == "open").count();
    assert_eq!((incidents.len(), open), (windows as usize, 2), "the last two are open: lateness is a minute");
}

#[test]
fn standard_input_is_read_and_the_same_input_again_adds_nothing() {
    let installation = installation("");
    for read in [12, 0] {
        let mut command = installation.command("run", ["--embedded", "--json", "--input", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines(1, 12).as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((summary["records"]["read"].as_u64(), summary["occurrences"].as_u64()), (Some(read), Some(12)));
        assert_eq!(summary["incidents"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn other_json_is_read_through_a_mapping() {
    let installation = installation(
        "[mapping]\ntenant = \"/kubernetes/namespace\"\nts = \"/@timestamp\"\nmessage = \"/log\"\nlevel = \"/severity\"\n",
    );
    let line = |n: i64| {
        format!(
            "{{\"@timestamp\":\"2026-01-01T00:00:0{n}Z\",\"log\":\"disk full\",\"severity\":\"ERROR\",\
             \"kubernetes\":{{\"namespace\":\"shop\"}}}}\n"
        )
    };
    fs::write(installation.folder().join("k8s.ndjson"), (0..10).map(line).collect::<String>()).unwrap();
    let summary = summary(&run_embedded(&installation, &["--input", "k8s.ndjson"]));
    let incidents = summary["incidents"].as_array().unwrap();
    assert_eq!((incidents.len(), &incidents[0]["tenant"]), (1, &Value::from("shop")));
}

#[test]
fn a_demo_shows_incidents_and_what_to_try_next_and_ends_cleanly() {
    let installation = installation("");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_floodmark"));
    let output = command.args(["demo", "--seconds", "4"]).current_dir(installation.folder()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["incidents", "occurrences", "What to try next"] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
}
