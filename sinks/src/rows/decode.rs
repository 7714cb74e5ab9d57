//! Bytes to rows, for stores that do not read `RowBinary` themselves.

use super::encode::{DEAD_LETTER_HEAD, OCCURRENCE_HEAD};
use floodmark_model::{
    Coordinates, DeadLetter, DeadReason, EventTime, Fingerprint, Identity, Level, Occurrence, RecordTime, TopicId,
};
use std::borrow::Cow;

/// The bytes are not what `encode` writes. Rows never leave the process between the two, so this is a defect or a
/// damaged memory: stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed row: {0}")]
pub struct MalformedRow(pub &'static str);

/// Reads rows of `occurrences` or `unmatched`, borrowing from `bytes`.
#[must_use]
pub fn decode_occurrences(bytes: &[u8]) -> Occurrences<'_> {
    Occurrences { cursor: Cursor { rest: bytes } }
}

/// Reads rows of `dead_letters`, borrowing from `bytes`.
#[must_use]
pub fn decode_dead_letters(bytes: &[u8]) -> DeadLetters<'_> {
    DeadLetters { cursor: Cursor { rest: bytes } }
}

/// Iterator over encoded occurrences; ends after the first malformed row.
#[derive(Clone, Debug)]
pub struct Occurrences<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Occurrences<'a> {
    type Item = Result<Occurrence<'a>, MalformedRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next_row(occurrence)
    }
}

/// Iterator over encoded dead letters; ends after the first malformed row.
#[derive(Clone, Debug)]
pub struct DeadLetters<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Iterator for DeadLetters<'a> {
    type Item = Result<DeadLetter<'a>, MalformedRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next_row(dead_letter)
    }
}

fn occurrence<'a>(cursor: &mut Cursor<'a>) -> Result<Occurrence<'a>, MalformedRow> {
    let mut head = Cursor { rest: cursor.take(OCCURRENCE_HEAD)? };
    let fingerprint = Fingerprint::from_bits(u128::from_le_bytes(head.array()?));
    let ts = EventTime(i64::from_le_bytes(head.array()?));
    let identity = Identity(u128::from_le_bytes(head.array()?));
    let _version: [u8; 16] = head.array()?;
    let (at, record_time) = head.place()?;
    let [level, ts_missing, ts_clamped] = head.array()?;
    Ok(Occurrence {
        fingerprint,
        ts,
        identity,
        at,
        // A row does not say; SQLite, which alone reads rows back, is not backfilled through a topic.
        origin: None,
        record_time,
        level: Level::from_number(level).ok_or(MalformedRow("no such level"))?,
        ts_missing: ts_missing != 0,
        ts_clamped: ts_clamped != 0,
        tenant: cursor.text()?,
        ts_original: cursor.text()?,
        service: cursor.text()?,
        host: cursor.text()?,
        source: cursor.text()?,
        kind: cursor.text()?,
        template_id: cursor.text()?,
        event_id: cursor.text()?,
        message: cursor.text()?,
        exception_type: cursor.text()?,
        raw: Cow::Borrowed(cursor.bytes()?),
    })
}

fn dead_letter<'a>(cursor: &mut Cursor<'a>) -> Result<DeadLetter<'a>, MalformedRow> {
    let mut head = Cursor { rest: cursor.take(DEAD_LETTER_HEAD)? };
    let (at, record_time) = head.place()?;
    let reason = cursor.text()?;
    let reason = DeadReason::ALL.into_iter().find(|known| known.name() == reason);
    Ok(DeadLetter {
        at,
        record_time,
        reason: reason.ok_or(MalformedRow("no such reason"))?,
        detail: cursor.text()?,
        raw: cursor.bytes()?,
    })
}

/// What is left of the encoded rows.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn next_row<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T, MalformedRow>,
    ) -> Option<Result<T, MalformedRow>> {
        if self.rest.is_empty() {
            return None;
        }
        let row = decode(self);
        if row.is_err() {
            self.rest = &[];
        }
        Some(row)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], MalformedRow> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(MalformedRow("cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedRow> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(MalformedRow("cut off"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn place(&mut self) -> Result<(Coordinates, RecordTime), MalformedRow> {
        let mut topic_id: [u8; 16] = self.array()?;
        topic_id[..8].reverse();
        topic_id[8..].reverse();
        let partition = i32::from_le_bytes(self.array()?);
        let offset = i64::from_le_bytes(self.array()?);
        let record_time = RecordTime(i64::from_le_bytes(self.array()?));
        Ok((Coordinates { topic_id: TopicId(topic_id), partition, offset }, record_time))
    }

    fn length(&mut self) -> Result<usize, MalformedRow> {
        let mut length = 0u64;
        for shift in (0..63).step_by(7) {
            let [byte] = self.array()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(length).map_err(|_| MalformedRow("length too great"));
            }
        }
        Err(MalformedRow("length too great"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], MalformedRow> {
        let length = self.length()?;
        self.take(length)
    }

    fn text(&mut self) -> Result<Cow<'a, str>, MalformedRow> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| MalformedRow("text is not UTF-8"))
    }
}
