//! From a path to connections, touching nothing that is not floodmark's.

use super::classify::Trouble;
use super::lock::WriterLock;
use super::{File, schema};
use rusqlite::{Connection, OpenFlags};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// How long a statement waits for another process's lock. In WAL mode those are held for moments only.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Statements a connection keeps compiled; more than there are.
const STATEMENTS_MAX: usize = 64;

/// Settings of the writer that last for a connection, each with its reason:
/// `synchronous`: see the module above. `wal_autocheckpoint`: the log goes to the file every 16,000 pages (64 MiB)
/// instead of every 1,000, since pages written twice meanwhile are copied once. `journal_size_limit`: a log that a long
/// read let grow shrinks again. `cache_size`: 64 MiB, what one index needs for the rows of a few windows.
const WRITER_SETTINGS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 16000;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -65536;
";

/// A reader's: what it can do is read. It opens the file for writing all the same where it may, since the last
/// connection to close a store must be able to clear its log away.
const READER_SETTINGS: &str = "PRAGMA query_only = ON";

/// Each connection is used by one thread at a time; its mutex is ours.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

pub(super) fn for_writing(path: &Path) -> Result<File, Trouble> {
    let path = create_and_resolve(path)?;
    let lock = WriterLock::take(&path)?;
    let mut writer = connect(&path)?;
    // Before any setting, since switching to WAL writes to the file.
    schema::check(&writer)?;
    writer.execute_batch(WRITER_SETTINGS)?;
    schema::migrate(&mut writer)?;
    let reader = connect(&path)?;
    reader.execute_batch(READER_SETTINGS)?;
    Ok(File {
        path: path.display().to_string(),
        writer: Mutex::new(writer),
        reader: Some(Mutex::new(reader)),
        _lock: Some(lock),
    })
}

pub(super) fn for_reading(path: &Path) -> Result<File, Trouble> {
    if !path.is_file() {
        return Err(Trouble::Refused(
            "there is no such store: `floodmark run --embedded --store FILE` makes one".into(),
        ));
    }
    let path = resolve(path)?;
    let reader = connect(&path)?;
    reader.execute_batch(READER_SETTINGS)?;
    schema::check_current(&reader)?;
    Ok(File { path: path.display().to_string(), writer: Mutex::new(reader), reader: None, _lock: None })
}

pub(super) fn in_memory() -> Result<File, Trouble> {
    let mut writer = settled(Connection::open_in_memory()?)?;
    schema::migrate(&mut writer)?;
    Ok(File { path: "memory".into(), writer: Mutex::new(writer), reader: None, _lock: None })
}

/// Resolves links, so that two names of one file have one lock.
fn create_and_resolve(path: &Path) -> Result<PathBuf, Trouble> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    super::lock::owner_only(&mut options);
    match options.open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(Trouble::Refused(format!(
                "cannot create it: {error}; check that the folder exists and that this user may write it"
            )));
        }
    }
    if path.is_dir() {
        return Err(Trouble::Refused("this is a folder: name a file in it".into()));
    }
    resolve(path)
}

/// An absolute path is also one that SQLite does not read as a `file:` URI with options of its own.
fn resolve(path: &Path) -> Result<PathBuf, Trouble> {
    path.canonicalize().map_err(|error| Trouble::Refused(format!("cannot resolve the path: {error}")))
}

fn connect(path: &Path) -> Result<Connection, Trouble> {
    settled(Connection::open_with_flags(path, FLAGS)?)
}

fn settled(connection: Connection) -> Result<Connection, Trouble> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // A file from elsewhere may hold views and triggers: they may call nothing with side effects.
    connection.execute_batch("PRAGMA trusted_schema = OFF")?;
    Ok(connection)
}
