//! From what `--input` names to inputs that the store knows.

use super::known::{Known, which};
use super::named::{NamedFile, named_files, refuse_alike};
use super::stream::Stream;
use super::{Input, Source, start_offset};
use crate::pipeline::stop::Stop;
use floodmark_model::RecordTime;
use floodmark_model::progress::Progress;
use floodmark_sinks::sqlite::{InputFile, SqliteStore};
use floodmark_sinks::{IncidentStore, StoreError};
use std::collections::BTreeSet;
use std::path::Path;

/// How the inputs are named for the store.
pub struct FileSettings<'a> {
    /// What named them, for messages.
    pub flag: &'a str,
    /// Paths, glob patterns, or `-` for standard input.
    pub patterns: &'a [String],
    /// How their records are read; see [`super::written`].
    pub written: &'a str,
    /// Every file counts as a new input, whatever is known of it.
    pub again: bool,
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
    /// Files of which nothing can be read, and why.
    pub unreadable: Vec<String>,
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
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}

/// Finds the inputs, and tells the store of them.
///
/// # Errors
///
/// When a pattern finds nothing, a file cannot be read, two files cannot be told apart, or a file is not what was read
/// of it before.
pub async fn find(store: &SqliteStore, settings: FileSettings<'_>) -> Result<Found, OpenError> {
    let named = named_files(settings.flag, settings.patterns)?;
    refuse_alike(settings.flag, &named.files)?;
    let stored = store.inputs().await?;
    if !settings.again {
        refuse_doubles(&settings, &named.files, &stored)?;
    }
    let known = known_inputs(store, &settings, &named.files).await?;
    let mut found = Found { inputs: Vec::new(), bytes: Some(0), unreadable: named.unreadable };
    for (NamedFile { path, head, disk_bytes }, known) in named.files.into_iter().zip(known) {
        found.bytes = found.bytes.map(|sum| sum + disk_bytes);
        let input = match known {
            Some(known) => known,
            None => {
                note_replaced(&path, &head, &stored);
                let Some(added) = store.add_input(&path, &head, settings.now).await? else { continue };
                added
            }
        };
        store.note_input(input.id, &path, settings.written, None).await?;
        let source = Source::File { first_read: input.first_read };
        found.inputs.push(Input { id: input.id, name: path, source });
    }
    if settings.patterns.iter().any(|pattern| pattern == "-") {
        found.bytes = None;
        let failed = |error| OpenError::usage(format!("{} -: {error}", settings.flag));
        let stream = Stream::standard_input().map_err(failed)?;
        found.inputs.extend(stream_input(store, stream, Path::new("-"), &settings).await?);
    }
    Ok(found)
}

/// For each file the input that it is; `None` for a new one.
async fn known_inputs(
    store: &SqliteStore,
    settings: &FileSettings<'_>,
    files: &[NamedFile],
) -> Result<Vec<Option<InputFile>>, OpenError> {
    let (progress, mut known, mut taken) = (store.progress().await?, Vec::new(), BTreeSet::new());
    for file in files {
        let input = match settings.again {
            true => None,
            false => known_input(store, settings, file, &progress).await?,
        };
        if input.as_ref().is_some_and(|input| !taken.insert(input.id)) {
            return Err(OpenError::usage(format!(
                "{} {}: it begins as another file of this run did when it was first read: read them into stores of \
                 their own",
                settings.flag,
                file.path.display()
            )));
        }
        known.push(input);
    }
    Ok(known)
}

async fn known_input(
    store: &SqliteStore,
    settings: &FileSettings<'_>,
    file: &NamedFile,
    progress: &Progress,
) -> Result<Option<InputFile>, OpenError> {
    let mut alike = store.inputs_alike(&file.path, &file.head).await?;
    // Of what was never read the format does not matter.
    let was_read = |input: &InputFile| input.read.is_some() || start_offset(progress, input.id) > 0;
    let known = |input: &InputFile| -> Option<String> { input.written.clone().filter(|_| was_read(input)) };
    let formats: Vec<Option<String>> = alike.iter().map(known).collect();
    let known = alike.iter().zip(&formats).map(|(input, written)| Known {
        name: &input.path,
        written: written.as_deref(),
        read: input.read,
    });
    let known: Vec<Known<'_>> = known.collect();
    let index = which(&file.path, settings.written, &known).map_err(|why| {
        let (flag, path) = (settings.flag, file.path.display());
        OpenError::usage(format!("{flag} {path}: {why}. {ADVICE}"))
    })?;
    Ok(index.map(|index| alike.swap_remove(index)))
}

/// What to do with a file that is refused, in the embedded store.
const ADVICE: &str = "Put lines that you corrected into a file of their own; to count the whole file as a new input, run \
                      `floodmark backfill --embedded --again` on it";

/// A rotated log has another one's name: that is as it should be, and still worth a word.
fn note_replaced(path: &Path, head: &[u8], stored: &[InputFile]) {
    let name = path.display().to_string();
    let mut named = stored.iter().filter(|input| input.path == name).peekable();
    if named.peek().is_some() && !named.any(|input| input.begins(head)) {
        tracing::warn!(
            file = name,
            "it begins otherwise than the file that was read under this name: read as a new one"
        );
    }
}

/// A stream as an input; `None` when it ends without a byte, or `stop` says so before the first.
///
/// # Errors
///
/// When the store does not answer, or a stream that begins so was read in another format.
pub async fn stream_input(
    store: &SqliteStore,
    mut stream: Stream,
    name: &Path,
    settings: &FileSettings<'_>,
) -> Result<Option<Input>, OpenError> {
    let head = stream.head(settings.stop).to_vec();
    let Some(known) = store.identify(name, &head, settings.now).await? else { return Ok(None) };
    if known.written.as_ref().is_some_and(|before| before != settings.written) {
        let before = known.written.unwrap_or_default();
        return Err(OpenError::usage(format!(
            "{} {}: it was read before as `{before}`, and would now be read as `{}`: read it into another store",
            settings.flag,
            name.display(),
            settings.written
        )));
    }
    store.note_input(known.id, name, settings.written, None).await?;
    Ok(Some(Input { id: known.id, name: name.to_owned(), source: Source::Stream(stream) }))
}

/// A file that was read before is known by its first bytes, wherever it is now; but not while the other is still there,
/// and begins with them too.
fn refuse_doubles(settings: &FileSettings<'_>, files: &[NamedFile], known: &[InputFile]) -> Result<(), OpenError> {
    for NamedFile { path, head, .. } in files {
        let is_there = |input: &&InputFile| {
            let now = NamedFile::open(Path::new(&input.path));
            input.begins(head) && now.is_ok_and(|(now, _)| input.begins(&now.head))
        };
        let mut alike = known.iter().filter(is_there).map(|input| Path::new(&input.path));
        if let Some(other) = alike.next().filter(|other| is_another_file(other, path))
            && !alike.any(|other| !is_another_file(other, path))
        {
            let (path, other) = (path.display(), other.display());
            return Err(OpenError::usage(format!(
                "{} {path}: it begins as {other} did, which was read into this store and is still there: read it into \
                 another store. {ADVICE}",
                settings.flag
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
