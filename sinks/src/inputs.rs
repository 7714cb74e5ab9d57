//! Files that have been read: which one a file is, by its first bytes (design, decision 14).

use floodmark_model::identity::KeyHasher;
use floodmark_model::{RecordTime, TopicId};

/// How much of a file was read, and what that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBytes {
    /// So many bytes from its beginning, decompressed.
    pub bytes: u64,
    /// Their hash.
    pub hash: u128,
}

/// An input as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Its records' topic id: the hash of its first bytes, or for a further input that begins alike another one.
    pub id: TopicId,
    /// Hash of its first bytes.
    pub head_id: TopicId,
    /// How many bytes that are: what there was at the first reading, at most [`Self::HEAD_BYTES_MAX`].
    pub head_bytes: u16,
    /// Where it was last seen.
    pub path: String,
    /// The moment of its first reading: the record time of all its records.
    pub first_read: RecordTime,
    /// How its records were read: format, zone and mapping; `None` where nobody noted it.
    pub written: Option<String>,
    /// What was read of it; `None` where nobody noted it.
    pub read: Option<ReadBytes>,
}

impl InputFile {
    /// How many of a file's first bytes tell it from others, at most.
    pub const HEAD_BYTES_MAX: usize = 4_096;

    /// Whether a file with these first bytes begins as this one did.
    #[must_use]
    pub fn begins(&self, head: &[u8]) -> bool {
        head.get(..self.head_bytes.into()).is_some_and(|beginning| id_of(beginning) == self.head_id)
    }
}

/// Two of these first bytes of files that begin alike, by index: one is the beginning of the other, so that they
/// cannot be told apart once the shorter file grows. Empty ones are passed over.
///
/// A run refuses such files, and also two that are found to be the same stored input: both begin with the bytes that
/// are stored for it.
#[must_use]
pub fn find_alike(heads: &[&[u8]]) -> Option<(usize, usize)> {
    let head = |index: usize| &heads[index][..heads[index].len().min(InputFile::HEAD_BYTES_MAX)];
    let mut order: Vec<usize> = (0..heads.len()).filter(|&index| !heads[index].is_empty()).collect();
    order.sort_by_key(|&index| head(index));
    // In this order all that begin with a head follow it, without a gap.
    order
        .windows(2)
        .find(|pair| head(pair[1]).starts_with(head(pair[0])))
        .map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1])))
}

/// Length of a head, which is at most [`InputFile::HEAD_BYTES_MAX`]; `None` of an empty one.
pub(crate) fn length(head: &[u8]) -> Option<u16> {
    u16::try_from(head.len()).ok().filter(|&length| length > 0)
}

pub(crate) fn id_of(head: &[u8]) -> TopicId {
    let mut key = KeyHasher::new("file");
    key.field(Some(head));
    TopicId(key.finish().to_be_bytes())
}

/// The id of one more input that begins with the same bytes as `known` others.
pub(crate) fn further_id_of(head_id: TopicId, known: u64) -> TopicId {
    let mut key = KeyHasher::new("file again");
    key.field(Some(&head_id.0));
    key.field(Some(&known.to_le_bytes()));
    TopicId(key.finish().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::find_alike;

    #[test]
    fn a_file_that_begins_another_is_found_wherever_it_stands() {
        assert_eq!(find_alike(&[b"b1", b"a", b"b2"]), None);
        assert_eq!(find_alike(&[b"b1", b"a", b"b"]), Some((0, 2)));
        assert_eq!(find_alike(&[b"same", b"other", b"same"]), Some((0, 2)));
        assert_eq!(find_alike(&[b"", b"", b"a"]), None, "empty files are not read");
        assert_eq!(find_alike(&[b"a", b"ab", b"ac"]), Some((0, 1)));
    }

    #[test]
    fn only_the_first_4_kib_count() {
        let mut one = vec![b'x'; 5_000];
        let mut two = one.clone();
        one[4_500] = b'1';
        two[4_500] = b'2';
        assert_eq!(find_alike(&[&one, &two]), Some((0, 1)));
        two[4_000] = b'2';
        assert_eq!(find_alike(&[&one, &two]), None);
    }
}
