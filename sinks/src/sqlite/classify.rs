//! What can go wrong with the file, classified once.

use crate::rows::MalformedRow;
use crate::{Failure, Generation, StoreError};
use rusqlite::ErrorCode;

/// A failure on its way to a [`StoreError`], which adds the action and the path.
#[derive(Debug)]
pub(super) enum Trouble {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// A row that this process encoded cannot be decoded.
    Malformed(MalformedRow),
    /// The pipeline has been taken over.
    Fenced { own: Generation, stored: Generation },
    /// What the file holds, or where it lies, forbids it.
    Refused(String),
    /// The caller of a streamed read has gone.
    Abandoned,
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<MalformedRow> for Trouble {
    fn from(error: MalformedRow) -> Self {
        Self::Malformed(error)
    }
}

impl Trouble {
    pub(super) fn into_error(self, action: &'static str, path: &str) -> StoreError {
        let (failure, said) = match self {
            Self::Sqlite(error) => {
                let (failure, advice) = classify(&error);
                (failure, if advice.is_empty() { error.to_string() } else { format!("{error}; {advice}") })
            }
            Self::Malformed(error) => (Failure::Permanent, error.to_string()),
            Self::Fenced { own: Generation(own), stored: Generation(stored) } => {
                (Failure::Fenced, format!("taken over: generation {stored} writes it, this process has {own}"))
            }
            Self::Refused(why) => (Failure::Permanent, why),
            Self::Abandoned => (Failure::Transient, "the reader of the answer has gone".into()),
        };
        StoreError { store: super::STORE, action, failure, detail: format!("{path}: {said}") }
    }
}

/// What the caller should do, and what a person can do.
///
/// Transient is what ends by itself or by an operator's hand while the process waits: a lock that another process
/// holds for a moment, a full disk, an interrupted call. A failed read or write is permanent: after a failed sync
/// nobody knows what the disk holds, and only a new start reads it again.
fn classify(error: &rusqlite::Error) -> (Failure, &'static str) {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted) => {
            (Failure::Transient, "")
        }
        Some(ErrorCode::DiskFull) => {
            (Failure::Transient, "nothing more is read until there is space: free some, and work goes on by itself")
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            Failure::Permanent,
            "the file is damaged: keep a copy, restore a backup or salvage it with `sqlite3 FILE .recover`, or read \
             the inputs again into a new file",
        ),
        Some(ErrorCode::NotADatabase) => {
            (Failure::Permanent, "it is no floodmark store: name another file, nothing was changed")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (Failure::Permanent, "check that the folder exists and that this user may write it")
        }
        Some(ErrorCode::ReadOnly) => {
            (Failure::Permanent, "it is open for reading only, or this user may not write the file or its folder")
        }
        Some(ErrorCode::SystemIoFailure) => {
            (Failure::Permanent, "the disk failed: check it, then start again; all that was acknowledged is kept")
        }
        _ => (Failure::Permanent, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn failure(code: i32) -> StoreError {
        Trouble::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).into_error("insert rows", "store.db")
    }

    #[test]
    fn a_busy_file_and_a_full_disk_are_worth_waiting_for() {
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_FULL] {
            assert!(failure(code).is_transient(), "code {code}");
        }
        assert!(failure(ffi::SQLITE_FULL).to_string().contains("free some"));
    }

    #[test]
    fn a_damaged_or_foreign_file_stops_and_says_what_to_do() {
        for (code, advice) in [
            (ffi::SQLITE_CORRUPT, "restore a backup"),
            (ffi::SQLITE_NOTADB, "name another file"),
            (ffi::SQLITE_IOERR_FSYNC, "start again"),
            (ffi::SQLITE_READONLY, "may not write"),
            (ffi::SQLITE_CANTOPEN, "check that the folder exists"),
        ] {
            let error = failure(code);
            assert_eq!(error.failure, Failure::Permanent, "code {code}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn a_message_says_what_where_and_who() {
        let trouble = Trouble::Fenced { own: Generation(3), stored: Generation(4) };
        let error = trouble.into_error("commit progress", "store.db");
        assert_eq!(error.failure, Failure::Fenced);
        assert_eq!(
            error.to_string(),
            "sqlite: commit progress: store.db: taken over: generation 4 writes it, this process has 3"
        );
    }
}
