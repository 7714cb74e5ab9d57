//! The reader and `serde_json` accept the same language, and read the same values.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// The reader's verdict on a whole text of any kind.
fn skip(text: &str) -> Read<()> {
    let mut reader = Reader::new(text);
    reader.skip_value()?;
    reader.end()
}

fn known_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn string(text: &str) -> Read<Cow<'_, str>> {
    Reader::new(text).string()?.unescape()
}

#[test]
fn a_string_without_escapes_is_borrowed() {
    assert!(matches!(string("\"grüße, 世界\""), Ok(Cow::Borrowed("grüße, 世界"))));
    assert_eq!(string("\"\"").unwrap(), "");
}

#[test]
fn escapes_say_what_json_says() {
    assert_eq!(string(r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\u0000""#).unwrap(), "a\"\\/\u{8}\u{c}\n\r\té😀\0");
}

#[test]
fn a_lone_surrogate_is_no_text_but_may_be_skipped() {
    for text in [r#""\ud800""#, r#""\ud800x""#, r#""\udc00""#, r#""\ud800\ud800""#] {
        assert_eq!(string(text).unwrap_err().reason, DeadReason::MalformedJson, "{text}");
        assert_eq!(skip(text), Ok(()), "{text}");
    }
}

#[test]
fn every_position_of_a_special_byte_is_found() {
    for length in 0..40 {
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            let mut bytes = vec![0xc3_u8; length];
            bytes.push(special);
            bytes.extend_from_slice(b"\"\\\0 tail");
            for start in 0..=length {
                assert_eq!(find_special(&bytes, start), length, "{special} at {length} from {start}");
            }
        }
        assert_eq!(find_special(&vec![0x7f; length], 0), length);
    }
}

#[test]
fn what_is_cut_off_or_misspelt_is_malformed() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "[1,",
        "\"a",
        "\"a\\",
        "\"\\u12",
        "tru",
        "-",
        "1.",
        "1e",
        "1e+",
        "01",
        "+1",
        ".5",
        "{\"a\":1,}",
        "[1,]",
        "[,1]",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "nul",
        "NaN",
        "\"\t\"",
        "\"\\x\"",
        "1 1",
        "{} {}",
        "{}x",
        "\u{a0}1",
        "[\u{b}1]",
    ] {
        assert!(!known_json(text), "{text}");
        assert_eq!(skip(text).unwrap_err().reason, DeadReason::MalformedJson, "{text}");
    }
}

#[test]
fn depth_has_a_limit_and_its_own_reason() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(skip(&nested(DEPTH_MAX as usize)), Ok(()));
    assert_eq!(skip(&nested(DEPTH_MAX as usize + 1)).unwrap_err().reason, DeadReason::TooDeep);
    assert_eq!(skip(&"[".repeat(1_000_000)).unwrap_err().reason, DeadReason::TooDeep);
    assert_eq!(skip(&"{\"a\":".repeat(10_000)).unwrap_err().reason, DeadReason::TooDeep);
    assert_eq!(skip(&format!("[{}]", vec!["[]"; 1_000].join(","))), Ok(()), "width is not depth");
}

#[test]
fn a_fault_says_where() {
    assert_eq!(skip("{\"a\" 1}").unwrap_err().detail, "expected a colon at byte 5");
    assert_eq!(skip("[1,").unwrap_err().detail, "expected a value, but the record ends at byte 3");
}

#[test]
fn numbers_keep_their_text() {
    for number in ["0", "-0", "1767225660.123456789", "1e400", "123456789012345678901234567890"] {
        assert_eq!(Reader::new(number).value().unwrap(), Value::Number(number));
    }
}

/// Any JSON value, as text.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    });
    (value, any::<bool>()).prop_map(|(value, pretty)| match pretty {
        true => serde_json::to_string_pretty(&value).unwrap(),
        false => value.to_string(),
    })
}

proptest! {
    #[test]
    fn json_is_accepted(text in json()) {
        prop_assert_eq!(skip(&text), Ok(()));
    }

    #[test]
    fn damaged_json_is_accepted_exactly_when_serde_json_accepts_it(
        text in json(), position in any::<prop::sample::Index>(), insert in "[]\\[{}:,\"\\\\ \\x00-\\x20eE0-9.+nu-]{0,2}", remove in 0_usize..3,
    ) {
        let mut characters: Vec<char> = text.chars().collect();
        let start = position.index(characters.len() + 1);
        let end = characters.len().min(start + remove);
        characters.splice(start..end, insert.chars());
        let damaged: String = characters.into_iter().collect();
        prop_assert_eq!(skip(&damaged).is_ok(), known_json(&damaged), "{}", damaged);
    }

    #[test]
    fn token_soup_is_accepted_exactly_when_serde_json_accepts_it(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\u00e9\"", "1", "-0", "1.5", "2e-3", "0", "null", "true", "false", " ", "\\",
        ]), 0..10),
    ) {
        let text = tokens.concat();
        prop_assert_eq!(skip(&text).is_ok(), known_json(&text), "{}", text);
    }

    #[test]
    fn strings_are_read_as_serde_json_reads_them(content in any::<String>()) {
        let quoted = serde_json::to_string(&content).unwrap();
        prop_assert_eq!(string(&quoted).unwrap(), content.as_str());
        let escaped: String = content.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let escaped = format!("\"{escaped}\"");
        prop_assert_eq!(string(&escaped).unwrap(), content.as_str());
    }
}
