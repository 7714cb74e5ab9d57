//! Identity (section 2 of `semantics.md`): which records are the same occurrence.

use crate::RecordTime;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use xxhash_rust::xxh3::xxh3_128;

/// Kafka's id of a topic (not its name: a topic created anew under the same name has another one, I-1), or for a
/// file the hash of its first bytes (design, decision 14).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicId(pub [u8; 16]);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = u128::from_be_bytes(self.0);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            n >> 96,
            (n >> 80) & 0xffff,
            (n >> 64) & 0xffff,
            (n >> 48) & 0xffff,
            n & 0xffff_ffff_ffff
        )
    }
}

/// Text that is no topic id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("want an id as 8-4-4-4-12 hex digits")]
pub struct TopicIdError;

impl FromStr for TopicId {
    type Err = TopicIdError;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, TopicIdError> {
        let is_in_place = |(place, byte): (usize, u8)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        if text.len() != 36 || !text.bytes().enumerate().all(is_in_place) {
            return Err(TopicIdError);
        }
        let bits = u128::from_str_radix(&text.replace('-', ""), 16).map_err(|_| TopicIdError)?;
        Ok(Self(bits.to_be_bytes()))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a record stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coordinates {
    /// Topic id, or file id.
    pub topic_id: TopicId,
    /// Partition; 0 for a file.
    pub partition: i32,
    /// Offset; the byte offset of the record for a file.
    pub offset: i64,
}

/// What makes an occurrence distinct: (tenant, `event_id`) where the client gave one (I-2), else the record's
/// coordinates (I-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity(pub u128);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Identity {
    /// I-2: the identity of a record with an `event_id`.
    #[must_use]
    pub fn of_event(tenant: &str, event_id: &str) -> Self {
        let mut key = KeyHasher::new("event");
        key.field(Some(tenant.as_bytes()));
        key.field(Some(event_id.as_bytes()));
        Self(key.finish())
    }

    /// I-1: the identity of a record without one.
    #[must_use]
    pub fn of_record(at: Coordinates) -> Self {
        let mut key = KeyHasher::new("record");
        key.field(Some(&at.topic_id.0));
        key.field(Some(&at.partition.to_le_bytes()));
        key.field(Some(&at.offset.to_le_bytes()));
        Self(key.finish())
    }
}

/// The version under which a row is stored: of two records with one identity the one with the least
/// (record time, partition, offset) has the greatest version, and stays (design, decision 5).
#[must_use]
pub fn row_version(record_time: RecordTime, at: Coordinates) -> u128 {
    // Record time shifted to be unsigned keeps its order; 48 bits hold every time until the year 10889.
    let time = (record_time.0.clamp(-(1 << 47), (1 << 47) - 1) + (1 << 47)) as u128;
    let partition = u128::from(at.partition.max(0) as u32 & 0xffff);
    let offset = u128::from(at.offset.max(0) as u64);
    !((time << 80) | (partition << 64) | offset)
}

/// [`row_version`] of a record that was backfilled and stands at `at` in the backfill topic: of the records of one
/// identity and record time it stays only where no other does, so that a row which is committed is not replaced by one
/// that is not yet.
#[must_use]
pub fn row_version_of_backfilled(record_time: RecordTime, at: Coordinates) -> u128 {
    row_version(record_time, Coordinates { partition: 0xffff, ..at })
}

/// Hashes a tuple of optional fields: each is length-prefixed with a presence tag, so `("a|b", "c")` and
/// `("a", "b|c")` differ, and an absent field differs from an empty one.
///
/// Short keys, which is nearly all of them, are hashed from the stack in one go.
pub struct KeyHasher {
    inline: [u8; INLINE],
    inline_len: usize,
    spilled: Vec<u8>,
}

/// Bytes of a key that need no allocation.
const INLINE: usize = 240;

impl KeyHasher {
    /// Starts a key of the given kind; keys of different kinds never meet.
    #[must_use]
    pub fn new(kind: &str) -> Self {
        let mut key = Self { inline: [0; INLINE], inline_len: 0, spilled: Vec::new() };
        key.field(Some(kind.as_bytes()));
        key
    }

