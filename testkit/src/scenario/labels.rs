//! Labels of fingerprints: scenarios say `alpha`, runners see 128 bits.

use super::{Record, Scenario, Step};
use anyhow::{Context, Result, bail, ensure};
use floodmark_model::{Fingerprint, Rule};
use std::collections::BTreeMap;

/// How a payload says which bug it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FingerprintLabels {
    /// By `fingerprint`, a value made of the label, beside the message: for the plain state code and the dataflow.
    Given,
    /// By the label's message alone, of which the product makes the fingerprint: for real records.
    Message,
}

/// Which fingerprint stands for which label in one scenario: one to one.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    by_fingerprint: BTreeMap<Fingerprint, String>,
}

impl Labels {
    /// Takes the fingerprint of each record from the product, as `fingerprint_of` decodes it; `None` for a record that
    /// is no occurrence.
    ///
    /// # Errors
    /// The product gives two labels one fingerprint, or one label two.
    pub fn of_steps(steps: &[Step], mut fingerprint_of: impl FnMut(&Record) -> Option<Fingerprint>) -> Result<Self> {
        let mut labels = Self::default();
        for step in steps {
            let (Step::Record(record) | Step::Redeliver(record)) = step else { continue };
            let Some(label) = &record.label else { continue };
            if let Some(fingerprint) = fingerprint_of(record) {
                labels.add(label, fingerprint)?;
            }
        }
        Ok(labels)
    }

    /// The labels of a scenario under [`FingerprintLabels::Given`].
    #[must_use]
    pub fn given(scenario: &Scenario) -> Self {
        let of_label = |record: &Record| record.label.as_deref().and_then(|label| given(label).ok());
        Self::of_steps(&scenario.steps(FingerprintLabels::Given), of_label).expect("given labels are one to one")
    }

    /// The label of a fingerprint; its hex digits where it has none.
    #[must_use]
    pub fn name(&self, fingerprint: Fingerprint) -> String {
        self.by_fingerprint.get(&fingerprint).cloned().unwrap_or_else(|| fingerprint.to_string())
    }

    fn add(&mut self, label: &str, fingerprint: Fingerprint) -> Result<()> {
        for (known, other) in &self.by_fingerprint {
            if (*known == fingerprint) != (other == label) {
                bail!("{other} has the fingerprint {known}, and {label} has {fingerprint}: want one for each label");
            }
        }
        self.by_fingerprint.insert(fingerprint, label.to_owned());
        Ok(())
    }
}

/// The longest label, in bytes.
const LABEL_BYTES_MAX: usize = 16;

/// The fingerprint of a label under [`FingerprintLabels::Given`].
///
/// # Errors
/// The label is empty, too long, or has a NUL.
pub fn given(label: &str) -> Result<Fingerprint> {
    let fits = (1..=LABEL_BYTES_MAX).contains(&label.len()) && !label.contains('\0');
    ensure!(fits, "label {label:?}: want 1 to {LABEL_BYTES_MAX} bytes without a NUL");
    let mut bytes = [0; LABEL_BYTES_MAX];
    bytes[..label.len()].copy_from_slice(label.as_bytes());
    // Each step can be undone, so no two labels meet; and every bit of the label reaches every part of the result, as
    // in a hash: it decides about workers and slabs.
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mut bits = u128::from_be_bytes(bytes);
    for _ in 0..2 {
        bits = bits.wrapping_mul(ODD);
        bits ^= bits >> 64;
    }
    Ok(Fingerprint::from_bits(bits))
}

/// The message of a label in real records.
#[must_use]
pub fn message(label: &str) -> Option<&'static str> {
    Some(match label {
        "alpha" => "connection refused by upstream gateway",
        "beta" => "disk quota exceeded while writing segment",
        "gamma" => "certificate chain could not be verified",
        "delta" => "null pointer in invoice renderer",
        _ => return None,
    })
}

/// [`Labels::of_steps`] with the fingerprint that the product's JSON decoder gives. A record that the rule does not count
/// is no occurrence of the scenario, and may have another fingerprint.
///
/// # Errors
/// Those of [`Labels::of_steps`].
pub fn decoded(rule: &Rule, steps: &[Step]) -> Result<Labels> {
    use floodmark_model::wire::{DecodeSettings, json};
    let settings = DecodeSettings::default();
    let fingerprint_of = |record: &Record| {
        let occurrence = json::decode(record.as_raw(), &settings).ok()?;
        rule.counts(&occurrence).then_some(occurrence.fingerprint)
    };
    Labels::of_steps(steps, fingerprint_of).context("labels of real records")
}
