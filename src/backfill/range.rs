//! Which records of a topic: `--from` and `--to`.

use super::BackfillError;
use floodmark_kafka::{Topic, Topics};
use floodmark_model::RecordTime;
use floodmark_model::time::{EffectiveTime, RawTime, Zone};

/// Where a range of a topic begins or ends, in every partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this offset.
    Offset(i64),
    /// At the first record with this record time or a later one.
    Time(RecordTime),
}

impl Place {
    /// Reads a flag: digits are an offset, everything else is a time.
    ///
    /// # Errors
    ///
    /// Neither of both.
    pub fn read(flag: &str, text: &str) -> Result<Self, BackfillError> {
        if let Ok(offset) = text.parse::<i64>()
            && offset >= 0
        {
            return Ok(Self::Offset(offset));
        }
        let read = EffectiveTime::new(&RawTime::Text(text.into()), RecordTime(0), i64::MAX, &Zone::UTC);
        if read.missing || text.parse::<f64>().is_ok() {
            return Err(BackfillError::Usage(format!(
                "{flag} {text}: want an offset such as 1200, or a time such as 2026-01-31T12:00:00Z"
            )));
        }
        Ok(Self::Time(RecordTime(read.time.0)))
    }

    /// The offset in each partition.
    pub(super) fn offsets(self, topics: &Topics, topic: &Topic, partitions: i32) -> Result<Vec<i64>, BackfillError> {
        Ok(match self {
            Self::Offset(offset) => (0..partitions).map(|_| offset).collect(),
            Self::Time(time) => topics.offsets_at(topic, partitions, time)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_an_offset_and_text_is_a_time() {
        assert_eq!(Place::read("--from", "1200").unwrap(), Place::Offset(1_200));
        assert_eq!(Place::read("--from", "1970-01-01T00:00:01Z").unwrap(), Place::Time(RecordTime(1_000)));
        for wrong in ["yesterday", "-5", "1.5", ""] {
            assert!(matches!(Place::read("--to", wrong), Err(BackfillError::Usage(_))), "{wrong}");
        }
    }
}