    /// Adds one field.
    pub fn field(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.push(&[0]),
            Some(bytes) => {
                let mut header = [1; 9];
                header[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
                self.push(&header);
                self.push(bytes);
            }
        }
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let end = self.inline_len + bytes.len();
        if self.spilled.is_empty() && end <= INLINE {
            self.inline[self.inline_len..end].copy_from_slice(bytes);
            self.inline_len = end;
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.inline_len]);
        }
        self.spilled.extend_from_slice(bytes);
    }

    /// The 128-bit hash (XXH3).
    #[must_use]
    pub fn finish(self) -> u128 {
        if self.spilled.is_empty() { xxh3_128(&self.inline[..self.inline_len]) } else { xxh3_128(&self.spilled) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32, offset: i64) -> Coordinates {
        Coordinates { topic_id: TopicId([7; 16]), partition, offset }
    }

    #[test]
    fn delimiters_in_keys_join_nothing() {
        assert_ne!(Identity::of_event("a|b", "c"), Identity::of_event("a", "b|c"));
        assert_ne!(Identity::of_event("ab", ""), Identity::of_event("a", "b"));
    }

    #[test]
    fn an_absent_field_differs_from_an_empty_one() {
        let hash = |field: Option<&[u8]>| {
            let mut key = KeyHasher::new("t");
            key.field(field);
            key.finish()
        };
        assert_ne!(hash(None), hash(Some(b"")));
    }

    #[test]
    fn the_least_record_time_partition_and_offset_has_the_greatest_version() {
        let base = row_version(RecordTime(1_000), at(3, 50));
        assert!(row_version(RecordTime(999), at(9, 99)) > base);
        assert!(row_version(RecordTime(1_000), at(2, 99)) > base);
        assert!(row_version(RecordTime(1_000), at(3, 49)) > base);
        assert!(row_version(RecordTime(-5), at(3, 50)) > base);
        assert_eq!(row_version(RecordTime(1_000), at(3, 50)), base);
    }

    #[test]
    fn a_backfilled_row_stays_only_where_no_other_of_its_record_time_does() {
        let version = row_version_of_backfilled(RecordTime(1_000), at(0, 5));
        assert!(row_version(RecordTime(1_000), at(30_000, 1 << 40)) > version);
        assert!(row_version(RecordTime(1_001), at(0, 0)) < version, "the least record time first");
        assert!(row_version_of_backfilled(RecordTime(1_000), at(9, 6)) < version, "then who came first");
    }

    #[test]
    fn a_topic_id_is_read_as_it_is_shown() {
        let id = TopicId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "0", "00010203-0405-0607-0809-0a0b0c0d0eg0", "000102030405-0607-0809-0a0b0c0d0eff-"] {
            assert_eq!(wrong.parse::<TopicId>(), Err(TopicIdError));
        }
    }

    #[test]
    fn a_long_key_hashes_like_the_same_bytes_in_one_go() {
        let long = "x".repeat(1_000);
        let hash = |fields: &[&str]| {
            let mut key = KeyHasher::new("t");
            fields.iter().for_each(|field| key.field(Some(field.as_bytes())));
            key.finish()
        };
        assert_eq!(hash(&[&long, "a"]), hash(&[&long, "a"]));
        assert_ne!(hash(&[&long, "a"]), hash(&[&long, "b"]));
        assert_ne!(hash(&["a", &long]), hash(&[&long, "a"]));
    }

    #[test]
    fn coordinates_make_identities() {
        assert_ne!(Identity::of_record(at(0, 1)), Identity::of_record(at(1, 0)));
        let other_topic = Coordinates { topic_id: TopicId([8; 16]), ..at(0, 1) };
        assert_ne!(Identity::of_record(at(0, 1)), Identity::of_record(other_topic));
    }
}
