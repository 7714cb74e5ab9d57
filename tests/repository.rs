//! Tests of the repository itself: who imports whom, and that documents, examples, deployment files and code agree.

#![allow(clippy::unwrap_used)]

use floodmark::config::load::{Flags, load};
use floodmark::metrics::{Log, Metrics};
use floodmark_model::progress::{PartitionProgress, Tallies};
use floodmark_model::{DeadReason, Detection, EventTime};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use toml::Table;

/// The crates of the workspace by folder, each with the crates of the workspace that it may import.
const CRATES: [(&str, &[&str]); 8] = [
    ("model", &[]),
    ("dataflow", &["floodmark-model"]),
    ("kafka", &["floodmark-model"]),
    ("sinks", &["floodmark-model"]),
    ("oracle", &["floodmark-model"]),
    ("testkit", &["floodmark-model", "floodmark-oracle"]),
    (".", &["floodmark-model", "floodmark-dataflow", "floodmark-kafka", "floodmark-sinks"]),
    (
        "bench",
        &[
            "floodmark",
            "floodmark-model",
            "floodmark-dataflow",
            "floodmark-kafka",
            "floodmark-sinks",
            "floodmark-testkit",
        ],
    ),
];

/// What the tests of every crate may import as well.
const FOR_TESTS: [&str; 2] = ["floodmark-oracle", "floodmark-testkit"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(path: &str) -> Table {
    read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files of the repository, relative to its root; not what builds, services and runs leave behind.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let (name, kind) = (entry.file_name().into_string().unwrap(), entry.file_type().unwrap());
            let path = folder.join(&name);
            match () {
                () if kind.is_dir() && ![".git", ".dev", "target"].contains(&&*name) => folders.push(path),
                () if kind.is_file() && !name.contains(".sqlite") => files.push(path),
                () => {}
            }
        }
    }
    files.sort();
    files
}

fn files_ending(ends: &[&str]) -> impl Iterator<Item = (PathBuf, String)> {
    let ends: Vec<String> = ends.iter().map(|end| format!(".{end}")).collect();
    let wanted = move |path: &PathBuf| ends.iter().any(|end| path.to_string_lossy().ends_with(end.as_str()));
    files().into_iter().filter(wanted).map(|path| {
        let text = read(&path);
        (path, text)
    })
}

/// The words of a text that are made of these characters.
fn words(text: &str, is_part: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    text.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

/// What stands between backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn dependencies(manifest: &Table, kind: &str) -> BTreeSet<String> {
    let table = |table: &Table| table.get(kind).and_then(|value| value.as_table()).cloned().unwrap_or_default();
    let targets = manifest.get("target").and_then(|value| value.as_table()).cloned().unwrap_or_default();
    let of_targets = targets.values().filter_map(|target| target.as_table()).flat_map(table);
    table(manifest).into_iter().chain(of_targets).map(|(name, _)| name).collect()
}

fn own(names: BTreeSet<String>) -> BTreeSet<String> {
    names.into_iter().filter(|name| name == "floodmark" || name.starts_with("floodmark-")).collect()
}

#[test]
fn each_crate_imports_only_the_crates_that_it_may() {
    let members = parse("Cargo.toml")["workspace"]["members"].as_array().unwrap().clone();
    let members: BTreeSet<_> = members.iter().map(|member| member.as_str().unwrap()).collect();
    let known: BTreeSet<_> = CRATES.iter().map(|(folder, _)| *folder).filter(|folder| *folder != ".").collect();
    assert_eq!(members, known, "a new crate belongs into this test, and into ARCHITECTURE.md");
    for (folder, may) in CRATES {
        let manifest = parse(&format!("{folder}/Cargo.toml"));
        let allowed = |name: &String, more: &[&str]| may.contains(&name.as_str()) || more.contains(&name.as_str());
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let more: &[&str] = if kind == "dev-dependencies" { &FOR_TESTS } else { &[] };
            let wrong: Vec<_> =
                own(dependencies(&manifest, kind)).into_iter().filter(|name| !allowed(name, more)).collect();
            assert!(wrong.is_empty(), "{folder}: {kind} has {wrong:?}; it may import {may:?}");
        }
    }
}

