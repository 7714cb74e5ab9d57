//! Tallies against offsets, and rows against tallies. Values in, differences out.

use super::{Kind, Log, Place, Report};
use floodmark_model::EventTime;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress};
use floodmark_sinks::inspect::StoredRows;
use std::collections::BTreeMap;

/// Rows go a day's part at a time, when the youngest of it is due: so near to the limit some may be gone.
const RETENTION_MARGIN_MS: i64 = 2 * 86_400_000;

/// Compares what was committed with the log and with the rows. `kept_since`: rows that were inserted before may be gone.
pub(super) fn compare(
    progress: &Progress,
    rows: &[StoredRows],
    log: Option<&Log>,
    kept_since: Option<EventTime>,
    report: &mut Report,
) {
    let by_partition: BTreeMap<PartitionKey, &StoredRows> = rows.iter().map(|rows| (rows.key, rows)).collect();
    let whole = Whole {
        with_event_id: rows.iter().map(|rows| rows.with_event_id).sum(),
        kept_since: kept_since.map(|since| since.plus(RETENTION_MARGIN_MS)),
    };
    for (key, partition) in &progress.partitions {
        report.checked.partitions += 1;
        if partition.is_backfill() {
            // Its records stand for others (design, decision 13): a row may be that of another partition, read again.
            report.notes.push(format!("{}: backfilled, so its rows may be those of other partitions", named(*key)));
            report.checked.rows += by_partition.get(key).map_or(0, |rows| rows.occurrences);
            continue;
        }
        if let Some(log) = log {
            compare_with_log(*key, partition, log, report);
        }
        let nothing =
            StoredRows { key: *key, occurrences: 0, with_event_id: 0, unmatched: 0, dead_letters: 0, oldest: None };
        let rows = by_partition.get(key).copied().unwrap_or(&nothing);
        report.checked.rows += rows.occurrences;
        whole.compare_rows(partition, rows, report);
    }
    let (stored, found) =
        (progress.partitions.values().map(|partition| partition.tallies.stored).sum::<u64>(), report.checked.rows);
    if found > stored {
        let expected = format!("at most {stored} rows, as tallied");
        let place = Place::Whole { partitions: progress.partitions.len() };
        report.differs(Kind::RowsExtra, place, expected, format!("{found} distinct occurrences"));
    }
}

fn place(key: PartitionKey) -> Place {
    Place::Partition { topic_id: key.topic_id.to_string(), partition: key.partition }
}

fn named(key: PartitionKey) -> String {
    format!("topic {} partition {}", key.topic_id, key.partition)
}

/// Each record has one outcome, and so each offset, unless there is none at it.
fn compare_with_log(key: PartitionKey, partition: &PartitionProgress, log: &Log, report: &mut Report) {
    let (read, next) = (partition.tallies.read(), partition.next_offset.max(0).cast_unsigned());
    let expected = || format!("{next} records, one for each offset below {next}");
    if read > next {
        return report.differs(Kind::TalliesExceedOffsets, place(key), expected(), format!("{read} tallied"));
    }
    let known = log.offsets.get(&key.partition).filter(|_| log.topic_id == Some(key.topic_id));
    let Some((first, end)) = known else {
        report.notes.push(format!("{}: the log no longer has it, so its tallies stand alone", named(key)));
        return;
    };
    if partition.next_offset > *end {
        let found = format!("the log ends at {end}");
        report.differs(Kind::OffsetBeyondLog, place(key), format!("a log up to the committed {next}"), found);
    }
    let untallied = next - read;
    if untallied == 0 {
        return;
    }
    if *first > 0 && untallied <= first.cast_unsigned() {
        report.notes.push(format!(
            "{}: {untallied} offsets are in no tally; the log begins at {first}: they may have been deleted before they \
             were first to be read",
            named(key)
        ));
    } else {
        let found = format!(
            "{read} tallied: {untallied} offsets hold no record (compaction, or the markers of transactions), or their \
             records are lost"
        );
        report.differs(Kind::OffsetsUntallied, place(key), expected(), found);
    }
}

/// What is true of all partitions.
struct Whole {
    /// Occurrences with a client's id.
    with_event_id: u64,
    /// Where the oldest row is older, others before it may be gone.
    kept_since: Option<EventTime>,
}

impl Whole {
    fn compare_rows(&self, partition: &PartitionProgress, rows: &StoredRows, report: &mut Report) {
        let tallies = partition.tallies;
        let expires = self.kept_since.is_some_and(|since| rows.oldest.is_some_and(|oldest| oldest < since));
        if expires {
            report
                .notes
                .push(format!("{}: its oldest rows reach their retention: fewer are no difference", named(rows.key)));
        }
        self.compare_occurrences(tallies.stored, rows, expires, report);
        let count = |count: u64, what: &str| format!("{count} {what}");
        if rows.dead_letters > tallies.dead {
            let (expected, found) = (count(tallies.dead, "dead letters, as tallied"), count(rows.dead_letters, "rows"));
            report.differs(Kind::DeadLettersExtra, place(rows.key), expected, found);
        } else if rows.dead_letters < tallies.dead && !expires {
            let (expected, found) = (count(tallies.dead, "dead letters, as tallied"), count(rows.dead_letters, "rows"));
            report.differs(Kind::DeadLettersMissing, place(rows.key), expected, found);
        }
        // Fewer are none: they are stored only while `store_unmatched` is on.
        if rows.unmatched > tallies.unmatched {
            let expected = count(tallies.unmatched, "unmatched records at most, as tallied");
            report.differs(Kind::UnmatchedExtra, place(rows.key), expected, count(rows.unmatched, "rows"));
        }
    }

