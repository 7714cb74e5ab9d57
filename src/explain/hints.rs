//! Why nothing, or not enough, may be stored of a bug: what silence looks like from the stores.

use super::Question;
use super::words::occurrences;
use crate::shown_time::shown_time;
use floodmark_model::Level;
use floodmark_model::progress::{Progress, Tallies};
use floodmark_sinks::inspect::Seen;

/// Other tenants that are named.
const TENANTS_NAMED: usize = 5;

/// The hints. `seen` is where the fingerprint occurs at all, if nothing of it is in the windows.
pub(super) fn hints(question: &Question<'_>, progress: &Progress, seen: Option<&[Seen]>) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(seen) = seen {
        hints.push(of_tenant(question, seen));
        hints.extend(of_others(question.tenant, seen));
    }
    hints.extend(in_no_count(progress));
    hints
}

fn of_tenant(question: &Question<'_>, seen: &[Seen]) -> String {
    let tenant = question.tenant;
    match seen.iter().find(|seen| seen.tenant == tenant) {
        Some(own) => format!(
            "tenant {tenant} has {} of this bug, from {} to {}, and none of them in these windows",
            occurrences(own.count),
            shown_time(own.first_ts),
            shown_time(own.last_ts)
        ),
        None => format!(
            "nothing of this bug is stored for tenant {tenant}: it was not sent, is not read yet, could not be read, or is \
             below level `{}`, from which on rules count, and was not kept",
            least_level(question).name()
        ),
    }
}

fn least_level(question: &Question<'_>) -> Level {
    let levels = question.rules.iter().flat_map(|rule| rule.versions()).map(|version| version.matches.level);
    levels.min().unwrap_or(Level::Warn)
}

fn of_others(tenant: &str, seen: &[Seen]) -> Option<String> {
    let others: Vec<&Seen> = seen.iter().filter(|seen| seen.tenant != tenant).collect();
    let named: Vec<_> =
        others.iter().take(TENANTS_NAMED).map(|seen| format!("{} ({})", seen.tenant, seen.count)).collect();
    let more = if others.len() > named.len() { ", ..." } else { "" };
    (!named.is_empty()).then(|| format!("other tenants have this fingerprint: {}{more}", named.join(", ")))
}

/// What was read and is in no count, whatever it is of.
fn in_no_count(progress: &Progress) -> Option<String> {
    let mut all = Tallies::default();
    progress.partitions.values().for_each(|partition| all += partition.tallies);
    let parts = [
        (all.unmatched, "matched no rule (such as those below the rule's level)"),
        (all.retried, "were a client's retries (same event_id), which count once"),
        (all.dead, "could not be read (dead letters)"),
    ];
    let parts: Vec<_> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "in no count, of all tenants and times: {}; whether some are of this bug is not known",
            parts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::progress::{PartitionKey, PartitionProgress};
    use floodmark_model::time::Zone;
    use floodmark_model::{EventTime, Fingerprint, Rule, TopicId};
    use std::collections::BTreeMap;

    #[test]
    fn silence_has_reasons() {
        let (rules, inputs) = ([Rule::default()], BTreeMap::new());
        let question = Question {
            tenant: "acme",
            fingerprint: Fingerprint::from_bits(1),
            time: EventTime(0),
            rules: &rules,
            configured: &rules,
            inputs: &inputs,
            lateness_ms: 0,
            zone: &Zone::UTC,
            records_have_times: true,
        };
        let tallies = Tallies { unmatched: 12, retried: 9, ..Tallies::default() };
        let at = PartitionProgress { next_offset: 21, watermark: EventTime(0), tallies };
        let key = PartitionKey { topic_id: TopicId([1; 16]), partition: 0 };
        let progress = Progress { partitions: [(key, at)].into(), ..Progress::default() };
        let seen =
            |tenant: &str| Seen { tenant: tenant.into(), first_ts: EventTime(0), last_ts: EventTime(1_000), count: 7 };
        let none = hints(&question, &progress, Some(&[seen("globex")])).join("\n");
        for part in ["nothing of this bug", "`warn`", "globex (7)", "12 matched no rule", "9 were a client's retries"] {
            assert!(none.contains(part), "{part} is missing in {none}");
        }
        let elsewhere = hints(&question, &Progress::default(), Some(&[seen("acme")]));
        assert_eq!(elsewhere.len(), 1);
        assert!(elsewhere[0].contains("7 occurrences of this bug, from 1970-01-01T00:00:00Z"), "{elsewhere:?}");
        assert_eq!(hints(&question, &Progress::default(), None), [""; 0]);
    }
}
