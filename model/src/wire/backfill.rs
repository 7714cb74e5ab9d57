//! What a record of the backfill topic says beside its value (design, decision 13): headers that name the record it
//! stands for, the time that one had, and how its value is written.
//!
//! | header | value |
//! | --- | --- |
//! | `floodmark-origin` | `<topic id or file id>/<partition>/<offset>`, of the record that it stands for |
//! | `floodmark-record-time` | the record time of that one, in milliseconds since 1970 |
//! | `floodmark-format` | of a line of a text log: its format, as `--format` takes it; absent: JSON |
//! | `floodmark-zone` | IANA name of the zone of times without one; absent: the configured one |
//!
//! The value is the record as it was found, byte for byte: so it decodes to the same occurrence wherever it is read,
//! and what is stored as raw is what somebody wrote.

use super::Rejected;
use crate::{Coordinates, DeadReason, Identity, Occurrence, RecordTime, TopicId};
use std::str::FromStr;

/// Header that names the record this one stands for.
pub const ORIGIN_HEADER: &str = "floodmark-origin";
/// Header with the record time of that one.
pub const RECORD_TIME_HEADER: &str = "floodmark-record-time";
/// Header with the format of the value.
pub const FORMAT_HEADER: &str = "floodmark-format";
/// Header with the zone of times without one.
pub const ZONE_HEADER: &str = "floodmark-zone";

/// Longest header that is read, in bytes: a format may be a regular expression.
pub const HEADER_BYTES_MAX: usize = 8 * 1024;

/// What the headers of one record say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    /// The record it stands for; `None` for one that stands for itself.
    pub origin: Option<Coordinates>,
    /// The record time of the origin; `None` where that had none.
    pub record_time: Option<RecordTime>,
    /// The format of its value, as text.
    pub format: Option<&'a str>,
    /// The zone of times without one.
    pub zone: Option<&'a str>,
}

impl<'a> Headers<'a> {
    /// Reads them; `find` gives the value of a header.
    ///
    /// # Errors
    /// `bad_header`: one that is too long, or is not what it should be.
    pub fn read(find: impl Fn(&str) -> Option<&'a [u8]>) -> Result<Self, Rejected> {
        let text = |name: &'static str| find(name).map(|value| header_text(name, value)).transpose();
        let origin = text(ORIGIN_HEADER)?.map(|value| read_origin(value).ok_or_else(|| bad(ORIGIN_HEADER, value)));
        let record_time =
            text(RECORD_TIME_HEADER)?.map(|value| value.parse().map_err(|_| bad(RECORD_TIME_HEADER, value)));
        Ok(Self {
            origin: origin.transpose()?,
            record_time: record_time.transpose()?.map(RecordTime),
            format: text(FORMAT_HEADER)?,
            zone: text(ZONE_HEADER)?,
        })
    }

    /// The headers with their values, for a producer.
    #[must_use]
    pub fn written(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut written = Vec::new();
        if let Some(Coordinates { topic_id, partition, offset }) = self.origin {
            written.push((ORIGIN_HEADER, format!("{topic_id}/{partition}/{offset}").into_bytes()));
        }
        if let Some(RecordTime(time)) = self.record_time {
            written.push((RECORD_TIME_HEADER, time.to_string().into_bytes()));
        }
        written.extend(self.format.map(|format| (FORMAT_HEADER, format.as_bytes().to_vec())));
        written.extend(self.zone.map(|zone| (ZONE_HEADER, zone.as_bytes().to_vec())));
        written
    }
}

/// The rejection of a header.
#[must_use]
pub fn bad(name: &str, value: &str) -> Rejected {
    let excerpt: String = value.chars().take(80).collect();
    Rejected::new(DeadReason::BadHeader, format!("header {name}: {excerpt:?} cannot be read"))
}

fn header_text<'a>(name: &str, value: &'a [u8]) -> Result<&'a str, Rejected> {
    if value.len() > HEADER_BYTES_MAX {
        let detail = format!("header {name} has {} bytes; at most {HEADER_BYTES_MAX}", value.len());
        return Err(Rejected::new(DeadReason::BadHeader, detail));
    }
    std::str::from_utf8(value).map_err(|_| Rejected::new(DeadReason::BadHeader, format!("header {name} is not UTF-8")))
}

