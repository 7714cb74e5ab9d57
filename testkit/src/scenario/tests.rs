//! Reading and expanding, on small scenarios.

use super::*;
use floodmark_model::{EventTime, RecordTime, TopicId};

/// A scenario of occurrences with these steps.
fn occurrences(records: &str) -> Result<Scenario> {
    let expect = r#"{"incidents": [], "counters": {}, "totals": []}"#;
    with(r#""kind": "occurrences""#, records, expect)
}

fn with(kind: &str, records: &str, expect: &str) -> Result<Scenario> {
    let text = format!(
        r#"{{"format": 1, "id": "T", "title": "t", "rules": [], "assumes": [], {kind}, "runs": ["pure"],
            "params": {{}}, "records": {records}, "expect": {expect}}}"#
    );
    Scenario::parse("T", &text)
}

fn records(scenario: &Scenario, labels: FingerprintLabels) -> Vec<Record> {
    let steps = scenario.steps(labels).into_iter();
    steps.filter_map(|step| if let Step::Record(record) = step { Some(record) } else { None }).collect()
}

fn payloads(written: &str, labels: FingerprintLabels) -> Vec<String> {
    let records = records(&occurrences(written).unwrap(), labels);
    records.into_iter().map(|record| String::from_utf8(record.payload).unwrap()).collect()
}

fn refused(records: &str) -> String {
    format!("{:#}", occurrences(records).unwrap_err())
}

