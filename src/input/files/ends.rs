//! How far each input of a run was read, and what was odd about it.

use floodmark_model::TopicId;
use floodmark_sinks::inputs::ReadBytes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Fewer records that a file has grown by say nothing of its format.
const SUSPICIOUS_MIN: u64 = 5;

/// How far an input was read.
#[derive(Clone, Debug)]
pub struct InputEnd {
    /// Its records' topic id.
    pub id: TopicId,
    /// Where it is.
    pub path: PathBuf,
    /// What was read of it, from its beginning on; `None` of a stream.
    pub read: Option<ReadBytes>,
    /// Records that were read in this run.
    pub records: u64,
    /// Those of them that cannot be decoded.
    pub dead: u64,
    /// Whether this run read it from its beginning.
    pub is_all: bool,
    /// Why it could not be read to its end.
    pub unreadable: Option<String>,
}

/// The ends of all inputs, filled in by the threads that read them.
#[derive(Clone, Debug, Default)]
pub struct InputEnds(Arc<Mutex<Vec<InputEnd>>>);

impl InputEnds {
    pub(super) fn push(&self, end: InputEnd) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(end);
    }

    /// Takes what is there.
    #[must_use]
    pub fn take(&self) -> Vec<InputEnd> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A question about the format of an input, where nearly none of its records can be decoded. `is_all`: these are all its
/// records, and not only those that it has grown by.
#[must_use]
pub fn format_hint(name: &str, written: &str, (records, dead): (u64, u64), is_all: bool) -> Option<String> {
    // A file of lines that begin no record is a single one.
    let is_suspicious = dead * 10 >= records * 9 && (dead >= SUSPICIOUS_MIN || (is_all && dead > 0));
    is_suspicious.then(|| {
        format!("{name}: {dead} of its {records} records cannot be read: is --format right? (`{written}` was used)")
    })
}

#[cfg(test)]
mod tests {
    use super::format_hint;

    #[test]
    fn nearly_all_records_dead_make_one_ask_for_the_format() {
        let asks = |records, dead, is_all| format_hint("x", "ndjson, zone UTC", (records, dead), is_all).is_some();
        assert!(asks(5, 5, false) && asks(100, 90, false) && asks(1, 1, true));
        assert!(!asks(1, 1, false) && !asks(100, 89, true) && !asks(0, 0, true));
    }
}
