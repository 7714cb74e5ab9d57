//! How far each input of a run was read, and what was odd about it.

use floodmark_model::TopicId;
use floodmark_sinks::inputs::ReadBytes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Fewer records of a file that cannot be read say nothing of its format.
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

/// A question about the format of an input, where nearly none of its records can be decoded.
#[must_use]
pub fn format_hint(name: &str, written: &str, records: u64, dead: u64) -> Option<String> {
    let is_suspicious = dead >= SUSPICIOUS_MIN && dead * 10 >= records * 9;
    is_suspicious.then(|| {
        format!("{name}: {dead} of its {records} records cannot be read: is --format right? (`{written}` was used)")
    })
}

#[cfg(test)]
mod tests {
    use super::format_hint;

    #[test]
    fn nearly_all_records_dead_make_one_ask_for_the_format() {
        let asks = |records, dead| format_hint("x", "ndjson, zone UTC", records, dead).is_some();
        assert!(asks(5, 5) && asks(100, 90));
        assert!(!asks(1, 1) && !asks(100, 89) && !asks(0, 0));
    }
}
