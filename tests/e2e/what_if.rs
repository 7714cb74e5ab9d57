//! `what-if`: other rules over what is stored, which it leaves as it is.

use super::bed::Bed;
use super::records::{T0, error};
use floodmark::what_if::{Choices, Question, ask};
use floodmark_model::{EventTime, RecordTime, Rule};
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_testkit::services::engine::{Installation, Output};
use serde_json::{Value, json};
use std::fs;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Today no burst over a boundary pages.
const RULE: &str = "[[rules]]\nname = \"default\"\nwindow = \"5m\"\nthreshold = 10\nstraddle = false\n";

/// Bug, minute and number of errors in it.
const ERRORS: [(u64, i64, i64); 7] = [(1, 0, 12), (1, 6, 10), (2, 1, 6), (3, 4, 5), (3, 5, 5), (4, 20, 4), (4, 24, 6)];

fn records() -> Vec<(i64, String)> {
    let mut records = Vec::new();
    for (bug, minute, errors) in ERRORS {
        for n in 0..errors {
            let ts = T0 + minute * MINUTE + 30_000 + n;
            records.push((ts, error("acme", bug, ts)));
        }
    }
    // Another tenant, and what no rule counts.
    records.extend((0..10).map(|n| (T0 + n, error("other", 9, T0 + n))));
    records.push((T0, error("acme", 1, T0).replace("\"error\"", "\"info\"")));
    records.sort();
    records
}

/// An embedded installation that has read these records.
fn embedded(configuration: &str, records: &[(i64, String)]) -> Installation {
    let installation = Installation::new(env!("CARGO_BIN_EXE_floodmark"), configuration);
    let text: String = records.iter().map(|(_, record)| record.clone() + "\n").collect();
    fs::write(installation.folder().join("a.ndjson"), text).unwrap();
    let output = installation.output("run", ["--embedded", "--json", "--input", "a.ndjson"]);
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    installation
}

fn what_if(installation: &Installation, arguments: &[&str]) -> Output {
    let (since, until) = (T0.to_string(), (T0 + HOUR).to_string());
    installation.output("what-if", [arguments, &["--since", &since, "--until", &until]].concat())
}

