//! Files that are not what they were, or cannot be read to their end.

use super::*;

/// Lines that begin with more than the bytes by which files are known, all alike but for their number, and one that
/// cannot be read.
fn long_lines() -> Vec<String> {
    let mut lines: Vec<String> = (0..60).map(|n| error("acme", 1, T0 + n * 100)).collect();
    assert!(lines.iter().map(String::len).sum::<usize>() > 5_000);
    lines.insert(55, r#"{"tenant":"acme","message":"cut"#.to_owned());
    lines
}

#[test]
fn a_file_that_was_changed_where_it_was_read_or_has_another_format_is_refused_before_anything_is_sent() {
    let bed = Bed::new("backfill_changed", 1, "");
    bed.produce_now(1);
    let _engine = bed.start_ready(1);
    let mut lines = long_lines();
    let old = bed.write("old.ndjson", &lines);
    assert_eq!(bed.backfill(&[old.to_str().unwrap()])["poison"][0]["place"], format!("{}:56", old.display()));
    assert_eq!((bed.rows(), bed.dead_letters()), (60, 1));

    lines.push(error("acme", 1, T0 + 9_000));
    let grown = bed.write("moved.ndjson", &lines);
    bed.backfill(&[grown.to_str().unwrap()]);
    assert_eq!((bed.rows(), bed.dead_letters()), (61, 1), "it grew, and was renamed");

    let other_format = [grown.to_str().unwrap(), "--format", "log4j"];
    let said = bed.refused(&other_format, 2);
    assert!(said.contains("`ndjson, zone UTC`") && said.contains("--again"), "{said}");
    let other_zone = [grown.to_str().unwrap(), "--tz", "Europe/Berlin"];
    assert!(bed.refused(&other_zone, 2).contains("Europe/Berlin"));

    lines[55] = error("acme", 1, T0 + 5_000);
    let corrected = bed.write("corrected.ndjson", &lines);
    let said = bed.refused(&[corrected.to_str().unwrap()], 2);
    assert!(said.contains("would count twice") && said.contains("--again"), "{said}");
    assert_eq!((bed.rows(), bed.dead_letters()), (61, 1), "nothing was sent");
    assert_eq!(bed.backfill(&["--again", corrected.to_str().unwrap()])["records"], json!(62));
    assert_eq!(bed.rows(), 61 + 62, "whoever says so gets a new input");
    assert_eq!(bed.backfill(&[corrected.to_str().unwrap()])["records"], json!(62));
    assert_eq!(bed.rows(), 61 + 62, "which is known from then on");
    bed.backfill(&[grown.to_str().unwrap()]);
    assert_eq!(bed.rows(), 61 + 62, "beside the first one");

    let few = [error("acme", 2, T0), "cut".to_owned(), error("acme", 2, T0 + 1)];
    let small = bed.write("small.ndjson", &few);
    bed.backfill(&[small.to_str().unwrap()]);
    let corrected = few.map(|line| if line == "cut" { error("acme", 2, T0 + 2) } else { line });
    bed.write("small.ndjson", &corrected);
    let said = bed.refused(&[small.to_str().unwrap()], 2);
    assert!(said.contains("a file of their own") && said.contains("--again"), "{said}");
    assert_eq!(bed.rows(), 61 + 62 + 2, "nothing was sent");
    bed.backfill(&["--again", small.to_str().unwrap()]);
    assert_eq!(bed.rows(), 61 + 62 + 2 + 3);
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_counts_as_far_as_it_can_and_costs_no_other() {
    let bed = Bed::new("backfill_cut", 1, "");
    bed.produce_now(1);
    let _engine = bed.start_ready(1);
    let mut numbers = Numbers(3);
    let lines: Vec<String> = (0..2_000).map(|n| error("acme", numbers.below(1 << 40), T0 + n)).collect();
    let whole = compressed(&bed.write("whole.ndjson", &lines), "gzip", "whole.ndjson.gz");
    let bytes = fs::read(&whole).unwrap();
    let (cut, stump) = (whole.with_file_name("cut.gz"), whole.with_file_name("stump.gz"));
    fs::write(&cut, &bytes[..bytes.len() * 4 / 5]).unwrap();
    fs::write(&stump, &bytes[..12]).unwrap();
    let good = whole.with_file_name("good.ndjson");
    fs::write(&good, format!("{}\n{}", error("acme", 1, T0), "x".repeat(2 << 20))).unwrap();
    let files = [&cut, &good, &stump].map(|path| path.to_str().unwrap().to_owned());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();

    let said = bed.refused(&files, 3);
    for part in
        ["cut.gz: cannot be read beyond byte", "stump.gz: nothing of it", "good.ndjson:2: too_large", "incidents:"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("check that this user"), "{said}");
    let rows = bed.rows();
    assert!((100..2_000).contains(&rows), "{rows}");
    assert_eq!(bed.dead_letters(), 1);
    bed.backfill(&[whole.to_str().unwrap()]);
    assert_eq!((bed.rows(), bed.dead_letters()), (2_001, 1), "the whole file is the same one");

    // The same embedded.
    let store = ["--embedded", "--store", "e.sqlite"];
    let said = bed.refused(&[&store as &[&str], &files].concat(), 3);
    for part in ["cut.gz: cannot be read further", "stump.gz: nothing of it", "good.ndjson:2: too_large", "incidents:"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    fs::remove_file(&cut).unwrap();
    bed.backfill(&[&store as &[&str], &[whole.to_str().unwrap()]].concat());
    let totals = bed.totals_of(&store);
    let sum: i64 = totals.as_array().unwrap().iter().map(|row| row["total"].as_i64().unwrap()).sum();
    assert_eq!(sum, 2_001);
}

#[test]
fn embedded_a_changed_file_and_another_format_are_refused_and_poison_lines_are_listed() {
    let bed = Bed::new("backfill_embedded_changed", 1, "");
    let store = ["--embedded", "--store", "e.sqlite"];
    let mut lines = long_lines();
    let path = bed.write("a.ndjson", &lines);
    let of_store = |more: &[&'static str]| -> Vec<String> {
        let all = [&store as &[&str], more, &[path.to_str().unwrap()]].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let arguments = |more| of_store(more);
    fn parts(arguments: &[String]) -> Vec<&str> {
        arguments.iter().map(String::as_str).collect()
    }
    // In the wrong format every record is a dead letter, and a question.
    let wrong = bed.installation.output("run", parts(&arguments(&["--format", "log4j", "--input"])));
    assert_eq!(wrong.exit_code, Some(0), "{}", wrong.stderr);
    let said = bed.refused(&parts(&arguments(&[])), 2);
    assert!(said.contains("`log4j, zone UTC`") && said.contains("backfill --embedded --again"), "{said}");
    let report = bed.backfill(&parts(&arguments(&["--again"])));
    assert_eq!(report["poison"][0]["place"], format!("{}:56", path.display()));
    assert_eq!(report["incidents"]["new"], json!(1), "{report}");

    lines[55] = error("acme", 1, T0 + 5_000);
    bed.write("a.ndjson", &lines);
    let refused = bed.installation.output("run", parts(&arguments(&["--input"])));
    assert_eq!(refused.exit_code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("would count twice"), "{}", refused.stderr);
    lines[55] = r#"{"tenant":"acme","message":"cut"#.to_owned();
    lines.extend((0..6).map(|_| "{".to_owned()));
    bed.write("a.ndjson", &lines);
    let grown = bed.backfill(&parts(&arguments(&[])));
    assert_eq!(
        (&grown["records"], &grown["poison"][5]["place"]),
        (&json!(6), &json!(format!("{}:67", path.display())))
    );
    assert!(grown["hints"][0].as_str().unwrap().contains("is --format right?"), "{grown}");
}
