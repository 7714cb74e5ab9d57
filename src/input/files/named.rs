//! From paths and patterns to files and their first bytes.

use super::OpenError;
use super::compressed::Bytes;
use floodmark_sinks::inputs::{InputFile, find_alike};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A file that was named.
pub struct NamedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its first bytes, decompressed.
    pub head: Vec<u8>,
    /// Its size on disk.
    pub disk_bytes: u64,
}

impl NamedFile {
    /// A file with its first bytes, as far as they can be read, and why not further.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Option<io::Error>)> {
        let bytes = Bytes::open(path, |_| {})?;
        let (mut head, disk_bytes) = (Vec::new(), bytes.disk_bytes);
        let trouble = bytes.take(InputFile::HEAD_BYTES_MAX as u64).read_to_end(&mut head).err();
        Ok((Self { path: path.to_owned(), head, disk_bytes }, trouble))
    }
}

/// The files that were named.
#[derive(Default)]
pub struct Named {
    /// Those of which something can be read.
    pub files: Vec<NamedFile>,
    /// Those of which nothing can, as archives that are cut off, and why.
    pub unreadable: Vec<String>,
}

/// The files that paths and patterns name, with their first bytes; `flag` is what named them. Empty ones are left out.
///
/// # Errors
///
/// A pattern finds nothing, or a file cannot be opened.
pub fn named_files(flag: &str, patterns: &[String]) -> Result<Named, OpenError> {
    let mut named = Named::default();
    for path in paths(flag, patterns)? {
        let shown = path.display();
        let (file, trouble) = NamedFile::open(&path)
            .map_err(|error| OpenError::usage(format!("{flag} {shown}: {error}: check that this user may read it")))?;
        match trouble {
            _ if !file.head.is_empty() => named.files.push(file),
            Some(error) => named.unreadable.push(format!("{shown}: nothing of it can be read: {error}")),
            None => tracing::warn!(file = %shown, "the file is empty: nothing to read"),
        }
    }
    Ok(named)
}

fn paths(flag: &str, patterns: &[String]) -> Result<BTreeSet<PathBuf>, OpenError> {
    let mut paths = BTreeSet::new();
    for pattern in patterns.iter().filter(|pattern| *pattern != "-") {
        if Path::new(pattern).is_file() {
            paths.insert(PathBuf::from(pattern));
            continue;
        }
        let found = glob::glob(pattern)
            .map_err(|error| OpenError::usage(format!("{flag} {pattern}: not a pattern: {error}")))?;
        let found: Vec<PathBuf> =
            found.collect::<Result<_, _>>().map_err(|error| OpenError::usage(format!("{flag} {pattern}: {error}")))?;
        let files: Vec<PathBuf> = found.into_iter().filter(|path| path.is_file()).collect();
        let is_empty = files.is_empty();
        paths.extend(files);
        if is_empty {
            let stream = if flag == "--input" { ", or - for standard input" } else { "" };
            return Err(OpenError::usage(format!(
                "{flag} {pattern}: no file is found: name files, a pattern such as 'logs/*.log'{stream}"
            )));
        }
    }
    Ok(paths)
}

/// Refuses files that begin alike: they cannot be told apart.
///
/// # Errors
///
/// Two of them do.
pub fn refuse_alike(flag: &str, files: &[NamedFile]) -> Result<(), OpenError> {
    let heads: Vec<&[u8]> = files.iter().map(|file| file.head.as_slice()).collect();
    let Some((one, other)) = find_alike(&heads) else { return Ok(()) };
    let (one, other) = (files[one].path.display(), files[other].path.display());
    Err(OpenError::usage(format!(
        "{flag}: {one} and {other} begin alike, and files are known by their first {} bytes: if one is a copy, leave \
         it out; else read them into stores of their own",
        InputFile::HEAD_BYTES_MAX
    )))
}