fn answer(output: &Output) -> Value {
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// The candidate of so many minutes.
fn candidate(answer: &Value, minutes: i64, threshold: u64, straddle: bool) -> &Value {
    let wanted = |candidate: &&Value| {
        candidate["window_ms"] == minutes * MINUTE
            && candidate["threshold"] == threshold
            && candidate["straddle"] == straddle
    };
    let mut found = answer["candidates"].as_array().unwrap().iter().filter(wanted);
    let candidate = found.next().unwrap();
    assert!(found.next().is_none(), "each once");
    candidate
}

/// Incidents, episodes, new and vanished.
fn figures(candidate: &Value) -> [u64; 4] {
    [&candidate["incidents"], &candidate["episodes"], &candidate["new"]["count"], &candidate["vanished"]["count"]]
        .map(|value| value.as_u64().unwrap())
}

const CANDIDATES: [&str; 6] = ["--threshold", "4,10,13", "--window", "1m,5m", "--straddle", "on,off"];

fn assert_what_if(answer: &Value) {
    assert_eq!((answer["occurrences"].as_u64(), answer["incidents_today"].as_u64()), (Some(58), Some(4)));
    let candidates = answer["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 12);
    let today: Vec<_> = candidates.iter().filter(|candidate| candidate["runs_today"] == true).collect();
    assert_eq!(today, [candidate(answer, 5, 10, false)]);

    // Bug 1 twice in one episode, bug 4 at minute 20, tenant other.
    assert_eq!(figures(candidate(answer, 5, 10, false)), [4, 3, 0, 0]);
    // And bug 3, over the boundary of minute 5.
    assert_eq!(figures(candidate(answer, 5, 10, true)), [5, 4, 1, 0]);
    // And bug 2, and bug 3 twice in one episode.
    assert_eq!(figures(candidate(answer, 5, 4, false)), [7, 5, 3, 0]);
    assert_eq!(figures(candidate(answer, 5, 13, false)), [0, 0, 0, 4]);
    // The ten of bug 4 are four minutes apart.
    assert_eq!(figures(candidate(answer, 1, 10, false)), [3, 3, 0, 1]);
    // Those of bug 3 span a little more than a minute.
    assert_eq!(figures(candidate(answer, 1, 10, true)), [3, 3, 0, 1]);
    assert_eq!(figures(candidate(answer, 1, 13, true)), [0, 0, 0, 4]);

    let bridge = candidate(answer, 5, 10, true);
    assert_eq!(bridge["new"]["left_out"], 0);
    let new = &bridge["new"]["incidents"][0];
    assert_eq!((&new["window_start"], &new["tenant"]), (&json!(T0 + 5 * MINUTE), &json!("acme")));
    let noisiest = bridge["noisiest"].as_array().unwrap();
    assert_eq!(noisiest.len(), 3);
    assert_eq!(noisiest[0]["message"], "upstream 1 answers 503");
    assert_eq!((noisiest[0]["incidents"].as_u64(), noisiest[0]["occurrences"].as_u64()), (Some(2), Some(22)));
    assert_eq!(bridge["pages_per_day"], 4.0, "a history of less than a day is one");
}

#[test]
fn other_rules_over_an_embedded_store_which_stays_as_it_is() {
    let installation = embedded(RULE, &records());
    let file = || fs::read(installation.folder().join("floodmark.sqlite")).unwrap();
    let before = file();
    assert_what_if(&answer(&what_if(&installation, &[&CANDIDATES[..], &["--embedded", "--json"]].concat())));

    let shown = what_if(&installation, &[&CANDIDATES[..], &["--embedded"]].concat());
    assert_eq!((shown.exit_code, &*shown.stderr), (Some(0), ""));
    let today: Vec<_> = shown.stdout.lines().filter(|line| line.trim_start().starts_with("today")).collect();
    assert_eq!(today.len(), 1, "{}", shown.stdout);
    assert!(today[0].contains("5m") && today[0].contains("off"), "{}", shown.stdout);
    for part in ["pages/day", "vanished", "upstream 1 answers 503", "58 occurrences", "nothing was changed"] {
        assert!(shown.stdout.contains(part), "{part:?} is missing in\n{}", shown.stdout);
    }

    let refused = what_if(&installation, &["--embedded", "--rule", "none"]);
    assert_eq!((refused.exit_code, refused.stderr.contains("there is default")), (Some(2), true), "{refused:?}");
    let long = what_if(&installation, &["--embedded", "--window", "366d"]);
    assert!(long.stdout.contains("no window of 366d begins in the range"), "{}", long.stdout);
    let other = answer(&what_if(&installation, &["--embedded", "--json", "--tenant", "other", "--threshold", "11"]));
    assert_eq!(figures(candidate(&other, 5, 11, false)), [0, 0, 0, 1]);
    assert_eq!(other["occurrences"], 10);
    assert!(file() == before, "what-if wrote to the store");
}

#[test]
fn other_rules_over_real_stores_which_stay_as_they_are() {
    let bed = Bed::new("what_if", 2, RULE);
    let engine = bed.start_ready(2);
    let records = records();
    let count = records.len() as i64;
    bed.topic.produce(records.into_iter().map(|(ts, record)| (0, RecordTime(ts), record)));
    bed.wait_until_durable(count);
    assert_eq!(engine.stop(), Some(0));
    let rows = || {
        let of = |table| bed.postgres.query(format!("SELECT t::text FROM {table} t ORDER BY 1"));
        let tables = ["incidents", "incident_transitions", "pipeline", "progress"].map(of);
        let text: Vec<String> = tables.iter().flatten().map(|row| row.get(0)).collect();
        (text, bed.clickhouse.query("SELECT count(), sum(cityHash64(*)) FROM occurrences"))
    };
    let before = rows();
    assert_what_if(&answer(&what_if(&bed.installation, &[&CANDIDATES[..], &["--json"]].concat())));
    assert_eq!(rows(), before);
}

#[test]
fn nothing_to_judge_is_said_and_is_no_failure() {
    let installation = embedded(RULE, &records());
    let output = installation.output("what-if", ["--embedded", "--threshold", "1"]);
    assert_eq!(output.exit_code, Some(0), "{output:?}");
    assert!(output.stdout.contains("nothing to judge") && output.stdout.contains("--since"), "{}", output.stdout);
    let nobody = answer(&what_if(&installation, &["--embedded", "--json", "--tenant", "nobody"]));
    assert_eq!((nobody["occurrences"].as_u64(), figures(&nobody["candidates"][0])), (Some(0), [0; 4]));
}

#[test]
fn what_cannot_be_asked_is_one_line_that_says_what_would_be_right() {
    let installation = Installation::new(env!("CARGO_BIN_EXE_floodmark"), RULE);
    for (arguments, parts) in [
        (&["--threshold", "0"] as &[&str], &["--threshold", "at least 1"] as &[&str]),
        (&["--window", "500ms"], &["--window", "500ms", "between 1s and 366d"]),
        (&["--straddle", "on", "--buckets", "7"], &["--buckets", "7", "5m"]),
        (&["--since", "soon"], &["--since", "soon", "7d", "2026-01-31T12:00:00Z"]),
        (&["--until", "2000-01-01T00:00:00Z"], &["--since", "--until", "empty"]),
    ] {
        let output = installation.output("what-if", [&["--embedded"], arguments].concat());
        assert_eq!(output.exit_code, Some(2), "{output:?}");
        assert_eq!(output.stderr.trim_end().lines().count(), 1, "{}", output.stderr);
        for part in parts {
            assert!(output.stderr.contains(part), "{part:?} is missing in {}", output.stderr);
        }
    }
    for flag in ["--threshold", "--buckets"] {
        let refused = installation.output("what-if", ["--embedded", flag, "-1"]);
        assert_eq!((refused.exit_code, refused.stderr.contains("at least 1")), (Some(2), true), "{refused:?}");
    }
    assert_eq!(installation.output("what-if", ["--embedded", "--window", "5 parsecs"]).exit_code, Some(2));
    let refused = installation.output("what-if", ["--embedded", "--window", "0s"]);
    assert!(refused.exit_code == Some(2) && refused.stderr.contains("--window 0s"), "{refused:?}");
    assert_eq!(installation.output("what-if", ["--embedded", "--straddle", "maybe"]).exit_code, Some(2));
}

#[test]
fn q51_the_row_of_today_is_what_the_engine_found() {
    let installation = Installation::new(env!("CARGO_BIN_EXE_floodmark"), "");
    let run = |name: &str, rule: &str, records: &[(i64, String)]| {
        fs::write(installation.folder().join("floodmark.toml"), rule).unwrap();
        let text: String = records.iter().map(|(_, record)| record.clone() + "\n").collect();
        fs::write(installation.folder().join(name), text).unwrap();
        let output = installation.output("run", ["--embedded", "--json", "--input", "*.ndjson"]);
        assert_eq!(output.exit_code, Some(0), "{output:?}");
    };
    let burst = |tenant: &str, bug: u64, minute: i64, errors: i64| {
        let ts = move |n| T0 + minute * MINUTE + 30_000 + n;
        let tenant = tenant.to_owned();
        (0..errors).map(move |n| (ts(n), error(&tenant, bug, ts(n)))).collect::<Vec<_>>()
    };
    let rule = |threshold: u32, straddle: bool, globex: u32| {
        format!(
            "[[rules]]\nname = \"default\"\nthreshold = {threshold}\nstraddle = {straddle}\n\
             [rules.tenant_thresholds]\nglobex = {globex}\n"
        )
    };
    // Six of one bug, over a boundary and within a window, before and after the change; three of globex.
    let part = |bug: u64, from: i64| {
        [
            burst("acme", bug, from, 6),
            burst("acme", bug + 1, from + 4, 3),
            burst("acme", bug + 1, from + 5, 3),
            burst("globex", bug, from + 1, 3),
        ]
        .concat()
    };
    let first = [part(1, 0), burst("acme", 9, 20, 1)].concat();
    run("a.ndjson", &rule(5, true, 3), &first);
    run("b.ndjson", &rule(7, false, 2), &[part(1, 25), burst("acme", 9, 50, 1)].concat());

    let output = what_if(&installation, &["--embedded", "--json", "--threshold", "3,7"]);
    let answer = answer(&output);
    let [incidents, _, new, vanished] = figures(&answer["candidates"][0]);
    assert_eq!((Some(incidents), new, vanished), (answer["incidents_today"].as_u64(), 0, 0), "{answer}");
    assert_eq!(incidents, 4, "three before the change, and globex after it");
    assert_eq!(answer["candidates"][0]["runs_today"], true);
    // What the rule is now, over all of it: globex keeps its own.
    let now =
        &answer["candidates"].as_array().unwrap().iter().find(|c| c["threshold"] == 7 && c["runs_today"] == false);
    assert_eq!(figures(now.unwrap()), [2, 2, 0, 2]);
    assert_eq!(answer["notes"].as_array().unwrap().len(), 2, "{}", answer["notes"]);
}

/// Bursts at, before and over the end of each of four days.
fn days() -> Vec<(i64, String)> {
    let mut records = Vec::new();
    for day in 1..=4 {
        for (bug, from, errors) in [(1, -400_000, 11), (1, -200_000, 12), (1, 0, 13), (2, -9_000, 10), (3, -5_500, 10)]
        {
            for n in 0..errors {
                let ts = T0 + day * DAY + from + n * 1_000;
                records.push((ts, error("acme", bug, ts)));
            }
        }
    }
    records.sort();
    records
}

#[test]
fn the_answer_does_not_depend_on_pages_and_workers() {
    let installation = embedded(RULE, &days());
    let store = SqliteStore::open_read_only(&installation.folder().join("floodmark.sqlite")).unwrap();
    let choices = Choices {
        thresholds: vec![8, 10, 12],
        windows_ms: vec![MINUTE, 5 * MINUTE, HOUR],
        straddles: vec![true, false],
        buckets: None,
    };
    let rule = Rule { straddle: false, ..Rule::default() };
    let question = Question::new(rule, &choices, EventTime(T0), EventTime(T0 + 6 * DAY), None).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let asked = |workers, rows_per_page| {
        let mut pages = 0;
        let read = |_, _| pages += 1;
        let answer = runtime.block_on(ask(&store, &store, &question, workers, rows_per_page, read)).unwrap();
        (serde_json::to_value(answer).unwrap(), pages - 1)
    };
    let (whole, pages) = asked(1, u64::MAX);
    assert_eq!((pages, whole["occurrences"].as_u64()), (1, Some(4 * 56)));
    let at_midnight = candidate(&whole, 5, 10, true);
    assert_eq!(
        figures(at_midnight),
        [20, 12, 8, 0],
        "bug 1 pages once for three windows, bugs 2 and 3 by their bridges"
    );
    for (workers, rows_per_page, pages) in [(2, 1, 5), (3, 60, 5), (2, 120, 3)] {
        let (answer, read) = asked(workers, rows_per_page);
        assert_eq!(read, pages, "{rows_per_page} rows a page");
        assert_eq!(answer, whole, "{workers} workers, {rows_per_page} rows a page");
    }
}
