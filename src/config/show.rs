//! What `floodmark check` prints: every value with its origin, secrets masked.

use super::file::File;
use super::load::{Loaded, origin, origin_of};
use figment::value::{Dict, Value};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// One effective value.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Shown {
    /// The dotted key.
    pub key: String,
    /// The value, masked where it may be secret.
    pub value: String,
    /// Where it came from.
    pub origin: String,
}

impl Loaded {
    /// All effective values, by key.
    #[must_use]
    pub fn shown(&self) -> Vec<Shown> {
        let Ok(mut dict) = self.figment.extract::<Dict>() else { return Vec::new() };
        let mut written = Vec::new();
        self.collect("", &Value::from(dict.clone()), &mut written);
        // A rule that is written down has defaults for what it leaves out, of which the layers know nothing.
        if let Ok(file) = self.figment.extract::<File>()
            && let Ok(rules) = Value::serialize(file.rules)
        {
            dict.insert("rules".into(), rules);
        }
        let mut shown = Vec::new();
        self.collect("", &Value::from(dict), &mut shown);
        let written: BTreeSet<String> = written.into_iter().map(|value| value.key).collect();
        for default in shown.iter_mut().filter(|value| !written.contains(&value.key)) {
            default.origin = "the defaults".into();
        }
        shown
    }

    fn collect(&self, key: &str, value: &Value, shown: &mut Vec<Shown>) {
        let join = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
        match value {
            Value::Dict(_, dict) => dict.iter().for_each(|(name, value)| self.collect(&join(name), value, shown)),
            Value::Array(_, items) if items.iter().any(|item| item.as_dict().is_some()) => {
                for (index, item) in items.iter().enumerate() {
                    self.collect(&format!("{key}[{index}]"), item, shown);
                }
            }
            _ => {
                // Names of client settings hold dots, so that they are not found as keys.
                let known = self.figment.get_metadata(value.tag()).map(origin_of);
                let origin = known.unwrap_or_else(|| origin(&self.figment, key));
                shown.push(Shown { key: key.to_owned(), value: masked(key, &plain(value)), origin });
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Empty(..) => "-".into(),
        Value::String(_, text) => text.clone(),
        Value::Array(_, items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", ")),
        Value::Bool(_, truth) => truth.to_string(),
        Value::Char(_, letter) => letter.to_string(),
        Value::Num(_, number) => number.to_u128().map_or_else(
            || number.to_i128().map_or_else(|| format!("{number:?}"), |number| number.to_string()),
            |number| number.to_string(),
        ),
        Value::Dict(..) => "{}".into(),
    }
}

/// What the names of secrets hold.
const SECRET_NAME: &str = "password|passwd|passphrase|secret|token|credential|jaas|ssl\\.key\\.pem";

/// Masks what may be a secret: settings that are named like one, and passwords inside other text.
fn masked(key: &str, value: &str) -> String {
    static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("(?i){SECRET_NAME}")));
    // Names of tenants are keys as well.
    let is_rule = key.starts_with("rules[");
    if !is_rule && NAME.is_match(key) { "***".into() } else { mask_secrets(value) }
}

/// The text without its passwords: what stands between a user and `@`, and the values of names like `password`, in URLs,
/// in keywords (`host=db password=...`) and in settings of clients.
#[must_use]
pub fn mask_secrets(text: &str) -> String {
    static USER: LazyLock<Regex> = LazyLock::new(|| pattern(r"([^\s/:@?&=,]+):[^\s?/][^\s?]*@"));
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        const VALUE: &str = r#"'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s&;,]+"#;
        pattern(&format!(r"(?i)([\w.-]*(?:{SECRET_NAME})[\w.-]*\s*=\s*)(?:{VALUE})"))
    });
    NAMED.replace_all(&USER.replace_all(text, "$1:***@"), "$1***").into_owned()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of the program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("postgres://me:p@ss:w0rd@db/x?a=b", "postgres://me:***@db/x?a=b"),
            ("postgres://me:a/b@db/x", "postgres://me:***@db/x"),
            ("me:hunter2@db/x", "me:***@db/x"),
            (
                "postgres://me@db/x?sslmode=disable&password=a%20b&y=z",
                "postgres://me@db/x?sslmode=disable&password=***&y=z",
            ),
            ("http://db:8123/x?user=me&Password=hunter2", "http://db:8123/x?user=me&Password=***"),
            (r"host=db password = 'it\'s mine' user=me", "host=db password = *** user=me"),
            ("principal=me secret=hunter2 lifeSeconds=3600", "principal=me secret=*** lifeSeconds=3600"),
        ] {
            assert_eq!(mask_secrets(text), shown);
        }
        for text in ["http://127.0.0.1:8123/db", "kafka1:9092,kafka2:9092", "host=db user=me", "postgres://me@db/x"] {
            assert_eq!(mask_secrets(text), text);
        }
        assert_eq!(masked("kafka.client.sasl.password", "x"), "***");
        assert_eq!(masked("kafka.client.ssl.key.password", "x"), "***");
        assert_eq!(masked("kafka.client.sasl.username", "me"), "me");
        assert_eq!(masked("rules[0].tenant_thresholds.token-shop", "5"), "5");
    }
}
