//! From paths and patterns to files that the store knows: each one is new, or has grown since it was read.

use super::BackfillError;
use crate::input::files::{Known, NamedFile, OpenError, named_files, refuse_alike, which};
use floodmark_model::RecordTime;
use floodmark_sinks::postgres::{BackfillInput, PostgresStore};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A file, and what is known of it.
pub struct BackfillFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) input: BackfillInput,
}

/// The files of a backfill.
#[derive(Default)]
pub struct BackfillFiles {
    /// Those that can be read.
    pub files: Vec<BackfillFile>,
    /// How many bytes these have on disk.
    pub disk_bytes: u64,
    /// Those of which nothing can be read, and why.
    pub unreadable: Vec<String>,
}

/// Finds the files that paths and patterns name, and tells the store of new ones. `written` says in words how they are
/// read; with `again` each counts as a new input, whatever is known of it.
///
/// # Errors
///
/// A pattern finds nothing, a file cannot be opened, two files cannot be told apart, or one is not what was read of it
/// before.
pub async fn find(
    store: &PostgresStore,
    patterns: &[String],
    (written, again): (&str, bool),
    now: RecordTime,
) -> Result<BackfillFiles, BackfillError> {
    let usage = |error: OpenError| BackfillError::Usage(error.to_string());
    if patterns.iter().any(|pattern| pattern == "-") {
        let why = "-: standard input cannot be read again after a kill, so no backfill reads it: write it to a file, \
                   and give that file";
        return Err(BackfillError::Usage(why.into()));
    }
    let named = named_files("FILE", patterns).map_err(usage)?;
    refuse_alike("FILE", &named.files).map_err(usage)?;
    let mut inputs = Vec::new();
    for file in &named.files {
        inputs.push(if again { None } else { known_input(store, file, written).await? });
    }
    refuse_twice(&inputs)?;
    let mut found = BackfillFiles { unreadable: named.unreadable, ..BackfillFiles::default() };
    for (file, known) in named.files.into_iter().zip(inputs) {
        found.disk_bytes += file.disk_bytes;
        let name = named_in_full(&file);
        let input = match known {
            Some(known) => known,
            None => {
                if !again {
                    refuse_replaced(store, &name, &file.head).await?;
                }
                let Some(added) = store.add_file(&name, &file.head, now).await? else { continue };
                added
            }
        };
        found.files.push(BackfillFile { path: file.path, name, input });
    }
    Ok(found)
}

async fn known_input(
    store: &PostgresStore,
    file: &NamedFile,
    written: &str,
) -> Result<Option<BackfillInput>, BackfillError> {
    let name = named_in_full(file);
    let mut alike = store.files_alike(&file.head).await?;
    alike.sort_by_key(|input| input.name != name);
    let known = |input| {
        let BackfillInput { name, written, read, .. }: &BackfillInput = input;
        Known { name, written: written.as_deref(), read: *read }
    };
    let known: Vec<Known<'_>> = alike.iter().map(known).collect();
    let index = which(&file.path, written, &known).map_err(|why| {
        BackfillError::Usage(format!(
            "{name}: {why}. Put lines that you corrected into a file of their own; --again counts the whole file as a \
             new input"
        ))
    })?;
    Ok(index.map(|index| alike.swap_remove(index)))
}

fn refuse_twice(inputs: &[Option<BackfillInput>]) -> Result<(), BackfillError> {
    let mut taken = BTreeSet::new();
    match inputs.iter().flatten().find(|input| !taken.insert(input.key)) {
        None => Ok(()),
        Some(input) => Err(BackfillError::Usage(format!(
            "two files begin as {} did when it was first read: leave one of them out",
            input.name
        ))),
    }
}

/// The same wherever the command runs, and whatever link leads there.
fn named_in_full(file: &NamedFile) -> String {
    file.path.canonicalize().unwrap_or_else(|_| file.path.clone()).display().to_string()
}

/// What was corrected in its first bytes is not known by them, but by its name.
async fn refuse_replaced(store: &PostgresStore, name: &str, head: &[u8]) -> Result<(), BackfillError> {
    if !store.was_another_file(name, head).await? {
        return Ok(());
    }
    Err(BackfillError::Usage(format!(
        "{name}: what was read under this name before began otherwise. If lines of it were corrected, all others would \
         count twice: put the corrected ones into a file of their own. If it is another file, such as a rotated log, \
         --again counts the whole of it as a new input"
    )))
}