#[test]
fn model_and_dataflow_link_no_client_and_no_runtime() {
    const BANNED: [&str; 13] = [
        "axum",
        "clickhouse",
        "hyper",
        "libsqlite3-sys",
        "mio",
        "openssl-sys",
        "postgres-protocol",
        "rdkafka",
        "rdkafka-sys",
        "rusqlite",
        "socket2",
        "tokio",
        "tokio-postgres",
    ];
    let lock = parse("Cargo.lock");
    let mut tree: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let needs = package.get("dependencies").and_then(|value| value.as_array());
        // "name", or "name version" where there are several.
        let names = needs.into_iter().flatten().filter_map(|need| need.as_str()?.split(' ').next());
        tree.entry(package["name"].as_str().unwrap()).or_default().extend(names);
    }
    for start in ["floodmark-model", "floodmark-dataflow"] {
        let mut reached = BTreeSet::new();
        let mut next = vec![start];
        while let Some(name) = next.pop() {
            if reached.insert(name) {
                next.extend(&tree[name]);
            }
        }
        let banned: Vec<_> = BANNED.iter().filter(|name| reached.contains(*name)).collect();
        assert!(banned.is_empty(), "{start} links {banned:?}");
    }
}

#[test]
fn of_the_product_only_the_kafka_crate_links_librdkafka() {
    for folder in ["model", "dataflow", "sinks", "oracle", "."] {
        let names = dependencies(&parse(&format!("{folder}/Cargo.toml")), "dependencies");
        assert!(!names.iter().any(|name| name.starts_with("rdkafka")), "{folder} links librdkafka by itself");
    }
}

#[test]
fn model_and_dataflow_deny_clocks_randomness_and_hash_order() {
    for folder in ["model", "dataflow"] {
        let denied = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";
        assert!(read(format!("{folder}/src/lib.rs")).contains(denied), "{folder}/src/lib.rs lacks {denied}");
        for (path, text) in files_ending(&["rs"]).filter(|(path, _)| path.starts_with(format!("{folder}/src"))) {
            for escape in ["allow(clippy::disallowed", "expect(clippy::disallowed"] {
                assert!(!text.contains(escape), "{}: {escape}...", path.display());
            }
        }
    }
    let bans = parse("clippy.toml");
    for key in ["disallowed-methods", "disallowed-types"] {
        assert!(!bans[key].as_array().unwrap().is_empty(), "clippy.toml bans nothing by {key}");
    }
}

/// The example with every setting in it uncommented.
fn whole_example() -> String {
    let setting = |line: &str| {
        let key = line.split(" = ").next().filter(|key| key.len() < line.len()).unwrap_or_default();
        let is_key = !key.is_empty() && words(key, |c| !c.is_whitespace()).count() == 1;
        is_key || line.starts_with('[')
    };
    let uncommented = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if setting(rest) => rest.to_owned(),
        _ => line.to_owned(),
    };
    read("floodmark.example.toml").lines().map(uncommented).collect::<Vec<_>>().join("\n")
}

fn load_text(text: &str) -> Result<floodmark::config::Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("floodmark.toml");
    fs::write(&path, text).unwrap();
    load(Some(&path), Flags::default()).map(|loaded| loaded.config).map_err(|error| error.to_string())
}

#[test]
fn the_example_configuration_is_that_of_the_defaults() {
    let example = load_text(&read("floodmark.example.toml")).unwrap();
    let defaults = load(None, Flags::default()).unwrap_or_else(|error| panic!("{error}")).config;
    assert_eq!(format!("{example:?}"), format!("{defaults:?}"));
}

#[test]
fn what_is_commented_out_in_the_example_configuration_can_be_used() {
    let config = load_text(&whole_example()).unwrap();
    assert!(config.mapping.is_some() && config.redis.is_some() && !config.kafka.client.is_empty());
}

