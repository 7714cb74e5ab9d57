//! From what `--input` names to inputs that the store knows.

use super::compressed::Bytes;
use super::stream::Stream;
use super::{Input, Source};
use crate::pipeline::stop::Stop;
use floodmark_model::RecordTime;
use floodmark_sinks::StoreError;
use floodmark_sinks::sqlite::{InputFile, SqliteStore, find_alike};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// How the inputs are named for the store.
pub struct FileSettings<'a> {
    /// Paths, glob patterns, or `-` for standard input.
    pub patterns: &'a [String],
    /// The moment of the first reading of inputs that are new.
    pub now: RecordTime,
    /// Ends the waiting for the first bytes of a stream.
    pub stop: &'a Stop,
}

/// What was found.
pub struct Found {
    /// The inputs.
    pub inputs: Vec<Input>,
    /// Their size in bytes, where all are files.
    pub bytes: Option<u64>,
}

/// Why inputs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The arguments are wrong.
    #[error("{0}")]
    Usage(String),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}

/// Finds the inputs, and tells the store of them.
///
/// # Errors
///
/// When a pattern finds nothing, a file cannot be read, or two files cannot be told apart.
pub async fn find(store: &SqliteStore, settings: FileSettings<'_>) -> Result<Found, OpenError> {
    let mut found = Found { inputs: Vec::new(), bytes: Some(0) };
    let mut heads = Vec::new();
    let files = named_files("--input", settings.patterns)?;
    refuse_alike("--input", &files)?;
    for file in files {
        found.bytes = found.bytes.map(|sum| sum + file.disk_bytes);
        heads.push((file.path, file.head));
    }
    refuse_doubles(&heads, &store.inputs().await?)?;
    let mut known = BTreeSet::new();
    for (path, head) in heads {
        if let Some(InputFile { id, first_read, .. }) = store.identify(&path, &head, settings.now).await? {
            if !known.insert(id) {
                let path = path.display();
                return Err(OpenError::usage(format!(
                    "--input {path}: it begins as another file of this run did when it was first read: read them into \
                     stores of their own"
                )));
            }
            found.inputs.push(Input { id, name: path, source: Source::File { first_read } });
        }
    }
    if settings.patterns.iter().any(|pattern| pattern == "-") {
        found.bytes = None;
        let stream = Stream::standard_input().map_err(|error| OpenError::usage(format!("--input -: {error}")))?;
        found.inputs.extend(stream_input(store, stream, Path::new("-"), settings.now, settings.stop).await?);
    }
    Ok(found)
}

/// A stream as an input; `None` when it ends without a byte, or `stop` says so before the first.
///
/// # Errors
///
/// When the store does not answer.
pub async fn stream_input(
    store: &SqliteStore,
    mut stream: Stream,
    name: &Path,
    now: RecordTime,
    stop: &Stop,
) -> Result<Option<Input>, OpenError> {
    let head = stream.head(stop).to_vec();
    let known = store.identify(name, &head, now).await?;
    Ok(known.map(|known| Input { id: known.id, name: name.to_owned(), source: Source::Stream(stream) }))
}

/// A file that was read before is known by its first bytes, wherever it is now; but not while the other is still there,
/// and begins with them too.
fn refuse_doubles(heads: &[(PathBuf, Vec<u8>)], known: &[InputFile]) -> Result<(), OpenError> {
    for (path, head) in heads {
        let is_there = |input: &&InputFile| {
            let now = self::head(Path::new(&input.path));
            input.begins(head) && now.is_ok_and(|now| input.begins(&now.head))
        };
        let mut alike = known.iter().filter(is_there).map(|input| Path::new(&input.path));
        if let Some(other) = alike.next().filter(|other| is_another_file(other, path))
            && !alike.any(|other| !is_another_file(other, path))
        {
            let (path, other) = (path.display(), other.display());
            return Err(OpenError::usage(format!(
                "--input {path}: it begins as {other} did, which was read into this store and is still there: read it \
                 into another store"
            )));
        }
    }
    Ok(())
}

/// Whether both are there, and are not one file by two names.
fn is_another_file(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.canonicalize(), other.canonicalize());
    one.is_ok_and(|one| one.is_file() && other.is_ok_and(|other| one != other))
}

/// A file that was named.
pub struct NamedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its first bytes, decompressed.
    pub head: Vec<u8>,
    /// Its size on disk.
    pub disk_bytes: u64,
}

/// The files that paths and patterns name, with their first bytes; `flag` is what named them. Empty ones are left out.
///
/// # Errors
///
/// A pattern finds nothing, or a file cannot be read.
pub fn named_files(flag: &str, patterns: &[String]) -> Result<Vec<NamedFile>, OpenError> {
    let mut files = Vec::new();
    for path in paths(flag, patterns)? {
        let file = head(&path).map_err(|error| {
            OpenError::usage(format!("{flag} {}: {error}: check that this user may read it", path.display()))
        })?;
        if file.head.is_empty() {
            tracing::warn!(file = %path.display(), "the file is empty: nothing to read");
            continue;
        }
        files.push(file);
    }
    Ok(files)
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
            return Err(OpenError::usage(format!(
                "{flag} {pattern}: no file is found: name files, a pattern such as 'logs/*.log', or - for standard input"
            )));
        }
    }
    Ok(paths)
}

/// The first bytes of a file, and its size.
fn head(path: &Path) -> io::Result<NamedFile> {
    let bytes = Bytes::open(path, |_| {})?;
    let (mut head, disk_bytes) = (Vec::new(), bytes.disk_bytes);
    bytes.take(InputFile::HEAD_BYTES_MAX as u64).read_to_end(&mut head)?;
    Ok(NamedFile { path: path.to_owned(), head, disk_bytes })
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
