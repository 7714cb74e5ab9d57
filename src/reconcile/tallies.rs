//! Tallies against offsets, and rows against tallies. Values in, differences out.

use super::backfilled::Backfilled;
use super::log::Log;
use super::{Kind, Place, Report};
use floodmark_model::EventTime;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use floodmark_sinks::inspect::StoredRows;
use std::collections::BTreeMap;

/// Rows go a day's part at a time, when the youngest of it is due: so near to the limit some may be gone.
const RETENTION_MARGIN_MS: i64 = 2 * 86_400_000;

/// Compares what was committed with the log and with the rows. `kept_since`: rows that were inserted before may be gone.
pub(super) fn compare(
    progress: &Progress,
    rows: &Rows,
    log: Option<&Log>,
    kept_since: Option<EventTime>,
    report: &mut Report,
) {
    let whole = Whole {
        with_event_id: rows.of_partitions.values().map(|rows| rows.with_event_id).sum(),
        kept_since: kept_since.map(|since| since.plus(RETENTION_MARGIN_MS)),
    };
    let mut backfilled = Backfilled::default();
    for (key, partition) in &progress.partitions {
        let rows = rows.of(*key);
        report.checked.partitions += 1;
        report.checked.rows += rows.occurrences;
        if partition.is_backfill() {
            backfilled.add(partition, &rows, whole.expires(&rows));
        } else {
            if let Some(log) = log {
                compare_with_log(*key, partition, log, report);
            }
            whole.compare_rows(partition, &rows, report);
        }
    }
    backfilled.compare(rows, report);
    let (stored, found) =
        (progress.partitions.values().map(|partition| partition.tallies.stored).sum::<u64>(), report.checked.rows);
    if found > stored {
        let expected = format!("at most {stored} rows, as tallied");
        let place = Place::Whole { partitions: progress.partitions.len() };
        report.differs(Kind::RowsExtra, place, expected, format!("{found} distinct occurrences"));
    }
}

/// What the store of occurrences holds.
pub(super) struct Rows {
    /// Below the committed offset of each partition.
    pub(super) of_partitions: BTreeMap<PartitionKey, StoredRows>,
    /// Dead letters of backfilled inputs: they have the place of the record in its input, which is in no partition.
    pub(super) dead_letters_of_inputs: u64,
}

impl Rows {
    fn of(&self, key: PartitionKey) -> StoredRows {
        let nothing = StoredRows { key, occurrences: 0, with_event_id: 0, unmatched: 0, dead_letters: 0, oldest: None };
        self.of_partitions.get(&key).cloned().unwrap_or(nothing)
    }

