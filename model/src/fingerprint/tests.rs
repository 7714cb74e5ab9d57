#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn input<'a>(level: Level, exception_type: &'a str, message: &'a str) -> FingerprintInput<'a> {
    FingerprintInput { service: "checkout", level, exception_type, message }
}

fn of_message(message: &str) -> Fingerprint {
    compute(&input(Level::Error, "", message))
}

#[test]
fn hex_goes_both_ways() {
    let fingerprint = of_message("x");
    let hex = fingerprint.to_string();
    assert_eq!(Fingerprint::from_hex(&hex), Some(fingerprint));
    assert_eq!(Fingerprint::from_hex(&hex.to_uppercase()), Some(fingerprint));
    for text in ["", "12", &hex[1..], &format!("+{}", &hex[1..]), &format!("{hex}0")] {
        assert_eq!(Fingerprint::from_hex(text), None, "{text}");
    }
}

#[test]
fn warn_and_above_are_one_class_and_the_rest_another() {
    let of_level = |level| compute(&input(level, "", "x"));
    assert_eq!(of_level(Level::Error), of_level(Level::Fatal));
    assert_eq!(of_level(Level::Error), of_level(Level::Warn));
    assert_eq!(of_level(Level::Info), of_level(Level::Debug));
    assert_eq!(of_level(Level::Info), of_level(Level::Trace));
    assert_ne!(of_level(Level::Warn), of_level(Level::Info));
}

#[test]
fn service_type_and_message_are_fields_of_their_own() {
    let base = compute(&input(Level::Error, "A", "B"));
    assert_ne!(base, compute(&FingerprintInput { service: "Checkout", ..input(Level::Error, "A", "B") }));
    assert_ne!(base, compute(&input(Level::Error, "AB", "")));
    assert_ne!(base, compute(&input(Level::Error, "", "AB")));
    assert_eq!(compute(&input(Level::Error, "Proxy$42", "B")), compute(&input(Level::Error, "Proxy$7", "B")));
}

/// One of everything that is masked.
const EVERY_RULE: &str = "[pool-3-thread-7] -1.5 of 35ms 0x1f 4e3f58bf id Lx8fK2jd93 HTTP2_PING kafka1:9092 fe80::abcd:1 \
    ::1 jane@example.com Request@abcdef column 'name' {\"user\": \"bob\"} \"Cart.total()\" List(1, 2) [orders,12] topic=orders \
    GET /users/42?page=2 Mon, 19 Dec 2016 16:12:33,123 don't 550e8400-e29b-41d4-a716-446655440000";

/// When one of these changes, stored fingerprints no longer match computed ones: raise [`FINGERPRINT_VERSION`] and
/// only then write down the new values.
#[test]
fn golden_values_of_version_1() {
    assert_eq!(FINGERPRINT_VERSION, 1);
    let golden = [
        (
            "7ed5df8acd4daaefdffe9490fd44c82c",
            compute(&input(Level::Error, "java.io.IOException", "Connection to kafka1:9092 failed")),
        ),
        ("9783f2e451003a55ddbc8e44747eafff", of_message("User 'bob' (id 42) not found after 35ms")),
        ("1b4fe23e37836f6321c77b2142570ba7", of_message(&"a long message with words only; ".repeat(20))),
        ("00a1490246de7d09621c7163e91328b6", of_message("")),
        ("a16c97dc99c1efcf832b6d8bdf299228", of_message(EVERY_RULE)),
    ];
    let found = golden.map(|(_, fingerprint)| fingerprint.to_string());
    assert_eq!(found.each_ref().map(String::as_str), golden.map(|(hex, _)| hex));
}

/// Replaces each run of digits by one of `digits`, in turn.
fn with_digits(text: &str, digits: &[String]) -> String {
    let mut replaced = String::new();
    let mut in_digits = false;
    let mut next = digits.iter().cycle();
    for character in text.chars() {
        if !character.is_ascii_digit() {
            replaced.push(character);
        } else if !in_digits {
            replaced.push_str(next.next().unwrap());
        }
        in_digits = character.is_ascii_digit();
    }
    replaced
}

fn digits() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[0-9]{1,9}", 1..5)
}

/// Words that no rule applies to.
fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[g-z][a-zA-Z]{0,9}", 1..8)
}

/// Variable parts of one kind, two of a kind at a time.
fn variable_pair() -> impl Strategy<Value = (String, String)> {
    fn pair<S: Strategy<Value = String> + 'static>(make: impl Fn() -> S) -> BoxedStrategy<(String, String)> {
        (make(), make()).boxed()
    }
    prop_oneof![
        pair(|| any::<u128>().prop_map(|n| {
            let hex = format!("{n:032x}");
            format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
        })),
        pair(|| any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string())),
        pair(|| any::<std::net::SocketAddrV4>().prop_map(|address| address.to_string())),
        // All bits set in the middle, so that the shortest form has digits: an address without any is next to none.
        pair(|| any::<u128>().prop_map(|n| std::net::Ipv6Addr::from(n | 9 << 64).to_string())),
        pair(|| any::<i64>().prop_map(|n| n.to_string())),
        pair(|| any::<u64>().prop_map(|n| format!("0x{n:x}"))),
        pair(|| "[0-9]{1,4}(ms|s|KB|GiB)".boxed()),
        pair(|| "'[a-zA-Z0-9 _.-]{0,12}'".boxed()),
        pair(|| "[a-z]{1,8}(\\.[a-z0-9]{1,8})?@[a-z0-9]{1,8}\\.(com|org|example)".boxed()),
        pair(|| "Thing@[0-9a-f]{1,8}".boxed()),
        pair(|| "[a-z]{2,9}-[0-9]{1,4}".boxed()),
        pair(|| prop::collection::vec("[0-9]{1,4}", 1..6).prop_map(|items| items.join(", "))),
    ]
}

proptest! {
    #[test]
    fn m1_other_digits_change_nothing(text in "\\PC{0,60}|[-a-z0-9 :=@\\[\\],._'\"/?T+]{0,60}", digits in digits()) {
        let changed = with_digits(&text, &digits);
        prop_assert_eq!(masked(&text), masked(&changed), "{}", changed);
        prop_assert_eq!(of_message(&text), of_message(&changed));
    }

    #[test]
    fn m2_other_variable_parts_change_nothing(
        before in words(), (one, other) in variable_pair(), after in words(),
    ) {
        let text = |part: &str| format!("{} {part} {}", before.join(" "), after.join(" "));
        prop_assert_eq!(masked(&text(&one)), masked(&text(&other)));
        prop_assert_eq!(of_message(&text(&one)), of_message(&text(&other)));
    }

    #[test]
    fn m3_another_word_changes_the_fingerprint(words in words(), position: prop::sample::Index, other in "[g-z][a-z]{2,9}") {
        let mut changed = words.clone();
        changed[position.index(words.len())] = other;
        prop_assert_eq!(of_message(&words.join(" ")) == of_message(&changed.join(" ")), words == changed);
        prop_assert_eq!(masked(&words.join(" ")), words.join(" "));
    }

    #[test]
    fn m4_no_text_panics(text in any::<String>(), rules in "[-a-f0-9gGé:=@\\[\\](){},._'\"/?T+\n\\\\\0 ]{0,80}") {
        for text in [&text, &rules] {
            prop_assert!(masked(text).len() <= 3 * text.len());
            prop_assert_eq!(of_message(text), of_message(&text.clone()));
        }
    }
}