#[test]
fn copies_have_their_own_offset_time_and_event_id() {
    let scenario = occurrences(
        r#"[{"t": 1000, "n": 3, "step": 100, "event_id": "e", "partition": 2}, {"t": 5, "event_id": "", "n": 2}]"#,
    );
    let records = records(&scenario.unwrap(), FingerprintLabels::Given);
    let shown: Vec<_> = records
        .iter()
        .map(|record| {
            let payload = std::str::from_utf8(&record.payload).unwrap();
            (record.at.partition, record.at.offset, record.record_time.0 - DEFAULT_BASE_MS, payload)
        })
        .collect();
    assert_eq!(
        shown,
        [
            (2, 0, 1000, r#"{"ts":1767225601000,"event_id":"e"}"#),
            (2, 1, 1100, r#"{"ts":1767225601100,"event_id":"e.1"}"#),
            (2, 2, 1200, r#"{"ts":1767225601200,"event_id":"e.2"}"#),
            (0, 0, 1200, r#"{"ts":1767225600005,"event_id":""}"#),
            (0, 1, 1200, r#"{"ts":1767225600005,"event_id":""}"#),
        ]
    );
}

#[test]
fn a_record_time_is_the_greatest_so_far_unless_it_is_written() {
    let written = r#"[{"t": -5}, {"t": 700}, {"t": 100}, {"t": 100, "rt": 20}, {"t": 1}, {"rt": 900}, {"t": 2}]"#;
    let records = records(&occurrences(written).unwrap(), FingerprintLabels::Given);
    let times: Vec<i64> = records.iter().map(|record| record.record_time.0 - DEFAULT_BASE_MS).collect();
    assert_eq!(times, [0, 700, 700, 20, 700, 900, 900]);
}

#[test]
fn a_label_is_a_fingerprint_or_a_message() {
    let written =
        r#"[{"t": 0, "tenant": "a", "fp": "alpha"}, {"fp": "alpha", "extra": {"message": "m", "host": null}}]"#;
    assert_eq!(
        payloads(written, FingerprintLabels::Message),
        [
            r#"{"tenant":"a","ts":1767225600000,"message":"connection refused by upstream gateway"}"#,
            r#"{"host":null,"message":"m"}"#,
        ]
    );
    let given = labels::given("alpha").unwrap();
    assert_eq!(
        payloads(written, FingerprintLabels::Given)[1],
        format!(r#"{{"fingerprint":"{given}","host":null,"message":"m"}}"#)
    );
}

#[test]
fn a_time_as_text_and_a_raw_payload_are_sent_as_they_are() {
    let written = r#"[{"ts_text": "\"2026-01-01T00:01:00,5Z\""}, {"raw": "{\"cut"}]"#;
    assert_eq!(payloads(written, FingerprintLabels::Given), [r#"{"ts":"2026-01-01T00:01:00,5Z"}"#, r#"{"cut"#]);
}

#[test]
fn an_alert_has_the_fields_of_alerts() {
    let written = r#"[{"t": 0, "obj": "d", "metric": "m", "state": "fired", "value": 7.5},
                      {"user_resolve": 9, "obj": "d"}]"#;
    let expect = r#"{"incidents": [], "counters": {"late_ignored": 1}}"#;
    let scenario = with(r#""kind": "alerts", "settled": true"#, written, expect).unwrap();
    let steps = scenario.steps(FingerprintLabels::Message);
    let Step::Record(record) = &steps[0] else { panic!("{steps:?}") };
    assert_eq!(
        std::str::from_utf8(&record.payload).unwrap(),
        r#"{"created_ts":1767225600000,"obj_id":"d","metric_id":"m","state":"fired","value":7.5}"#
    );
    let at = EventTime(DEFAULT_BASE_MS + 9);
    assert_eq!(steps[1], Step::UserResolve { tenant: None, obj: Some("d".into()), metric: None, at });
}

#[test]
fn a_redelivery_has_the_coordinates_and_a_new_topic_another_id() {
    let written = r#"[{"t": 0, "id": "r"}, {"cut": true}, {"watermark": 7}, {"restart": "kill"},
                      {"same_record_as": "r"}, {"recreate_topic": true}, {"t": 0}]"#;
    let steps = occurrences(written).unwrap().steps(FingerprintLabels::Given);
    let Step::Record(first) = &steps[0] else { panic!("{steps:?}") };
    let Step::Record(last) = &steps[6] else { panic!("{steps:?}") };
    assert_eq!(
        steps[1..6],
        [
            Step::Cut,
            Step::Watermark(EventTime(DEFAULT_BASE_MS + 7)),
            Step::Restart(Restart::Kill),
            Step::Redeliver(first.clone()),
            Step::RecreateTopic,
        ]
    );
    assert_eq!((first.at.topic_id, last.at.topic_id), (TopicId([1; 16]), TopicId([2; 16])));
    assert_eq!((last.at.offset, last.record_time), (0, RecordTime(DEFAULT_BASE_MS)));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (records, reason) in [
        (r#"[{"t": 1}, {"cut": true, "t": 1}]"#, "step 2 of T: a step does one thing"),
        (r#"[{"watermark": 1, "n": 2}]"#, "a step does one thing"),
        (r#"[{"raw": "x", "tenant": "a"}]"#, "no further fields"),
        (r#"[{"t": 1, "ts_text": "1"}]"#, "not both"),
        (r#"[{"same_record_as": "x"}]"#, "no record is named \"x\""),
        (r#"[{"t": 1, "id": "x", "n": 2}]"#, "two records are named"),
        (r#"[{"t": 1, "n": 0}]"#, "n is 0"),
        (r#"[{"cut": false}]"#, "or say true"),
        (r#"[{"t": 1, "fp": "epsilon"}]"#, "\"epsilon\" has no message"),
        (r#"[{"t": 1, "tenant": "a", "extra": {"tenant": "b"}}]"#, "`extra` repeats \"tenant\""),
        (r#"[{"t": 1, "state": "fired"}]"#, "no field of an alert"),
        (r#"[{"t": -1767225600000}]"#, "would not be read as milliseconds"),
        (r#"[{"t": 1, "tenent": "a"}]"#, "unknown field `tenent`"),
    ] {
        let refused = refused(records);
        assert!(refused.contains(reason), "{records}: {refused}");
    }
    let other_name = Scenario::parse("U", r#"{"format": 1}"#).unwrap_err();
    assert!(other_name.to_string().contains("missing field"));
}

#[test]
fn given_fingerprints_are_one_to_one_and_spread_over_all_bits() {
    let labels: Vec<String> = (0..2_000).map(|n| format!("label-{n}")).collect();
    let bits: std::collections::BTreeSet<u128> =
        labels.iter().map(|label| labels::given(label).unwrap().bits()).collect();
    assert_eq!(bits.len(), labels.len());
    for shift in [0, 32, 64, 96] {
        let odd = bits.iter().filter(|bits| *bits >> shift & 1 == 1).count();
        assert!((800..1_200).contains(&odd), "bit {shift} is 1 in {odd} of 2000");
    }
    assert!(labels::given("").is_err() && labels::given("seventeen-letters").is_err());
}

#[test]
fn one_label_with_two_fingerprints_is_no_mapping() {
    let steps = occurrences(r#"[{"t": 0, "fp": "alpha"}, {"t": 0, "fp": "beta"}]"#).unwrap();
    let steps = steps.steps(FingerprintLabels::Message);
    let one = floodmark_model::Fingerprint::from_bits(1);
    assert!(Labels::of_steps(&steps, |_| Some(one)).unwrap_err().to_string().contains("want one for each label"));
    let labels = labels::decoded(&floodmark_model::Rule::default(), &steps).unwrap();
    assert_eq!(labels.name(one), "00000000000000000000000000000001", "no label: the digits");
}

#[test]
fn a_difference_is_shown_with_labels_and_relative_times() {
    let expect = r#"{"counters": {"unmatched": 2}, "totals": [],
        "incidents": [{"tenant": "a", "fingerprint": "alpha", "window_start": 0, "count": 10, "episode": 0}]}"#;
    let scenario = with(r#""kind": "occurrences""#, r#"[{"t": 0, "fp": "alpha"}]"#, expect).unwrap();
    let labels = Labels::given(&scenario);
    let incident = ActualIncident {
        tenant: "a".into(),
        fingerprint: labels::given("alpha").unwrap(),
        window_start: EventTime(DEFAULT_BASE_MS),
        count: 10,
        episode: Some(EventTime(DEFAULT_BASE_MS)),
    };
    let counters = Counters { unmatched: 2, ..Counters::default() };
    let same = Actual { incidents: vec![incident.clone()], counters, ..Actual::default() };
    assert_eq!(scenario.compare(&labels, &same), Ok(()));

    let twice = Actual { incidents: vec![incident.clone(), incident.clone()], ..same.clone() };
    let difference = scenario.compare(&labels, &twice).unwrap_err();
    assert!(difference.contains("count 10 episode 0, and count 10 episode 0"), "{difference}");

    let other = Actual { counters: Counters::default(), ..same.clone() };
    let difference = scenario.compare(&labels, &other).unwrap_err();
    assert!(difference.contains("counter unmatched") && !difference.contains("incident"), "{difference}");

    let no_head = ActualIncident { episode: None, ..incident };
    let headless = Actual { incidents: vec![no_head], ..same };
    assert!(scenario.compare(&labels, &headless).unwrap_err().contains("episode without a row"));
}
