//! Lines as programs write them.

use super::*;
use crate::{Coordinates, EventTime, Level, RecordTime, TopicId};
use proptest::prelude::*;

const READ: RecordTime = RecordTime(1_800_000_000_000);

fn record(text: &str) -> RawRecord<'_> {
    let at = Coordinates { topic_id: TopicId([3; 16]), partition: 0, offset: 40 };
    RawRecord { at, record_time: READ, payload: Some(text.as_bytes()) }
}

fn decoded<'a>(format: &TextFormat, text: &'a str) -> Occurrence<'a> {
    decode(record(text), format, &DecodeSettings::default()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Level, source and message of a log4j record.
fn log4j(text: &str) -> (Level, String, String) {
    let seen = decoded(&TextFormat::Log4j, text);
    (seen.level, seen.source.into_owned(), seen.message.into_owned())
}

/// 2016-12-19T16:12:33Z.
const T: i64 = 1_482_163_953_000;

#[test]
fn log4j_in_the_forms_that_programs_use() {
    for (line, level, source, message) in [
        // Kafka
        ("[2016-12-19 16:12:33,123] WARN disk is slow (kafka.log.Log)", Level::Warn, "kafka.log.Log", "disk is slow"),
        // log4j, Hadoop
        ("2016-12-19 16:12:33,123 ERROR [main] a.b.C - no (way)", Level::Error, "a.b.C", "no (way)"),
        ("2016-12-19 16:12:33,123 INFO a.b.C: started", Level::Info, "a.b.C", "started"),
        // Spring Boot
        ("2016-12-19T16:12:33.123Z  WARN 4711 --- [main] a.b.C : careful", Level::Warn, "a.b.C", "careful"),
        // a level in brackets, and none that says where
        ("2016-12-19 16:12:33.123 [pool-1] [FATAL] out of memory", Level::Fatal, "", "out of memory"),
    ] {
        assert_eq!(log4j(line), (level, source.to_owned(), message.to_owned()), "{line}");
        assert_eq!(decoded(&TextFormat::Log4j, line).ts, EventTime(T + 123), "{line}");
        assert!(TextFormat::Log4j.begins_record(line.as_bytes()), "{line}");
    }
    let zoned = decoded(&TextFormat::Log4j, "2016-12-19 17:12:33+0100 ERROR x");
    assert_eq!((zoned.ts, zoned.ts_missing), (EventTime(T), false));
}

#[test]
fn a_time_without_a_zone_is_read_in_the_one_given() {
    let zone = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
    let settings = DecodeSettings { zone, ..DecodeSettings::default() };
    let seen = decode(record("2016-12-19 17:12:33,000 ERROR x"), &TextFormat::Log4j, &settings).unwrap();
    assert_eq!(seen.ts, EventTime(T));
}

#[test]
fn an_exception_is_found_below_the_first_line_and_the_logger_may_stand_last() {
    let text =
        "[2016-12-19 16:12:33,123] ERROR cannot send\nto broker 1 (kafka.Sender)\njava.io.IOException: no\n\tat a.B.c";
    let seen = decoded(&TextFormat::Log4j, text);
    assert_eq!((&*seen.exception_type, &*seen.message), ("java.io.IOException", "cannot send"));
    assert_eq!(&*seen.raw, text.as_bytes(), "the stack trace is kept");
    let (_, source, message) = log4j("[2016-12-19 16:12:33,123] INFO many\nlines\n (kafka.server.KafkaConfig)");
    assert_eq!((&*source, &*message), ("kafka.server.KafkaConfig", "many"));
}

#[test]
fn what_is_not_in_the_format_is_a_dead_letter_that_quotes_it() {
    for text in ["\tat a.B.c", "2016-12-19 16:12:33,123 hello world", "ERROR no time"] {
        let rejected = decode(record(text), &TextFormat::Log4j, &DecodeSettings::default()).unwrap_err();
        assert_eq!(rejected.reason, DeadReason::UnknownFormat, "{text}");
        assert!(rejected.detail.contains("log4j") && rejected.detail.contains(text.trim()), "{}", rejected.detail);
    }
}

#[test]
fn access_logs_are_levelled_by_status_and_lose_ids_and_queries() {
    let line = r#"10.0.0.9 - ann [19/Dec/2016:17:12:33 +0100] "GET /users/42/orders?token=secret HTTP/1.1" 503 12 "-" "curl/8""#;
    let seen = decoded(&TextFormat::Access, line);
    assert_eq!((seen.ts, seen.level, &*seen.host), (EventTime(T), Level::Error, "10.0.0.9"));
    assert_eq!(seen.message, "GET /users/<*>/orders: 503 Service Unavailable");
    let of = |status: &str| decoded(&TextFormat::Access, &line.replace("503", status)).level;
    assert_eq!([of("404"), of("200"), of("301"), of("599")], [Level::Warn, Level::Info, Level::Info, Level::Error]);
    let other = decoded(&TextFormat::Access, &line.replace("42", "77")).fingerprint;
    assert_eq!(seen.fingerprint, other, "another user, the same bug");
    let quoted = r#"::1 - - [19/Dec/2016:16:12:33 +0000] "\x16\x03\"x" 400 0"#;
    assert_eq!(decoded(&TextFormat::Access, quoted).message, "invalid request: 400 Bad Request");
    assert!(decode(record("no access log"), &TextFormat::Access, &DecodeSettings::default()).is_err());
}

#[test]
fn a_pattern_reads_its_groups() {
    let format: TextFormat = r"regex:^(?<ts>\S+) <(?<level>\w+)> (?<service>\w+): (?<message>.*)$".parse().unwrap();
    let seen = decoded(&format, "2016-12-19T16:12:33Z <crit> shop: cart is empty\nmore");
    assert_eq!(
        (seen.ts, seen.level, &*seen.service, &*seen.message),
        (EventTime(T), Level::Fatal, "shop", "cart is empty")
    );
    assert!(format.begins_record(b"2016-12-19T16:12:33Z <info> a: b") && !format.begins_record(b"\tat x"));
}

#[test]
fn a_format_that_cannot_be_used_says_why() {
    let error = |text: &str| text.parse::<TextFormat>().unwrap_err().to_string();
    assert!(error("syslog").contains("want log4j, access or regex:PATTERN"));
    assert!(error("regex:(").contains("cannot be used"));
    assert!(error("regex:(?<message>.*)(?<when>.)").contains("when"));
    assert!(error("regex:(?<ts>.*)").contains("message"));
    assert!(error("regex:(?<message>.)(?<source>.)(?<logger>.)").contains("two groups for source"));
    assert!(error(&format!("regex:{}", "x".repeat(PATTERN_BYTES_MAX + 1))).contains("4097 bytes"));
}

/// What `testdata/README.md` says about the excerpt of a real log.
#[test]
fn an_excerpt_of_a_real_log() {
    let text = include_bytes!("../../../testdata/kafka-outage-excerpt.log");
    let mut splitter = RecordSplitter::new(Framing::Text(TextFormat::Log4j), 0, 1 << 20);
    let mut levels = Vec::new();
    let mut take = |bytes: &[u8]| {
        let raw = RawRecord { payload: Some(bytes), ..record("") };
        let seen = decode(raw, &TextFormat::Log4j, &DecodeSettings::default()).unwrap();
        assert!(!seen.ts_missing);
        levels.push(seen.level);
    };
    let mut chunk = &text[..];
    while let Some(found) = splitter.next_record(&mut chunk) {
        take(found.bytes);
    }
    while let Some(found) = splitter.finish() {
        take(found.bytes);
    }
    let of = |level| levels.iter().filter(|seen| **seen == level).count();
    assert_eq!((levels.len(), of(Level::Info), of(Level::Warn), of(Level::Error)), (32, 27, 2, 3));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,80}|[-0-9 :,TZ+\\[\\]()A-Z\"\\\\\n.]{0,120}") {
        for format in [TextFormat::Log4j, TextFormat::Access] {
            let _ = format.begins_record(text.as_bytes());
            if let Err(rejected) = decode(record(&text), &format, &DecodeSettings::default()) {
                prop_assert!(!rejected.detail.is_empty());
            }
        }
    }
}
