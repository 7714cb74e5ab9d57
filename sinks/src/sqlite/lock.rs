//! One writing process a store.
//!
//! The lock lies on a file of its own, `FILE-lock`: a second handle on the store itself would, when it closes, drop
//! the locks that SQLite holds on it for the whole process. The kernel releases it when the process ends, however it
//! ends, so the file that stays behind means nothing.

use super::classify::Trouble;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Held for as long as it lives.
#[derive(Debug)]
pub(super) struct WriterLock {
    _file: File,
}

/// More than the digits of any process id.
const HOLDER_BYTES_MAX: u64 = 32;

impl WriterLock {
    /// Takes the lock of the store at `path`, an absolute path without links.
    pub(super) fn take(path: &Path) -> Result<Self, Trouble> {
        let lock_path = beside(path);
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Trouble::Refused(format!("cannot {what} the lock file {}: {error}", lock_path.display()))
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        owner_only(&mut options);
        let mut file = options.open(&lock_path).map_err(|error| cannot("open", &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held_by(&mut file)),
            Err(TryLockError::Error(error)) => return Err(cannot("lock", &error)),
        }
        // Who holds it, for the message that the next one gets.
        file.set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()))
            .map_err(|error| cannot("write", &error))?;
        Ok(Self { _file: file })
    }
}

fn held_by(file: &mut File) -> Trouble {
    let mut holder = String::new();
    let read = file.rewind().and_then(|()| file.take(HOLDER_BYTES_MAX).read_to_string(&mut holder));
    let holder = match read {
        Ok(1..) => format!("process {holder}"),
        _ => "another process".into(),
    };
    Trouble::Refused(format!(
        "{holder} writes this store: stop it first, or name another file; `floodmark totals` and `floodmark incidents` \
         can read it meanwhile"
    ))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    name.into()
}

/// Makes a new file readable by its owner alone: occurrences hold what applications log. (SQLite gives its log and
/// index files the mode of the store.)
#[cfg(unix)]
pub(super) fn owner_only(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
pub(super) fn owner_only(_options: &mut OpenOptions) {}
