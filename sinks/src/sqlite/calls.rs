//! From async calls to SQLite, which blocks: each runs on the runtime's blocking pool.

use super::classify::Trouble;
use super::{SqliteStore, pipeline, schema};
use crate::{Failure, Generation, StoreError};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Rows that a streamed answer hands over at once.
const BATCH_ROWS: usize = 1_024;

impl SqliteStore {
    pub(super) async fn migrate_schema(&self) -> Result<(), StoreError> {
        let file = Arc::clone(&self.file);
        join(self.spawn("migrate", move || schema::migrate(&mut held(&file.writer)))).await
    }

    pub(super) async fn answers(&self) -> Result<(), StoreError> {
        self.read("ping", |reader| Ok(reader.query_row("SELECT 1", [], |_| Ok(()))?)).await
    }

    /// Runs `work` in one transaction of the writer.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = Arc::clone(&self.file);
        join(self.spawn(action, move || {
            let mut connection = held(&file.writer);
            // Takes the write lock at once: a transaction that reads first could find it taken in the middle.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let answer = work(&transaction)?;
            transaction.commit()?;
            Ok(answer)
        }))
        .await
    }

    /// Runs `work` in one transaction of the writer that `generation` may still write.
    pub(super) async fn write_as<T: Send + 'static>(
        &self,
        generation: Generation,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write(action, move |transaction| {
            pipeline::check_generation(transaction, generation)?;
            work(transaction)
        })
        .await
    }

    /// Runs `work` in one snapshot of the reader.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        join(self.spawn_read(action, work)).await
    }

    /// Like [`Self::read`], for an answer of any length: `each` is called here for what `work` hands out there.
    pub(super) async fn stream<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection, &mut Handout<T>) -> Result<(), Trouble> + Send + 'static,
        mut each: impl FnMut(T) + Send,
    ) -> Result<(), StoreError> {
        let (sender, mut receiver) = mpsc::channel(2);
        let reading = self.spawn_read(action, move |reader| {
            let mut handout = Handout { sender, batch: Vec::new() };
            work(reader, &mut handout)?;
            handout.flush()
        });
        while let Some(batch) = receiver.recv().await {
            batch.into_iter().for_each(&mut each);
        }
        join(reading).await
    }

    fn spawn_read<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> JoinHandle<Result<T, StoreError>> {
        let file = Arc::clone(&self.file);
        self.spawn(action, move || {
            let mut connection = held(file.reader.as_ref().unwrap_or(&file.writer));
            let snapshot = connection.transaction()?;
            work(&snapshot)
        })
    }

    fn spawn<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
    ) -> JoinHandle<Result<T, StoreError>> {
        let file = Arc::clone(&self.file);
        spawn_blocking(move || work().map_err(|trouble| trouble.into_error(action, &file.path)))
    }
}

/// Where a streamed query puts its rows.
pub(super) struct Handout<T> {
    sender: mpsc::Sender<Vec<T>>,
    batch: Vec<T>,
}

impl<T> Handout<T> {
    pub(super) fn put(&mut self, row: T) -> Result<(), Trouble> {
        self.batch.push(row);
        if self.batch.len() < BATCH_ROWS { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        self.sender.blocking_send(std::mem::take(&mut self.batch)).map_err(|_| Trouble::Abandoned)
    }
}

/// A transaction that a panic interrupted is rolled back by its drop, so the connection is fit for use.
fn held(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn join<T>(handle: JoinHandle<Result<T, StoreError>>) -> Result<T, StoreError> {
    handle.await.unwrap_or_else(|stopped| {
        let detail = format!("the call did not end: {stopped}");
        Err(StoreError { store: super::STORE, action: "run a call", failure: Failure::Permanent, detail })
    })
}