#[test]
fn the_example_configuration_lists_every_key() {
    let example: Table = whole_example().parse().unwrap();
    let rules = example["rules"].as_array().unwrap()[0].as_table().unwrap();
    let section = |name: &str| example[name].as_table().unwrap();
    let filter = section("mapping")["filter"].as_table().unwrap();
    for (place, text, listed) in [
        ("the file", "", &example),
        ("kafka", "[kafka]", section("kafka")),
        ("time", "[time]", section("time")),
        ("limits", "[limits]", section("limits")),
        ("reconcile", "[reconcile]", section("reconcile")),
        ("rules", "[[rules]]", rules),
        ("mapping", "[mapping]", section("mapping")),
        ("mapping.filter", "[mapping]\nmessage = \"/m\"\n[mapping.filter]", filter),
    ] {
        // A key that cannot be is answered with those that can.
        let refused = load_text(&format!("{text}\nnonsense = 1")).unwrap_err();
        let (found, expected) = refused.split_once("expected").unwrap_or_else(|| panic!("{place}: {refused}"));
        assert!(found.contains("nonsense"), "{place}: {refused}");
        let possible = words(expected.split(" for key ").next().unwrap(), |c| c.is_ascii_lowercase() || c == '_');
        let possible: BTreeSet<&str> = possible.filter(|word| !["one", "of", "or"].contains(word)).collect();
        let listed: BTreeSet<&str> = listed.keys().map(String::as_str).collect();
        assert_eq!(listed, possible, "{place}");
    }
}

#[test]
fn the_compose_file_is_valid() {
    let run = Command::new("docker-compose")
        .args(["-f", "compose.yaml", "config", "--quiet"])
        .current_dir(root())
        .output()
        .expect("docker-compose is installed: scripts/test does that");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// What GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_heading(text: &str, fragment: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).any(|anchor| anchor == fragment)
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut checked = 0;
    for (path, text) in files_ending(&["md"]) {
        for rest in text.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let broken = format!("{}: broken link {target}", path.display());
            assert!(root().join(&file).exists(), "{broken}");
            assert!(fragment.is_empty() || has_heading(&read(&file), fragment), "{broken}");
        }
    }
    assert!(checked > 20, "only {checked} links were found");
}

