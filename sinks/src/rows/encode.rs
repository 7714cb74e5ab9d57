//! Rows to bytes. The order of the columns is that of `OCCURRENCE_COLUMNS` and `DEAD_LETTER_COLUMNS`.

use floodmark_model::identity::{row_version, row_version_of_backfilled};
use floodmark_model::{DeadLetter, Occurrence, TopicId};

/// Bytes of the columns of fixed width that an occurrence begins with.
pub(super) const OCCURRENCE_HEAD: usize = 95;

/// Bytes of the columns of fixed width that a dead letter begins with.
pub(super) const DEAD_LETTER_HEAD: usize = 36;

/// The longest length prefix.
const PREFIX_MAX: usize = 10;

/// Appends a row of `occurrences` or `unmatched`.
pub(super) fn occurrence(bytes: &mut Vec<u8>, occurrence: &Occurrence<'_>) {
    let texts: [&[u8]; 11] = [
        occurrence.tenant.as_bytes(),
        occurrence.ts_original.as_bytes(),
        occurrence.service.as_bytes(),
        occurrence.host.as_bytes(),
        occurrence.source.as_bytes(),
        occurrence.kind.as_bytes(),
        occurrence.template_id.as_bytes(),
        occurrence.event_id.as_bytes(),
        occurrence.message.as_bytes(),
        occurrence.exception_type.as_bytes(),
        &occurrence.raw,
    ];

    let mut head = Head::<OCCURRENCE_HEAD>::new();
    head.put(occurrence.fingerprint.bits().to_le_bytes());
    head.put(occurrence.ts.0.to_le_bytes());
    head.put(occurrence.identity.0.to_le_bytes());
    let version = match occurrence.origin {
        None => row_version(occurrence.record_time, occurrence.at),
        Some(_) => row_version_of_backfilled(occurrence.record_time, occurrence.at),
    };
    head.put(version.to_le_bytes());
    head.put(uuid(occurrence.at.topic_id));
    head.put(occurrence.at.partition.to_le_bytes());
    head.put(occurrence.at.offset.to_le_bytes());
    head.put(occurrence.record_time.0.to_le_bytes());
    head.put([occurrence.level as u8, u8::from(occurrence.ts_missing), u8::from(occurrence.ts_clamped)]);
    row(bytes, &head.finish(), &texts);
}

/// Appends a row of `dead_letters`.
pub(super) fn dead_letter(bytes: &mut Vec<u8>, letter: &DeadLetter<'_>) {
    let raw = &letter.raw[..letter.raw.len().min(DeadLetter::RAW_BYTES_MAX)];
    let mut head = Head::<DEAD_LETTER_HEAD>::new();
    head.put(uuid(letter.at.topic_id));
    head.put(letter.at.partition.to_le_bytes());
    head.put(letter.at.offset.to_le_bytes());
    head.put(letter.record_time.0.to_le_bytes());
    row(bytes, &head.finish(), &[letter.reason.name().as_bytes(), letter.detail.as_bytes(), raw]);
}

/// A UUID as ClickHouse reads one: two little-endian halves, the high one first.
fn uuid(id: TopicId) -> [u8; 16] {
    let mut bytes = id.0;
    bytes[..8].reverse();
    bytes[8..].reverse();
    bytes
}

fn row(bytes: &mut Vec<u8>, head: &[u8], texts: &[&[u8]]) {
    bytes.reserve(head.len() + texts.iter().map(|text| PREFIX_MAX + text.len()).sum::<usize>());
    bytes.extend_from_slice(head);
    for text in texts {
        length(bytes, text.len());
        bytes.extend_from_slice(text);
    }
}

/// LEB128: seven bits a byte, least first.
fn length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

/// The columns of fixed width of one row.
struct Head<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Head<N> {
    fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    fn put<const M: usize>(&mut self, column: [u8; M]) {
        self.bytes[self.len..self.len + M].copy_from_slice(&column);
        self.len += M;
    }

    fn finish(self) -> [u8; N] {
        debug_assert_eq!(self.len, N, "every column of the head is written");
        self.bytes
    }
}
