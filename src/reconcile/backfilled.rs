//! Tallies of backfilled records against rows: what holds of them, and what does not.

use super::tallies::Rows;
use super::{Kind, Place, Report};
use floodmark_model::progress::PartitionProgress;
use floodmark_sinks::inspect::StoredRows;

/// The partitions of the backfill topic together. A record in them stands for one elsewhere (design, decision 13): read
/// twice, it is tallied twice and has one row; read live as well, it has the row of the live one. So the rows may be fewer
/// than the tallies, but never more, and not none.
#[derive(Default)]
pub(super) struct Backfilled {
    partitions: usize,
    stored: u64,
    dead: u64,
    rows: u64,
    expires: bool,
}

impl Backfilled {
    pub(super) fn add(&mut self, partition: &PartitionProgress, rows: &StoredRows, expires: bool) {
        self.partitions += 1;
        self.stored += partition.tallies.stored;
        self.dead += partition.tallies.dead;
        self.rows += rows.occurrences;
        self.expires |= expires;
    }

    pub(super) fn compare(&self, rows: &Rows, report: &mut Report) {
        if self.partitions == 0 {
            return;
        }
        let Self { partitions, stored, dead, .. } = *self;
        let place = || Place::Whole { partitions };
        if self.rows > stored {
            let expected = format!("at most {stored} rows of backfilled records, as tallied");
            report.differs(Kind::RowsExtra, place(), expected, format!("{} rows", self.rows));
        }
        if self.expires {
            return;
        }
        if stored > 0 && report.checked.rows == 0 {
            let expected = format!("rows of {stored} backfilled records, as tallied");
            report.differs(Kind::RowsMissing, place(), expected, "no row at all");
        } else if self.rows < stored {
            report.notes.push(undecided(stored - self.rows, stored, "backfilled records", "row"));
        }
        if dead > 0 && rows.dead_letters() == 0 {
            let expected = format!("dead letters of {dead} backfilled records, as tallied");
            report.differs(Kind::DeadLettersMissing, place(), expected, "no dead letter at all");
        } else if rows.dead_letters_of_inputs < dead {
            let missing = dead - rows.dead_letters_of_inputs;
            report.notes.push(undecided(missing, dead, "backfilled records that cannot be read", "dead letter"));
        }
    }
}

/// What the tallies of backfilled records do not decide.
fn undecided(missing: u64, of: u64, what: &str, row: &str) -> String {
    format!(
        "not checked: {missing} of {of} {what} have no {row} of their own: they were backfilled twice or read live as \
         well, or they are lost; backfilling the same inputs again adds what is lost, and nothing else"
    )
}
