//! What `floodmark check` prints: every value with its origin, secrets masked.

use super::file::File;
use super::load::{Loaded, origin};
use figment::value::{Dict, Value};
use std::collections::BTreeSet;

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
                let origin = origin(&self.figment, key);
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

/// Masks what may be a secret: the password in a URL, and client settings that hold one.
fn masked(key: &str, value: &str) -> String {
    const SECRET_PARTS: [&str; 5] = ["password", "secret", "token", "jaas", "ssl.key.pem"];
    // Names of tenants are keys as well.
    let is_rule = key.starts_with("rules[");
    if !is_rule && SECRET_PARTS.iter().any(|part| key.to_ascii_lowercase().contains(part)) {
        return "***".into();
    }
    mask_password(value)
}

/// `scheme://user:password@host` with the password masked; other text as it is.
#[must_use]
pub fn mask_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    let Some((user, host)) = rest[..authority].rsplit_once('@') else { return url.to_owned() };
    let user = user.split_once(':').map_or_else(|| user.to_owned(), |(name, _)| format!("{name}:***"));
    format!("{scheme}://{user}@{host}{}", &rest[authority..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(mask_password("postgres://me:p@ss:w0rd@db/x?a=b"), "postgres://me:***@db/x?a=b");
        assert_eq!(mask_password("http://127.0.0.1:8123/db"), "http://127.0.0.1:8123/db");
        assert_eq!(masked("kafka.client.sasl.password", "x"), "***");
        assert_eq!(masked("kafka.client.ssl.key.password", "x"), "***");
        assert_eq!(masked("kafka.client.sasl.username", "me"), "me");
        assert_eq!(masked("rules[0].tenant_thresholds.token-shop", "5"), "5");
    }
}