    /// All of them.
    pub(super) fn dead_letters(&self) -> u64 {
        self.dead_letters_of_inputs + self.of_partitions.values().map(|rows| rows.dead_letters).sum::<u64>()
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
    fn expires(&self, rows: &StoredRows) -> bool {
        self.kept_since.is_some_and(|since| rows.oldest.is_some_and(|oldest| oldest < since))
    }

    fn compare_rows(&self, partition: &PartitionProgress, rows: &StoredRows, report: &mut Report) {
        let tallies = partition.tallies;
        let expires = self.expires(rows);
        if expires {
            report
                .notes
                .push(format!("{}: its oldest rows reach their retention: fewer are no difference", named(rows.key)));
        }
        self.compare_occurrences(tallies, rows, expires, report);
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

    /// A record without a client's id has a row of its own, whatever else there is. Of records with one the one with the
    /// least time stays (I-2): a retry that the filter did not know is tallied as stored and has no row of its own, or has
    /// taken the place of a row of another partition.
    fn compare_occurrences(&self, tallies: Tallies, rows: &StoredRows, expires: bool, report: &mut Report) {
        let (stored, found) = (tallies.stored, rows.occurrences);
        let expected = || format!("{stored} rows, as tallied");
        let without_event_id = found.saturating_sub(rows.with_event_id);
        if without_event_id < tallies.unique && !expires {
            let expected = format!("at least {} rows of records without an event_id, as tallied", tallies.unique);
            report.differs(Kind::RowsMissing, place(rows.key), expected, format!("{without_event_id} rows"));
        } else if found < stored && !expires {
            self.compare_retries(tallies, rows, report);
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

    /// Fewer rows than records, though all are there that have no client's id.
    fn compare_retries(&self, tallies: Tallies, rows: &StoredRows, report: &mut Report) {
        let (stored, found) = (tallies.stored, rows.occurrences);
        let missing = stored - found;
        if missing > self.with_event_id {
            let found = format!("{found} distinct occurrences");
            report.differs(Kind::RowsMissing, place(rows.key), format!("{stored} rows, as tallied"), found);
        } else {
            report.notes.push(format!(
                "{}: not checked: {missing} of {} stored records that may have an event_id have no row of their own: \
                 retries that the filter did not know, or lost; to decide it, count the distinct (tenant, event_id) of \
                 the topic and those of the table occurrences",
                named(rows.key),
                stored - tallies.unique
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_model::TopicId;

    const KEY: PartitionKey = PartitionKey { topic_id: TopicId([7; 16]), partition: 0 };

    fn progress(next_offset: i64, tallies: Tallies) -> Progress {
        let at = PartitionProgress { next_offset, watermark: EventTime(0), tallies };
        Progress { partitions: [(KEY, at)].into(), ..Progress::default() }
    }

    fn rows(occurrences: u64, with_event_id: u64, dead_letters: u64) -> StoredRows {
        StoredRows { key: KEY, occurrences, with_event_id, unmatched: 0, dead_letters, oldest: Some(EventTime(0)) }
    }

    fn stored(rows: &[StoredRows], dead_letters_of_inputs: u64) -> Rows {
        let of_partitions = rows.iter().map(|rows| (rows.key, rows.clone())).collect();
        Rows { of_partitions, dead_letters_of_inputs }
    }

    fn log(first: i64, end: i64) -> Log {
        Log { topic_id: Some(KEY.topic_id), offsets: [(0, (first, end))].into() }
    }

    fn found(progress: &Progress, rows: &[StoredRows], log: Option<&Log>, kept_since: Option<i64>) -> Vec<Kind> {
        let rows = stored(rows, 0);
        kinds(&report(progress, &rows, log, kept_since))
    }

    fn report(progress: &Progress, rows: &Rows, log: Option<&Log>, kept_since: Option<i64>) -> Report {
        let mut report = Report::default();
        compare(progress, rows, log, kept_since.map(EventTime), &mut report);
        report
    }

    fn kinds(report: &Report) -> Vec<Kind> {
        report.differences.iter().map(|difference| difference.kind).collect()
    }

    const TALLIES: Tallies = Tallies { stored: 6, retried: 1, unmatched: 2, dead: 1, unique: 0 };

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
    fn decision_13_of_backfilled_records_only_what_holds_is_compared_and_the_rest_is_said() {
        let mut progress = progress(10, TALLIES);
        progress.partitions.values_mut().for_each(|at| at.watermark = EventTime::MAX);
        let report = |occurrences, dead_letters_of_inputs| {
            let rows = stored(&[rows(occurrences, 0, 0)], dead_letters_of_inputs);
            report(&progress, &rows, None, None)
        };
        let whole = report(6, 1);
        assert_eq!((kinds(&whole), whole.notes.len()), (vec![], 0));
        let fewer = report(2, 1);
        assert_eq!((kinds(&fewer), fewer.notes.len()), (vec![], 1));
        assert!(fewer.notes[0].contains("4 of 6 backfilled records"), "{:?}", fewer.notes);
        assert_eq!(kinds(&report(0, 1)), [Kind::RowsMissing]);
        assert_eq!(kinds(&report(2, 0)), [Kind::DeadLettersMissing]);
        assert_eq!(kinds(&report(7, 1)), [Kind::RowsExtra, Kind::RowsExtra], "of backfilled records and in whole");
    }

    #[test]
    fn a_record_without_an_event_id_is_never_taken_for_a_retry() {
        let progress = progress(10, Tallies { unique: 4, ..TALLIES });
        let report = |occurrences, with_event_id| {
            let rows = stored(&[rows(occurrences, with_event_id, 1)], 0);
            report(&progress, &rows, None, None)
        };
        assert_eq!(kinds(&report(6, 2)), []);
        assert_eq!(kinds(&report(5, 2)), [Kind::RowsMissing], "one of the four is gone");
        let retry = report(5, 1);
        assert_eq!((kinds(&retry), retry.notes.len()), (vec![], 1));
        assert!(retry.notes[0].contains("1 of 2 stored records"), "{:?}", retry.notes);
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