fn read_origin(text: &str) -> Option<Coordinates> {
    let mut parts = text.split('/');
    let mut next = || parts.next();
    let at = Coordinates {
        topic_id: TopicId::from_str(next()?).ok()?,
        partition: next()?.parse().ok().filter(|partition| *partition >= 0)?,
        offset: next()?.parse().ok().filter(|offset| *offset >= 0)?,
    };
    next().is_none().then_some(at)
}

/// An occurrence that stands for the record at `origin`: it is the same occurrence as that one, unless its client's
/// own id says which one it is (I-2).
#[must_use]
pub fn standing_for<'a>(occurrence: Occurrence<'a>, origin: Coordinates) -> Occurrence<'a> {
    let identity = if occurrence.event_id.is_empty() { Identity::of_record(origin) } else { occurrence.identity };
    Occurrence { identity, origin: Some(origin), ..occurrence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawRecord;
    use crate::wire::{DecodeSettings, json};

    const T: TopicId = TopicId([7; 16]);
    const B: TopicId = TopicId([8; 16]);

    fn at(topic_id: TopicId, partition: i32, offset: i64) -> Coordinates {
        Coordinates { topic_id, partition, offset }
    }

    fn read(pairs: &[(&str, Vec<u8>)]) -> Result<Headers<'static>, Rejected> {
        let pairs: Vec<(String, &'static [u8])> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), &*value.clone().leak())).collect();
        Headers::read(|name| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| *value))
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        for headers in [
            Headers::default(),
            Headers {
                origin: Some(at(T, 3, 1 << 40)),
                record_time: Some(RecordTime(-5)),
                format: Some("log4j"),
                zone: Some("Europe/Berlin"),
            },
        ] {
            assert_eq!(read(&headers.written()), Ok(headers));
        }
    }

    #[test]
    fn g2_a_header_that_cannot_be_read_is_a_reason_and_no_guess() {
        let id = T.to_string();
        for (name, value) in [
            (ORIGIN_HEADER, String::new()),
            (ORIGIN_HEADER, id.clone()),
            (ORIGIN_HEADER, format!("{id}/1")),
            (ORIGIN_HEADER, format!("{id}/1/2/3")),
            (ORIGIN_HEADER, format!("{id}/-1/2")),
            (ORIGIN_HEADER, format!("{id}/1/-2")),
            (ORIGIN_HEADER, format!("{}/1/2", &id[1..])),
            (ORIGIN_HEADER, format!("é{}/1/2", &id[2..])),
            (RECORD_TIME_HEADER, "soon".into()),
            (FORMAT_HEADER, "x".repeat(HEADER_BYTES_MAX + 1)),
        ] {
            let rejected = read(&[(name, value.clone().into_bytes())]).expect_err(&value);
            assert_eq!(rejected.reason, DeadReason::BadHeader);
            assert!(rejected.detail.contains(name), "{rejected}");
        }
        assert!(read(&[(ZONE_HEADER, vec![0xff])]).is_err());
    }

    fn decoded(payload: &'static str, at: Coordinates) -> Occurrence<'static> {
        let raw = RawRecord { at, record_time: RecordTime(1_000), payload: Some(payload.as_bytes()) };
        json::decode(raw, &DecodeSettings::default()).expect("it is one")
    }

    #[test]
    fn i1_a_backfilled_record_is_the_occurrence_that_it_was_when_it_was_read_live() {
        let payload = r#"{"message":"x"}"#;
        let (live, again) = (decoded(payload, at(T, 1, 5)), decoded(payload, at(B, 0, 77)));
        assert_ne!(again.identity, live.identity);
        let again = standing_for(again, at(T, 1, 5));
        assert_eq!(again.identity, live.identity);
        assert_eq!(again.at, at(B, 0, 77), "progress goes by where it was read");
    }

    #[test]
    fn i2_the_clients_own_id_goes_before_the_origin() {
        let payload = r#"{"message":"x","event_id":"e1"}"#;
        let live = decoded(payload, at(T, 1, 5));
        assert_eq!(standing_for(decoded(payload, at(B, 0, 77)), at(T, 1, 5)).identity, live.identity);
    }
}
