//! Which known input a file is: one that begins with its first bytes, of which everything that was read is still there,
//! and that was read in the same format.

use super::compressed::Bytes;
use super::prefix::Prefix;
use crate::config::Config;
use floodmark_model::identity::KeyHasher;
use floodmark_model::wire::text::TextFormat;
use floodmark_sinks::inputs::ReadBytes;
use std::path::Path;

/// An input that begins as a file does.
pub struct Known<'a> {
    /// Where it was last seen.
    pub name: &'a str,
    /// How its records were read, where that is known.
    pub written: Option<&'a str>,
    /// What was read of it, where that is known.
    pub read: Option<ReadBytes>,
}

/// How records of a file are read, in words: what changes identity, time or fields of its records.
#[must_use]
pub fn written(config: &Config, format: Option<&TextFormat>) -> String {
    let zone = config.time.zone.iana_name().unwrap_or("UTC");
    match (format, &config.mapping) {
        (Some(format), _) => format!("{format}, zone {zone}"),
        (None, None) => format!("ndjson, zone {zone}"),
        (None, Some(mapping)) => {
            let mut key = KeyHasher::new("mapping");
            key.field(Some(format!("{mapping:?}").as_bytes()));
            format!("ndjson, zone {zone}, mapping {:08x}", key.finish() >> 96)
        }
    }
}

/// The index of the input that the file at `path` is, of those that begin as it does; `None` where there is none. The
/// first that fits is taken.
///
/// # Errors
///
/// In words, without a hint what to do: the file is another one from some byte on, or was read in another format.
pub fn which(path: &Path, written: &str, known: &[Known<'_>]) -> Result<Option<usize>, String> {
    let Some(first) = known.first() else { return Ok(None) };
    let is_there = still_there(path, known);
    let mut there = (0..known.len()).filter(|index| is_there[*index]).peekable();
    let Some(other) = there.peek().copied() else {
        let bytes = first.read.map_or(0, |read| read.bytes);
        return Err(format!(
            "it begins as {} did, of which {bytes} bytes were read, but these bytes are not the same any more: every \
             record behind the change would count twice",
            first.name
        ));
    };
    let fits = there.find(|index| known[*index].written.is_none_or(|before| before == written));
    let before = known[other].written.unwrap_or_default();
    fits.map(Some).ok_or_else(|| {
        format!(
            "it was read before as `{before}`, and would now be read as `{written}`: its records would count twice, or \
             not at all"
        )
    })
}

/// For each input whether what was read of it is still there.
fn still_there(path: &Path, known: &[Known<'_>]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by_key(|&index| known[index].read.map(|read| read.bytes));
    let mut is_there = vec![false; known.len()];
    let (mut prefix, mut bytes) = (Prefix::default(), Bytes::open(path, |_| {}));
    for index in order {
        is_there[index] = known[index].read.is_none_or(|read| {
            let reached = bytes.as_mut().is_ok_and(|bytes| prefix.read_on(bytes, read.bytes).is_ok());
            reached && prefix.read() == read
        });
    }
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read_of(path: &Path, bytes: u64, written: &'static str) -> Known<'static> {
        Known { name: "old", written: Some(written), read: Some(Prefix::of_file(path, bytes).unwrap().read()) }
    }

    #[test]
    fn a_file_that_grew_is_known_and_one_that_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one\ntwo\n").unwrap();
        let known = [read_of(&path, 8, "a")];
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(which(&path, "a", &known), Ok(Some(0)));
        assert!(which(&path, "b", &known).unwrap_err().contains("read before as `a`"));
        for changed in ["one\ntwO\nthree\n", "one\n", ""] {
            fs::write(&path, changed).unwrap();
            assert!(which(&path, "a", &known).unwrap_err().contains("8 bytes"), "{changed:?}");
        }
        assert_eq!(which(&path, "a", &[]), Ok(None));
    }

    #[test]
    fn of_several_that_begin_alike_the_one_is_taken_that_is_still_there_and_read_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one\ntwO\n").unwrap();
        let old = read_of(&path, 8, "a");
        fs::write(&path, "one\ntwo\n").unwrap();
        let known = [old, read_of(&path, 8, "b"), read_of(&path, 4, "a")];
        assert_eq!(which(&path, "b", &known), Ok(Some(1)));
        assert_eq!(which(&path, "a", &known), Ok(Some(2)));
        let unknown = [Known { name: "x", written: None, read: None }];
        assert_eq!(which(&path, "a", &unknown), Ok(Some(0)), "noted by an earlier release");
    }
}
