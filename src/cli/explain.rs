//! `floodmark explain`.

mod shown;

use super::arguments::{StoreArguments, read_time};
use super::{Failure, print, print_json, runtime, stores, table};
use crate::config::Config;
use crate::config::load::Flags;
use crate::explain::{Explanation, Question, UnderRule, explain};
use crate::rules::{named, with_stored};
use clap::Args;
use floodmark_model::{EventTime, Fingerprint, Rule, TopicId};
use floodmark_sinks::inspect::{InspectIncidents, InspectOccurrences};
use floodmark_sinks::{IncidentStore, OccurrenceStore};
use shown::Shown;
use std::collections::BTreeMap;

/// The least hex digits of a fingerprint.
const DIGITS_MIN: usize = 6;

/// How far from the time a fingerprint is looked up that is not given in whole.
const NEAR_MS: i64 = 24 * 3_600_000;

/// Fingerprints that an error lists.
const CANDIDATES_SHOWN: usize = 10;

/// Why there is, or is not, an incident of a fingerprint at a time.
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    stores: StoreArguments,
    /// Tenant
    tenant: String,
    /// Fingerprint: 32 hex digits, or the first of them (6 at least) of one that was seen within a day of the time
    fingerprint: String,
    /// Time: RFC 3339, or a number since 1970 as in `ts`
    #[arg(allow_hyphen_values = true)]
    time: String,
    /// Only this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Print JSON: times are milliseconds since 1970 UTC
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn run(self) -> Result<(), Failure> {
        let time = read_time("TIME", &self.time)?;
        let digits = self.fingerprint.to_ascii_lowercase();
        if !(DIGITS_MIN..=32).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Failure::usage(format!(
                "FINGERPRINT {}: {DIGITS_MIN} to 32 hex digits, as `floodmark incidents` shows them",
                self.fingerprint
            )));
        }
        let config = self.stores.load(Flags::default())?.config;
        let asked = Asked { tenant: &self.tenant, digits: &digits, time, rule: self.rule.as_deref(), config: &config };
        let runtime = runtime()?;
        let explanation = if self.stores.embedded {
            let store = stores::sqlite_for_reading(&self.stores)?;
            runtime.block_on(async {
                let inputs = store.inputs().await.map_err(Failure::dependency)?;
                let inputs = inputs.into_iter().map(|input| (input.id, input.path)).collect();
                asked.answer(&store, &store, &inputs, false).await
            })
        } else {
            let (occurrences, incidents) = (stores::clickhouse(&config)?, stores::postgres(&config)?);
            runtime.block_on(asked.answer(&occurrences, &incidents, &BTreeMap::new(), true))
        }?;
        if self.json { print_json(&explanation) } else { print(Shown(&explanation)) }
    }
}

/// What was asked, before the fingerprint is known.
struct Asked<'a> {
    tenant: &'a str,
    digits: &'a str,
    time: EventTime,
    rule: Option<&'a str>,
    config: &'a Config,
}

impl Asked<'_> {
    async fn answer(
        &self,
        occurrences: &(impl OccurrenceStore + InspectOccurrences),
        incidents: &(impl IncidentStore + InspectIncidents),
        inputs: &BTreeMap<TopicId, String>,
        records_have_times: bool,
    ) -> Result<Explanation, Failure> {
        let configured = &self.config.rules;
        let stored = incidents.rules().await.map_err(Failure::dependency)?;
        let rules = self.rules(with_stored(configured, &stored))?;
        let question = Question {
            tenant: self.tenant,
            fingerprint: self.fingerprint(occurrences).await?,
            time: self.time,
            rules: &rules,
            configured,
            inputs,
            lateness_ms: self.config.time.lateness_ms,
            zone: &self.config.time.zone,
            records_have_times,
        };
        let mut explanation = explain(occurrences, incidents, &question).await.map_err(Failure::dependency)?;
        // A rule that is gone is of no interest unless it is asked for, or has left something.
        let has_incident = |rule: &UnderRule| rule.windows.iter().any(|window| window.incident.is_some());
        explanation.rules.retain(|rule| rule.is_configured || self.rule.is_some() || has_incident(rule));
        Ok(explanation)
    }

    /// The rules that are asked about, of all that are known.
    fn rules(&self, known: Vec<Rule>) -> Result<Vec<Rule>, Failure> {
        let Some(asked) = self.rule else { return Ok(known) };
        match named(&known, asked) {
            Some(rule) => Ok(vec![rule.clone()]),
            None => {
                let names: Vec<_> = known.iter().map(|rule| rule.name.as_str()).collect();
                Err(Failure::usage(format!("--rule {asked}: no such rule; there are: {}", names.join(", "))))
            }
        }
    }

    /// The only fingerprint that begins with the digits.
    async fn fingerprint(&self, occurrences: &impl InspectOccurrences) -> Result<Fingerprint, Failure> {
        if let Some(whole) = Fingerprint::from_hex(self.digits) {
            return Ok(whole);
        }
        let (from, until) = (self.time.minus(NEAR_MS), self.time.plus(NEAR_MS));
        let found = occurrences.fingerprints(self.tenant, self.digits, from, until).await;
        let found = found.map_err(Failure::dependency)?;
        let Self { tenant, digits, .. } = self;
        match &found[..] {
            [one] => Ok(*one),
            [] => Err(Failure::usage(format!(
                "FINGERPRINT {digits}: tenant {tenant} has none that begins so within a day of {}: give all 32 digits, or \
                 another time",
                table::time(self.time)
            ))),
            several => {
                let shown: Vec<_> = several.iter().take(CANDIDATES_SHOWN).map(Fingerprint::to_string).collect();
                let more = if several.len() > shown.len() { ", ..." } else { "" };
                Err(Failure::usage(format!(
                    "FINGERPRINT {digits}: {} begin so: {}{more}: give more digits",
                    several.len(),
                    shown.join(", ")
                )))
            }
        }
    }
}
