//! The bytes of a record, exactly: a time is sent as it is written.

use super::file::{Kind, Step as Written};
use super::labels::{FingerprintLabels, given, message};
use anyhow::{Context, Result, ensure};

/// Which payloads a runner wants.
pub(super) struct Style {
    pub(super) kind: Kind,
    pub(super) labels: FingerprintLabels,
}

/// The least number that T-1 reads as milliseconds.
const LEAST_MILLISECONDS: i64 = 100_000_000_000;

pub(super) fn payload(style: &Style, written: &Written, time_ms: Option<i64>) -> Result<Vec<u8>> {
    if let Some(raw) = &written.raw {
        let with_coordinates = Written {
            raw: Some(raw.clone()),
            rt: written.rt,
            partition: written.partition,
            n: written.n,
            id: written.id.clone(),
            ..Written::default()
        };
        ensure!(*written == with_coordinates, "`raw` is the whole payload: it has no further fields");
        return Ok(raw.clone().into_bytes());
    }

    let mut object = Object::default();
    object.put_text("tenant", written.tenant.as_deref());
    let time_key = if style.kind == Kind::Alerts { "created_ts" } else { "ts" };
    match (&written.ts_text, time_ms) {
        (Some(_), Some(_)) => anyhow::bail!("a record has `t` or `ts_text`, not both"),
        (Some(text), None) => object.put(time_key, text),
        (None, Some(ms)) => {
            ensure!(ms >= LEAST_MILLISECONDS, "{ms} would not be read as milliseconds (T-1): write it as `ts_text`");
            object.put(time_key, &ms.to_string());
        }
        (None, None) => {}
    }
    object.put_text("event_id", written.event_id.as_deref());
    match style.kind {
        Kind::Alerts => {
            ensure!(written.fp.is_none() && written.level.is_none(), "an alert has no `fp` and no `level`");
            object.put_text("obj_id", written.obj.as_deref());
            object.put_text("metric_id", written.metric.as_deref());
            object.put_text("state", written.state.as_deref());
            if let Some(value) = &written.value {
                object.put("value", &value.to_string());
            }
        }
        Kind::Occurrences => {
            let of_alerts = [&written.obj, &written.metric, &written.state].iter().any(|field| field.is_some());
            ensure!(!of_alerts && written.value.is_none(), "an occurrence has no field of an alert");
            object.put_text("level", written.level.as_deref());
            if let Some(label) = &written.fp {
                put_fingerprint(&mut object, style.labels, label, written)?;
            }
        }
    }
    for (key, value) in written.extra.iter().flatten() {
        ensure!(!object.has(key), "`extra` repeats {key:?}");
        object.put(key, &value.to_string());
    }
    Ok(object.finish().into_bytes())
}

fn put_fingerprint(object: &mut Object, labels: FingerprintLabels, label: &str, written: &Written) -> Result<()> {
    if labels == FingerprintLabels::Given {
        object.put_text("fingerprint", Some(&given(label)?.to_string()));
    }
    if written.extra.as_ref().is_none_or(|extra| !extra.contains_key("message")) {
        object.put_text("message", Some(message(label).with_context(|| format!("label {label:?} has no message"))?));
    }
    Ok(())
}

/// A JSON object whose values are JSON already.
#[derive(Default)]
struct Object {
    keys: Vec<String>,
    members: Vec<String>,
}

impl Object {
    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    fn put(&mut self, key: &str, json: &str) {
        self.members.push(format!("{}:{json}", quoted(key)));
        self.keys.push(key.to_owned());
    }

    fn put_text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.put(key, &quoted(text));
        }
    }

    fn finish(self) -> String {
        format!("{{{}}}", self.members.join(","))
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