    /// Of an occurrence's records the one with the least time stays (I-2): a retry that the filter did not know is tallied
    /// as stored and has no row of its own, or has taken the place of a row of another partition.
    fn compare_occurrences(&self, stored: u64, rows: &StoredRows, expires: bool, report: &mut Report) {
        let found = rows.occurrences;
        let expected = || format!("{stored} rows, as tallied");
        if found < stored && !expires {
            let missing = stored - found;
            if missing <= self.with_event_id {
                report.notes.push(format!(
                    "{}: {missing} of {stored} stored records have no row of their own: retries that the filter did not know",
                    named(rows.key)
                ));
            } else {
                let found = format!("{found} distinct occurrences");
                report.differs(Kind::RowsMissing, place(rows.key), expected(), found);
            }
        } else if found > stored && found - stored > rows.with_event_id {
            report.differs(Kind::RowsExtra, place(rows.key), expected(), format!("{found} distinct occurrences"));
        } else if found > stored {
            report.notes.push(format!(
                "{}: {} rows stand for records of other partitions: retries that the filter did not know",
                named(rows.key),
                found - stored
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::TopicId;
    use floodmark_model::progress::Tallies;

    const KEY: PartitionKey = PartitionKey { topic_id: TopicId([7; 16]), partition: 0 };

    fn progress(next_offset: i64, tallies: Tallies) -> Progress {
        let at = PartitionProgress { next_offset, watermark: EventTime(0), tallies };
        Progress { partitions: [(KEY, at)].into(), ..Progress::default() }
    }

    fn rows(occurrences: u64, with_event_id: u64, dead_letters: u64) -> StoredRows {
        StoredRows { key: KEY, occurrences, with_event_id, unmatched: 0, dead_letters, oldest: Some(EventTime(0)) }
    }

    fn log(first: i64, end: i64) -> Log {
        Log { topic_id: Some(KEY.topic_id), offsets: [(0, (first, end))].into() }
    }

    fn found(progress: &Progress, rows: &[StoredRows], log: Option<&Log>, kept_since: Option<i64>) -> Vec<Kind> {
        let mut report = Report::default();
        compare(progress, rows, log, kept_since.map(EventTime), &mut report);
        report.differences.iter().map(|difference| difference.kind).collect()
    }

    const TALLIES: Tallies = Tallies { stored: 6, retried: 1, unmatched: 2, dead: 1 };

    #[test]
    fn g2_every_offset_has_one_outcome_and_every_outcome_its_rows() {
        let rows = [rows(6, 0, 1)];
        assert_eq!(found(&progress(10, TALLIES), &rows, Some(&log(0, 12)), None), []);
        assert_eq!(found(&progress(9, TALLIES), &rows, Some(&log(0, 12)), None), [Kind::TalliesExceedOffsets]);
        assert_eq!(found(&progress(11, TALLIES), &rows, Some(&log(0, 12)), None), [Kind::OffsetsUntallied]);
        assert_eq!(found(&progress(11, TALLIES), &rows, Some(&log(0, 10)), None).len(), 2, "and beyond the log");
        assert_eq!(found(&progress(11, TALLIES), &rows, Some(&log(5, 12)), None), [], "deleted before it was read");
        assert_eq!(found(&progress(11, TALLIES), &rows, Some(&Log::default()), None), [], "another topic has the name");
        assert_eq!(found(&progress(5_000, TALLIES), &rows, None, None), [], "a file's offsets are bytes");
    }

    #[test]
    fn backfilled_records_may_stand_for_others() {
        let mut progress = progress(10, TALLIES);
        progress.partitions.values_mut().for_each(|at| at.watermark = EventTime::MAX);
        assert_eq!(found(&progress, &[rows(2, 0, 0)], None, None), []);
    }

    #[test]
    fn rows_are_as_many_as_tallied_but_for_what_is_known() {
        let progress = progress(10, TALLIES);
        let found = |rows: StoredRows, kept_since| found(&progress, &[rows], None, kept_since);
        assert_eq!(found(rows(5, 0, 1), None), [Kind::RowsMissing]);
        assert_eq!(found(rows(5, 1, 1), None), [], "a retry that the filter did not know");
        assert_eq!(found(rows(3, 2, 1), None), [Kind::RowsMissing], "more than there can be retries");
        assert_eq!(found(rows(3, 0, 0), Some(1)), [], "retention");
        assert_eq!(found(rows(7, 0, 1), None), [Kind::RowsExtra, Kind::RowsExtra], "in the partition and in whole");
        assert_eq!(found(rows(6, 0, 0), None), [Kind::DeadLettersMissing]);
        assert_eq!(found(rows(6, 0, 2), None), [Kind::DeadLettersExtra]);
        assert_eq!(found(StoredRows { unmatched: 3, ..rows(6, 0, 1) }, None), [Kind::UnmatchedExtra]);
    }
}
