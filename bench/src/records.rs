//! The records that are measured: JSON of an online shop's errors, the same in every run.

use floodmark_model::EventTime;
use std::fmt::Write;

/// Services that fail.
const SERVICES: [&str; 8] =
    ["checkout", "payment", "cart", "search", "inventory", "shipping", "accounts", "notifications"];
/// Tenants; a bug belongs to one of them.
const TENANTS: u64 = 20;

/// Scatters a counter over all 64 bits (splitmix64).
pub(crate) fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What records look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Distinct bugs. A few of them make most of the records, as bugs do.
    pub(crate) keys: u64,
    /// Whether each record names its fingerprint; without it the engine computes one.
    pub(crate) with_fingerprint: bool,
}

impl Shape {
    /// The `n`-th record, which happened at `ts`.
    pub(crate) fn record(self, n: u64, ts: EventTime) -> String {
        let random = scatter(n);
        // The share of the k-th bug falls with k^(3/4).
        let share = (random as f64 / u64::MAX as f64).powi(4);
        let key = ((self.keys as f64 * share) as u64).min(self.keys - 1);
        let service = SERVICES[(key % SERVICES.len() as u64) as usize];
        let message = format!(
            "Step {} of order {} failed: no answer from 10.{}.{}.{}:5432 within {} ms",
            word(key),
            random % 10_000_000,
            random >> 8 & 255,
            random >> 16 & 255,
            random >> 24 & 255,
            random >> 32 & 8_191
        );
        let tenant = format!("tenant-{}", key % TENANTS);
        let fingerprint = u128::from(scatter(key)) << 64 | u128::from(scatter(!key));
        let pod = random >> 40 & 7;
        json(
            &Fields { tenant: &tenant, ts, service, pod, message: &message },
            self.with_fingerprint.then_some(fingerprint),
        )
    }
}

/// A record of a bug that nothing else has, to be looked for.
pub(crate) fn probe(fingerprint: u128, ts: EventTime) -> String {
    let message = "The record that is looked for";
    json(&Fields { tenant: PROBE_TENANT, ts, service: "probe", pod: 0, message }, Some(fingerprint))
}

/// The tenant of [`probe`]s.
pub(crate) const PROBE_TENANT: &str = "probe";

struct Fields<'a> {
    tenant: &'a str,
    ts: EventTime,
    service: &'a str,
    pod: u64,
    message: &'a str,
}

fn json(fields: &Fields<'_>, fingerprint: Option<u128>) -> String {
    let Fields { tenant, ts, service, pod, message } = fields;
    let ts = jiff::Timestamp::from_millisecond(ts.0).expect("a time of this century");
    let mut json = format!(
        r#"{{"tenant":"{tenant}","ts":"{ts:.3}","level":"error","service":"{service}","host":"{service}-7d9f-{pod}","#
    );
    json += &format!(
        r#""source":"com.shop.{service}.Worker","message":"{message}","exception":{{"type":"TimeoutException"}}"#
    );
    if let Some(fingerprint) = fingerprint {
        write!(json, r#","fingerprint":"{fingerprint:032x}""#).expect("writing to a string does not fail");
    }
    json.push('}');
    json
}

/// A word for a number, of letters that are no hexadecimal digits: masking leaves it alone.
fn word(number: u64) -> String {
    const LETTERS: &[u8; 16] = b"ghjklmnopqrstvwz";
    (0..6).map(|place| char::from(LETTERS[(number >> (4 * place) & 15) as usize])).collect()
}