/// The names of all series that `/metrics` shows.
fn series() -> BTreeSet<String> {
    let metrics = Metrics::default();
    // A family shows once it has a member.
    metrics.tallied(Tallies { stored: 1, retried: 1, unmatched: 1, dead: 1, unique: 1 });
    metrics.dead_letter(DeadReason::MalformedJson);
    metrics.incident(Detection::Window);
    let progress = PartitionProgress { next_offset: 0, watermark: EventTime(0), tallies: Tallies::default() };
    metrics.partition_committed(0, &progress, 0);
    metrics.partition_ends(Log::Live, 0, 0);
    metrics.partition_ends(Log::Backfill, 0, 0);
    metrics.reconciled(&BTreeMap::new(), 0);
    metrics.sink_call("postgres", "test", Duration::ZERO, true);
    let text = metrics.render(true);
    let samples = text.lines().filter(|line| line.starts_with("floodmark_"));
    samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

#[test]
fn every_metric_in_deployment_files_exists() {
    let series = series();
    let mut checked = 0;
    for path in files().into_iter().filter(|path| path.starts_with("deploy")) {
        let text = read(&path);
        let names = words(&text, |c| c.is_ascii_alphanumeric() || c == '_');
        for name in names.filter(|name| name.starts_with("floodmark_")) {
            checked += 1;
            assert!(series.contains(name), "{}: there is no metric {name} in {series:?}", path.display());
        }
    }
    assert!(checked > 5, "only {checked} names were found");
}

#[test]
fn the_readme_names_every_metric_and_no_other() {
    let readme = read("README.md");
    let paragraph = readme.split("The metrics, each with the prefix").nth(1).and_then(|text| text.split("\n\n").next());
    let named: BTreeSet<String> = quoted(paragraph.expect("a paragraph about metrics"))
        .into_iter()
        .filter(|name| *name != "floodmark_")
        .map(|name| format!("floodmark_{name}"))
        .collect();
    // A histogram has three series.
    let whole = |name: &String| {
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        histogram.unwrap_or(name).to_owned()
    };
    let shown: BTreeSet<String> = series().iter().map(whole).collect();
    assert_eq!(named, shown);
}

#[test]
fn the_readme_names_only_tests_that_exist() {
    let readme = read("README.md");
    let table = readme.split("## Guarantees").nth(1).and_then(|text| text.split("\n## ").next()).unwrap();
    let sources: Vec<String> = files_ending(&["rs"]).map(|(_, text)| text).collect();
    let named: Vec<&str> = quoted(table).into_iter().filter(|name| name.matches('_').count() >= 3).collect();
    assert!(named.len() > 10, "only {named:?} were found");
    for name in named {
        let function = format!("fn {name}(");
        assert!(sources.iter().any(|text| text.contains(&function)), "there is no test {name}");
    }
    for path in quoted(table).into_iter().filter(|name| name.ends_with(".rs")) {
        assert!(root().join(path).is_file(), "there is no {path}");
    }
}

#[test]
fn every_rule_and_decision_that_a_comment_cites_is_written_down() {
    let (rules, design) = (read("docs/semantics.md"), read("ARCHITECTURE.md"));
    let is_rule = |word: &str| {
        let (letter, number) = word.split_at_checked(1).unwrap_or((word, ""));
        let number = if letter == "Q" { number } else { number.strip_prefix('-').unwrap_or_default() };
        "TIWAGQ".contains(letter) && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
    };
    let mut checked = 0;
    for (path, text) in files_ending(&["rs", "sql", "json"]) {
        for line in text.lines() {
            let comment = line.find("//").or_else(|| line.find("--")).map(|start| &line[start..]);
            let Some(cited) = comment.or_else(|| line.trim_start().starts_with("\"assumes\"").then_some(line)) else {
                continue;
            };
            for rule in words(cited, |c| c.is_ascii_alphanumeric() || c == '-').filter(|word| is_rule(word)) {
                checked += 1;
                let is_there = rules.contains(&format!("**{rule}**")) || rules.contains(&format!("**{rule} "));
                assert!(is_there, "{}: {rule} is not in docs/semantics.md", path.display());
            }
            for rest in cited.split("design, decision ").skip(1) {
                checked += 1;
                let number = words(rest, |c| c.is_ascii_digit()).next().unwrap_or_default();
                let is_there = design.contains(&format!("\n{number}. **"));
                assert!(is_there, "{}: decision {number} is not in ARCHITECTURE.md", path.display());
            }
        }
    }
    assert!(checked > 100, "only {checked} citations were found");
}

#[test]
fn every_scenario_is_json_with_its_own_name() {
    let scenarios: Vec<_> = files_ending(&["json"]).filter(|(path, _)| path.starts_with("tests/scenarios")).collect();
    assert!(!scenarios.is_empty());
    for (path, text) in scenarios {
        let scenario: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(scenario["format"], 1, "{}", path.display());
        assert_eq!(scenario["id"].as_str(), path.file_stem().and_then(|stem| stem.to_str()), "{}", path.display());
    }
}

#[test]
fn no_file_names_a_folder_of_somebodys_machine() {
    // In pieces, so that this file does not.
    let folders = [["/wo", "rk/"], ["/ro", "ot/"], ["/tmp/ta", "rget"], ["/ho", "me/"]].map(|pieces| pieces.concat());
    for path in files() {
        let bytes = fs::read(root().join(&path)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for folder in &folders {
            assert!(!text.contains(folder.as_str()), "{} names {folder}", path.display());
        }
    }
}
