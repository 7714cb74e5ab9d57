//! Rows on their way to the occurrence store: encoded once, by the thread that decoded the record.
//!
//! The format is ClickHouse's `RowBinary`: the columns of a row one behind the other, integers little-endian, a string
//! as its length (LEB128) and its bytes. The columns of fixed width come first, so that they are written in one go.
//! [`OCCURRENCE_COLUMNS`] and [`DEAD_LETTER_COLUMNS`] name them in order; an insert into ClickHouse names the same
//! columns, and SQLite reads the rows back with [`decode_occurrences`] and [`decode_dead_letters`].
//!
//! Encoding allocates nothing per row: a row is appended to the block's one buffer.

mod decode;
mod encode;

pub use decode::{DeadLetters, MalformedRow, Occurrences, decode_dead_letters, decode_occurrences};

use bytes::Bytes;
use floodmark_model::{DeadLetter, EventTime, Occurrence};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The encoded columns of `occurrences` and `unmatched`, in order. Columns that ClickHouse fills itself (when the row
/// was inserted, how many repeats it stands for) are not among them.
pub const OCCURRENCE_COLUMNS: [&str; 22] = [
    "fingerprint_bits",
    "ts",
    "identity",
    "version",
    "topic_id",
    "partition",
    "offset",
    "record_time",
    "level",
    "ts_missing",
    "ts_clamped",
    "tenant",
    "ts_original",
    "service",
    "host",
    "source",
    "type",
    "template_id",
    "event_id",
    "message",
    "exception_type",
    "raw",
];

/// The encoded columns of `dead_letters`, in order.
pub const DEAD_LETTER_COLUMNS: [&str; 7] =
    ["topic_id", "partition", "offset", "record_time", "reason", "detail", "raw"];

/// Length of a day in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// A block of encoded rows.
#[derive(Clone, Debug, Default)]
pub struct RowBlock {
    /// Rows of `occurrences`.
    pub occurrences: Rows,
    /// Rows of `unmatched` (same columns), where `store_unmatched` is on.
    pub unmatched: Rows,
    /// Rows of `dead_letters`.
    pub dead_letters: Rows,
    /// The days that `occurrences` and `unmatched` lie in (days since 1970, floored): an insert touches few partitions.
    pub days: BTreeSet<i32>,
    /// The day of the row before: nearly always this row's as well, so the set is rarely touched.
    pub(crate) last_day: Option<i32>,
}

/// Encoded rows of one table. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    bytes: Arc<Vec<u8>>,
    count: usize,
}

impl RowBlock {
    /// An empty block with room for as many occurrences as `before` holds: it grows in one go.
    #[must_use]
    pub fn with_room_for(before: &Self) -> Self {
        let bytes = Arc::new(Vec::with_capacity(before.occurrences.bytes.len()));
        Self { occurrences: Rows { bytes, count: 0 }, ..Self::default() }
    }

    /// Appends an occurrence.
    pub fn push_occurrence(&mut self, occurrence: &Occurrence<'_>) {
        self.occurrences.push(|bytes| encode::occurrence(bytes, occurrence));
        self.note_day(occurrence.ts);
    }

    /// Appends an occurrence that no rule matches.
    pub fn push_unmatched(&mut self, occurrence: &Occurrence<'_>) {
        self.unmatched.push(|bytes| encode::occurrence(bytes, occurrence));
        self.note_day(occurrence.ts);
    }

    /// Appends a dead letter; of its bytes the first [`DeadLetter::RAW_BYTES_MAX`] are kept.
    pub fn push_dead_letter(&mut self, letter: &DeadLetter<'_>) {
        self.dead_letters.push(|bytes| encode::dead_letter(bytes, letter));
    }

    /// Encoded bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.occurrences.bytes.len() + self.unmatched.bytes.len() + self.dead_letters.bytes.len()
    }

    /// Rows held.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.occurrences.count + self.unmatched.count + self.dead_letters.count
    }

    fn note_day(&mut self, ts: EventTime) {
        let day = day_of(ts);
        if self.last_day != Some(day) {
            self.last_day = Some(day);
            self.days.insert(day);
        }
    }
}

impl Rows {
    /// The encoded rows, one behind the other.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded rows as the body of a request, which shares them instead of copying.
    #[must_use]
    pub fn shared(&self) -> Bytes {
        struct Shared(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        Bytes::from_owner(Shared(Arc::clone(&self.bytes)))
    }

    /// Takes rows out again. Each range is that of one row, as [`Self::bytes`] had it around the push; in order.
    pub fn cut(&mut self, rows: &[Range<usize>]) {
        if rows.is_empty() {
            return;
        }
        let bytes = Arc::make_mut(&mut self.bytes);
        let mut kept = rows[0].start;
        for (index, row) in rows.iter().enumerate() {
            let next = rows.get(index + 1).map_or(bytes.len(), |next| next.start);
            bytes.copy_within(row.end..next, kept);
            kept += next - row.end;
        }
        bytes.truncate(kept);
        self.count -= rows.len();
    }

    fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        // Copies only if an earlier state is still on its way to a store.
        encode(Arc::make_mut(&mut self.bytes));
        self.count += 1;
    }
}

/// The day of a time: days since 1970, floored toward minus infinity.
#[must_use]
pub fn day_of(ts: EventTime) -> i32 {
    let day = ts.0.div_euclid(DAY_MS);
    i32::try_from(day).unwrap_or(if day < 0 { i32::MIN } else { i32::MAX })
}

#[cfg(test)]
mod tests;
