//! The answer for people, who may just have been woken: what holds first, details after it.

use crate::cli::table;
use crate::explain::{Explanation, Incident, PartitionWatermark, UnderRule, Watermark, WindowFacts};
use floodmark_model::EventTime;
use std::fmt::{self, Display, Write as _};

/// Partitions that are shown.
const PARTITIONS_SHOWN: usize = 20;

/// Letters of a message, or of what a store says.
const TEXT_WIDTH: usize = 200;

/// An explanation as text.
pub(super) struct Shown<'a>(pub(super) &'a Explanation);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { tenant, fingerprint, time: _, rules, hints, watermark } = self.0;
        let tenant = table::one_line(tenant, 100);
        for rule in rules {
            show_answer(f, &tenant, fingerprint, rule)?;
        }
        hints.iter().try_for_each(|hint| writeln!(f, "{}", table::one_line(hint, usize::MAX)))?;
        rules.iter().try_for_each(|rule| show_rule(f, rule))?;
        show_watermark(f, watermark)
    }
}

fn show_answer(f: &mut fmt::Formatter<'_>, tenant: &str, fingerprint: &str, rule: &UnderRule) -> fmt::Result {
    let UnderRule { rule: name, is_configured, answer, advice, windows, .. } = rule;
    let gone = if *is_configured { "" } else { " (not configured)" };
    let asked = windows.get(1);
    let window = asked.map_or_else(String::new, |window| {
        format!(", window {} to {} (UTC)", table::time(window.start), table::time(window.end))
    });
    writeln!(f, "tenant {tenant}, fingerprint {fingerprint}, rule {name}{gone}{window}: {answer}")?;
    if let Some(message) = asked.and_then(|window| window.sample.as_ref()) {
        writeln!(f, "  message: {}", table::one_line(message, TEXT_WIDTH))?;
    }
    if let Some(advice) = advice {
        writeln!(f, "  {advice}")?;
    }
    Ok(())
}

fn show_rule(f: &mut fmt::Formatter<'_>, rule: &UnderRule) -> fmt::Result {
    writeln!(f, "\nrule {}: {} occurrences make an incident", rule.rule, rule.threshold)?;
    if !rule.counts_tenant {
        writeln!(f, "  the rule does not look at this tenant")?;
    }
    let mut windows =
        table::table(&["window (UTC)", "closed", "occurrences", "most across its start", "verdict", "in its parts"]);
    for window in &rule.windows {
        let run = window.best_run.as_ref();
        windows.add_row([
            table::time(window.start),
            (if window.closed { "yes" } else { "no" }).to_owned(),
            window.count.to_string(),
            run.map_or_else(|| "-".into(), |run| format!("{} from {}", run.count, table::time(run.start))),
            verdict(window).to_owned(),
            buckets(&window.buckets),
        ]);
    }
    writeln!(f, "{windows}")?;
    rule.windows.iter().try_for_each(|window| show_window(f, window))
}

fn verdict(window: &WindowFacts) -> &'static str {
    match window.verdict {
        Some("own") => "incident",
        Some("bridge") => "incident, by a burst across its start",
        Some("blocked") => "belongs to the incident before it",
        Some(_) => "no incident",
        None => "unknown",
    }
}

/// Most rules have few buckets; of many only the filled ones are named.
fn buckets(counts: &[u64]) -> String {
    const LISTED_MAX: usize = 20;
    if counts.len() <= LISTED_MAX {
        return counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    }
    let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut shown: Vec<_> = filled.map(|(index, count)| format!("{}:{count}", index + 1)).collect();
    if shown.len() > LISTED_MAX {
        shown.truncate(LISTED_MAX);
        shown.push("...".into());
    }
    shown.join(" ")
}

fn show_window(f: &mut fmt::Formatter<'_>, window: &WindowFacts) -> fmt::Result {
    writeln!(f, "window {}: {}", table::time(window.start), window.why)?;
    if let Some(incident) = &window.incident {
        show_incident(f, incident)?;
    }
    for (reason, count) in &window.not_counted {
        writeln!(f, "  {count} occurrences are not counted: {}", table::one_line(reason, TEXT_WIDTH))?;
    }
    let mut line = |count: u64, what: &str| if count > 0 { writeln!(f, "  {count} {what}") } else { Ok(()) };
    line(
        window.late_estimate.unwrap_or(0),
        "probably came after the window had closed (an estimate, by the times of their records); they count",
    )?;
    line(window.ts_missing, "had no time of their own and count by the time of their record")?;
    line(window.ts_clamped, "had a time in the future and count by the time of their record")?;
    line(
        window.clamped_away,
        "have a time in this window that was in the future when they came, and count in an earlier one",
    )?;
    for (reason, count) in &window.dead_letters {
        writeln!(f, "  {count} records of any tenant that came in this time could not be read: {reason}")?;
    }
    Ok(())
}

fn show_incident(f: &mut fmt::Formatter<'_>, Incident { row, reason, transitions }: &Incident) -> fmt::Result {
    let mut line = format!(
        "  incident {}: {}, due since {} (by the events' own time), ",
        row.id,
        row.status.name(),
        table::time(row.opened_at)
    );
    match row.total {
        Some(total) => write!(line, "{total} occurrences in all")?,
        None => write!(line, "{} occurrences so far", row.count)?,
    }
    if let Some(by) = &row.superseded_by {
        write!(line, ", superseded by {by}")?;
    }
    if let Some(reason) = reason {
        write!(line, ", {}", table::one_line(reason, TEXT_WIDTH))?;
    }
    writeln!(f, "{line}")?;
    for change in transitions {
        let reason =
            change.reason.as_ref().map_or_else(String::new, |text| format!(": {}", table::one_line(text, TEXT_WIDTH)));
        writeln!(f, "    {} {} (by the clock of the store){reason}", table::time(change.at), change.transition)?;
    }
    Ok(())
}

fn show_watermark(f: &mut fmt::Formatter<'_>, watermark: &Watermark) -> fmt::Result {
    let time = |time: Option<EventTime>| time.map_or_else(|| "-".into(), table::time);
    write!(
        f,
        "\nthe input is read up to {} (event time, UTC), and windows are closed up to {}; how far it was when a record came \
         is not stored",
        time(watermark.merged),
        time(watermark.closed)
    )?;
    if watermark.partitions.is_empty() {
        return Ok(());
    }
    let mut shown =
        table::table(&["topic or file", "partition", "read up to", "stored", "retries", "of no rule", "dead letters"]);
    for partition in watermark.partitions.iter().take(PARTITIONS_SHOWN) {
        shown.add_row([
            input(partition),
            partition.partition.to_string(),
            time(partition.watermark),
            partition.stored.to_string(),
            partition.retried.to_string(),
            partition.unmatched.to_string(),
            partition.dead.to_string(),
        ]);
    }
    write!(f, "\n{shown}")?;
    let more = watermark.partitions.len().saturating_sub(PARTITIONS_SHOWN);
    if more > 0 { write!(f, "\n{more} more partitions: --json") } else { Ok(()) }
}

fn input(partition: &PartitionWatermark) -> String {
    match &partition.name {
        Some(name) => name.clone(),
        None if partition.backfill => format!("backfilled ({})", partition.topic_id),
        None => partition.topic_id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_buckets_the_filled_ones_are_named() {
        assert_eq!(buckets(&[0, 3, 1]), "0 3 1");
        let mut many = [0; 30];
        (many[0], many[29]) = (2, 7);
        assert_eq!(buckets(&many), "1:2 30:7");
        assert!(buckets(&[1; 30]).ends_with("20:1 ..."));
    }
}
