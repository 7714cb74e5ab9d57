//! What a comparison found, as `--json` prints it.

use floodmark_model::EventTime;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most differences that a report holds.
pub const DIFFERENCES_MAX: usize = 10_000;

/// What disagrees. The names are metric labels and values in JSON: stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Offsets below the committed one that are in no tally.
    OffsetsUntallied,
    /// More records tallied than there are offsets.
    TalliesExceedOffsets,
    /// The committed offset lies behind the end of the log.
    OffsetBeyondLog,
    /// Fewer rows than records tallied as stored.
    RowsMissing,
    /// More rows than records tallied as stored.
    RowsExtra,
    /// Fewer dead letters than tallied.
    DeadLettersMissing,
    /// More dead letters than tallied.
    DeadLettersExtra,
    /// More unmatched rows than tallied.
    UnmatchedExtra,
    /// An incident is due, and there is none.
    IncidentMissing,
    /// An incident stands that is not due.
    IncidentExtra,
    /// An incident's total is not what the rows say.
    IncidentTotal,
    /// An incident's window has closed, and the row has not.
    IncidentNotClosed,
    /// A superseded row names another incident than that of the window before.
    IncidentSupersededBy,
    /// An incident is in another episode than its neighbours say.
    IncidentEpisode,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::OffsetsUntallied,
        Self::TalliesExceedOffsets,
        Self::OffsetBeyondLog,
        Self::RowsMissing,
        Self::RowsExtra,
        Self::DeadLettersMissing,
        Self::DeadLettersExtra,
        Self::UnmatchedExtra,
        Self::IncidentMissing,
        Self::IncidentExtra,
        Self::IncidentTotal,
        Self::IncidentNotClosed,
        Self::IncidentSupersededBy,
        Self::IncidentEpisode,
    ];

    /// The stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OffsetsUntallied => "offsets_untallied",
            Self::TalliesExceedOffsets => "tallies_exceed_offsets",
            Self::OffsetBeyondLog => "offset_beyond_log",
            Self::RowsMissing => "rows_missing",
            Self::RowsExtra => "rows_extra",
            Self::DeadLettersMissing => "dead_letters_missing",
            Self::DeadLettersExtra => "dead_letters_extra",
            Self::UnmatchedExtra => "unmatched_extra",
            Self::IncidentMissing => "incident_missing",
            Self::IncidentExtra => "incident_extra",
            Self::IncidentTotal => "incident_total",
            Self::IncidentNotClosed => "incident_not_closed",
            Self::IncidentSupersededBy => "incident_superseded_by",
            Self::IncidentEpisode => "incident_episode",
        }
    }
}

/// Where something disagrees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// In a partition, or a file.
    Partition {
        /// Id of the topic or file.
        topic_id: String,
        /// Partition; 0 for a file.
        partition: i32,
    },
    /// In all partitions together.
    Whole {
        /// How many there are.
        partitions: usize,
    },
    /// In a window of a key.
    Window {
        /// Rule.
        rule: String,
        /// Tenant.
        tenant: String,
        /// 32 hex digits.
        fingerprint: String,
        /// First instant of the window.
        window_start: EventTime,
        /// The incident's id, whether there is a row or not.
        id: String,
    },
}

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What disagrees.
    pub kind: Kind,
    /// Where.
    pub place: Place,
    /// What should stand there.
    pub expected: String,
    /// What does.
    pub found: String,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Partitions and files.
    pub partitions: u64,
    /// Distinct occurrences below the committed offsets.
    pub rows: u64,
    /// First instant of the windows whose incidents were compared; absent where nothing is closed.
    pub since: Option<EventTime>,
    /// The closed watermark: windows that end after it are not judged.
    pub until: Option<EventTime>,
    /// (rule, key, window) that was judged.
    pub windows: u64,
    /// The same with records on their way, which were not.
    pub moving: u64,
    /// Incidents that stand in the windows that were judged.
    pub incidents: u64,
    /// Incidents of windows that are open: only counted.
    pub open: u64,
}

/// What a comparison found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The disagreements, the first [`DIFFERENCES_MAX`] of them.
    pub differences: Vec<Difference>,
    /// How many there are of each kind that there is.
    pub counts: BTreeMap<&'static str, u64>,
    /// What differs for a known reason, or could not be compared.
    pub notes: Vec<String>,
    /// What was looked at.
    pub checked: Checked,
}

impl Report {
    pub(super) fn differs(&mut self, kind: Kind, place: Place, expected: impl Into<String>, found: impl Into<String>) {
        *self.counts.entry(kind.name()).or_default() += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            let (expected, found) = (expected.into(), found.into());
            self.differences.push(Difference { kind, place, expected, found });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_beyond_the_bound_are_counted() {
        let mut report = Report::default();
        for _ in 0..DIFFERENCES_MAX + 5 {
            report.differs(Kind::RowsMissing, Place::Whole { partitions: 1 }, "1", "0");
        }
        assert_eq!(report.differences.len(), DIFFERENCES_MAX);
        assert_eq!(report.counts["rows_missing"], DIFFERENCES_MAX as u64 + 5);
    }
}
