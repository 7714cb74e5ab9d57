//! One SQLite file as both stores: the embedded default (design, decision 14).
//!
//! *Durability.* A call that returned is on the disk, also when the power fails: write-ahead log with
//! `synchronous = FULL`, which costs one sync a call. (`NORMAL` would lose the last calls with the power. Files would
//! be read again, but what was accepted over HTTP or read from a pipe exists nowhere else, G-1.) One call is one
//! transaction, so a kill at any instant leaves all of it or nothing.
//!
//! *One writer.* A lock file beside the store admits one writing process, and the generation in `pipeline` fences
//! whoever held it before (decision 8). Readers of other processes go on while an engine writes.
//!
//! *Threads.* SQLite blocks, so every call runs on the runtime's blocking pool. There are two connections: a writer,
//! and a reader whose long queries do not hold up the writer.
//!
//! *Memory.* Counts, events and the other unbounded answers are streamed in batches of bounded number.

mod calls;
mod classify;
mod columns;
mod conditions;
mod history;
mod incidents;
mod inputs;
mod insert;
mod inspect;
mod keys;
mod ledger;
mod lock;
mod open;
mod pipeline;
mod recover;
mod rules;
mod schema;
mod stores;
mod text;
mod totals;

pub use crate::inputs::{InputFile, ReadBytes, find_alike};

use crate::StoreError;
use floodmark_model::{RecordTime, TopicId};
use lock::WriterLock;
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The store's name in messages and metrics.
const STORE: &str = "sqlite";

/// An open store; its schema is this version's. A clone shares it.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    file: Arc<File>,
}

/// The connections, and the lock that outlives them: fields are dropped in order.
#[derive(Debug)]
struct File {
    /// For messages.
    path: String,
    writer: Mutex<Connection>,
    /// `None`: the writer reads as well.
    reader: Option<Mutex<Connection>>,
    _lock: Option<WriterLock>,
}

impl SqliteStore {
    /// Opens the store at `path` for writing, and creates (mode 0600) or migrates it where needed. Blocks.
    ///
    /// # Errors
    ///
    /// [`Failure::Permanent`] when another process writes it, the file is not floodmark's or a newer version's, or it
    /// cannot be opened or created; the message says what to do.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let shown = path.display().to_string();
        open::for_writing(path).map(|file| Self { file: Arc::new(file) }).map_err(|t| t.into_error("open", &shown))
    }

    /// Opens the store at `path` for reading, also while an engine writes it. Writes through it fail. Blocks.
    ///
    /// # Errors
    ///
    /// [`Failure::Permanent`] when there is no such store, or it is not of this version.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let shown = path.display().to_string();
        open::for_reading(path).map(|file| Self { file: Arc::new(file) }).map_err(|t| t.into_error("open", &shown))
    }

    /// Opens an empty store that ends with the process.
    ///
    /// # Errors
    ///
    /// When SQLite cannot allocate it.
    pub fn open_in_memory() -> Result<Self, StoreError> {
        open::in_memory().map(|file| Self { file: Arc::new(file) }).map_err(|t| t.into_error("open", "memory"))
    }

    /// Which input a file is whose first bytes are `head` (at most [`InputFile::HEAD_BYTES_MAX`] of them count):
    /// a known one where its stored first bytes are the same, first of all the one at this path (it has grown), else
    /// any (it was renamed); or a new one, first read `now`. `None` for an empty file, which cannot be told from
    /// others yet.
    ///
    /// Two files of one run must not begin alike; see [`find_alike`].
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn identify(&self, path: &Path, head: &[u8], now: RecordTime) -> Result<Option<InputFile>, StoreError> {
        let path = path.display().to_string();
        let head = head[..head.len().min(InputFile::HEAD_BYTES_MAX)].to_vec();
        self.write("identify an input", move |transaction| inputs::identify(transaction, path, &head, now)).await
    }

    /// The known inputs whose stored first bytes `head` begins with: those at `path` first, then those of which most
    /// first bytes are known, then the newest.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn inputs_alike(&self, path: &Path, head: &[u8]) -> Result<Vec<InputFile>, StoreError> {
        let (path, head) = (path.display().to_string(), head.to_vec());
        self.read("read inputs", move |reader| inputs::alike(reader, &path, &head)).await
    }

    /// Stores a new input, though another one may begin alike. `None` for an empty one.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn add_input(&self, path: &Path, head: &[u8], now: RecordTime) -> Result<Option<InputFile>, StoreError> {
        let path = path.display().to_string();
        let head = head[..head.len().min(InputFile::HEAD_BYTES_MAX)].to_vec();
        self.write("add an input", move |transaction| inputs::add(transaction, path, &head, now)).await
    }

    /// Notes where an input is, how its records are read, and what was read of it; `None` leaves that as it is.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn note_input(
        &self,
        id: TopicId,
        path: &Path,
        written: &str,
        read: Option<ReadBytes>,
    ) -> Result<(), StoreError> {
        let (path, written) = (path.display().to_string(), written.to_owned());
        self.write("note an input", move |transaction| inputs::note(transaction, id, &path, &written, read)).await
    }

    /// Every known input, in the order of its first reading.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn inputs(&self) -> Result<Vec<InputFile>, StoreError> {
        self.read("read inputs", inputs::all).await
    }
}
