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
            // No record is older than 1970, and a negative number means something else to Kafka.
            Self::Time(time) => topics.offsets_at(topic, partitions, RecordTime(time.0.max(0)))?,
        })
    }
}

/// Whether a range can hold anything of partitions that hold the offsets `low..high`.
///
/// # Errors
///
/// It cannot, in words.
pub(super) fn wanted_at_all((from, to): (Option<Place>, Option<Place>), held: &[(i64, i64)]) -> Result<(), String> {
    let is_backwards = match (from, to) {
        (Some(Place::Offset(from)), Some(Place::Offset(to))) => from >= to,
        (Some(Place::Time(from)), Some(Place::Time(to))) => from >= to,
        _ => false,
    };
    if is_backwards {
        return Err("--from is not before --to".to_owned());
    }
    let is_beyond = |offset: i64| held.iter().all(|(_, high)| offset >= *high);
    match (from, to) {
        (Some(Place::Offset(offset)), _) if is_beyond(offset) => {
            Err(format!("--from {offset}: this offset is beyond the end{}", time_hint(offset)))
        }
        (_, Some(Place::Offset(offset))) if is_beyond(offset) && !time_hint(offset).is_empty() => {
            Err(format!("--to {offset}: this offset is beyond the end{}", time_hint(offset)))
        }
        _ => Ok(()),
    }
}

/// Where an offset looks like a time in seconds or milliseconds: how that is written.
fn time_hint(offset: i64) -> String {
    let time_ms = match offset {
        1_000_000_000..10_000_000_000 => offset * 1_000,
        100_000_000_000.. => offset,
        _ => return String::new(),
    };
    let stamp = jiff::Timestamp::from_millisecond(time_ms);
    stamp.map_or_else(|_| String::new(), |stamp| format!(" (if it is a time, write it as {stamp:.3})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_can_hold_nothing_is_refused_with_a_hint_where_an_offset_looks_like_a_time() {
        let (offset, time) = (|n| Some(Place::Offset(n)), |ms| Some(Place::Time(RecordTime(ms))));
        let refused = |from, to| wanted_at_all((from, to), &[(0, 10), (5, 20)]).err().unwrap_or_default();
        assert_eq!(refused(offset(0), offset(10)), "");
        assert_eq!(refused(offset(19), None), "");
        assert_eq!(refused(offset(3), offset(1_000)), "", "up to what there is");
        assert_eq!(refused(time(-5), time(5)), "");
        assert!(refused(offset(7), offset(5)).contains("not before --to"));
        assert!(refused(time(7), time(7)).contains("not before --to"));
        assert_eq!(refused(offset(20), None), "--from 20: this offset is beyond the end");
        assert!(refused(offset(1_796_138_400_000), None).contains("2026-12-01T15:20:00.000Z"));
        assert!(refused(None, offset(1_796_138_400)).contains("--to") && refused(None, offset(99)).is_empty());
    }

    #[test]
    fn digits_are_an_offset_and_text_is_a_time() {
        assert_eq!(Place::read("--from", "1200").unwrap(), Place::Offset(1_200));
        assert_eq!(Place::read("--from", "1970-01-01T00:00:01Z").unwrap(), Place::Time(RecordTime(1_000)));
        for wrong in ["yesterday", "-5", "1.5", ""] {
            assert!(matches!(Place::read("--to", wrong), Err(BackfillError::Usage(_))), "{wrong}");
        }
    }
}
