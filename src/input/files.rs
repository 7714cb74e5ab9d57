//! Reading files and streams that end: each is a partition, and a record's offset is its first byte (design,
//! decision 14).
//!
//! The file whose last event is oldest is read next, so that files of one time go side by side and windows close while
//! they are read. A file that has been read to its end holds nothing back (Q53).

pub mod compressed;
mod ends;
mod known;
mod named;
mod open;
mod prefix;
mod reader;
mod stream;

pub use ends::{InputEnd, InputEnds, format_hint};
pub use known::{Known, which, written};
pub use named::{Named, NamedFile, named_files, refuse_alike};
pub use open::{FileSettings, Found, OpenError, find, stream_input};
pub use prefix::Prefix;
pub use stream::{Sender, Stream, channel};

use crate::input::decode::Decoder;
use crate::input::end::EndOfInput;
use crate::pipeline::Reader;
use crate::pipeline::persist::Ended;
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::wire::Rejected;
use floodmark_model::{Occurrence, RecordTime, TopicId};
use reader::FilesReader;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the reading of all inputs has come, in bytes.
#[derive(Debug, Default)]
pub struct BytesRead(AtomicU64);

impl BytesRead {
    /// Bytes read, counted from the beginning of each file, as they lie on the disk.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// One input, known to the store.
pub struct Input {
    /// Its records' topic id.
    pub id: TopicId,
    /// For messages.
    pub name: PathBuf,
    /// Where its bytes come from.
    pub source: Source,
}

/// Where bytes come from.
pub enum Source {
    /// A file. The record time of all its records is the moment of its first reading.
    File {
        /// That moment.
        first_read: RecordTime,
    },
    /// A stream, such as standard input. The record time is the moment at which a record was read.
    Stream(Stream),
}

/// Told of each record: the input's name, the line in which it begins, and how it was read.
pub type OnRecord = dyn Fn(&str, u64, &Result<Option<Occurrence<'_>>, Rejected>) + Send + Sync;

/// The inputs of one run.
pub struct FilesInput {
    /// What is read.
    pub inputs: Vec<Input>,
    /// How records are read.
    pub decoder: Decoder,
    /// Longest record in bytes.
    pub max_record_bytes: usize,
    /// Told of every input that has ended.
    pub end: Arc<EndOfInput>,
    /// Counts what has been read.
    pub bytes_read: Arc<BytesRead>,
    /// Told of each record that is read.
    pub on_record: Option<Arc<OnRecord>>,
    /// Takes in how far each input was read.
    pub ends: InputEnds,
}

impl FilesInput {
    /// A reader for each worker; input `i` belongs to worker `i % workers`. What was read of a stream and not
    /// committed cannot be read again as it was, so its rows are forgotten first.
    ///
    /// # Errors
    ///
    /// When the pipeline has ended meanwhile.
    pub fn readers(
        self,
        workers: usize,
        progress: &Progress,
        forget_uncommitted: &mut dyn FnMut() -> Result<(), Ended>,
    ) -> Result<Vec<Box<dyn Reader>>, Ended> {
        self.end.starts_from(progress);
        if self.inputs.iter().any(|input| matches!(input.source, Source::Stream(_))) {
            forget_uncommitted()?;
        }
        let mut of_worker: Vec<Vec<Input>> = (0..workers).map(|_| Vec::new()).collect();
        for (index, input) in self.inputs.into_iter().enumerate() {
            of_worker[index % workers].push(input);
        }
        let reader = |inputs| -> Box<dyn Reader> {
            Box::new(FilesReader {
                inputs,
                decoder: self.decoder.clone(),
                max_record_bytes: self.max_record_bytes,
                end: Arc::clone(&self.end),
                bytes_read: Arc::clone(&self.bytes_read),
                on_record: self.on_record.clone(),
                ends: self.ends.clone(),
            })
        };
        Ok(of_worker.into_iter().map(reader).collect())
    }
}

fn key(id: TopicId) -> PartitionKey {
    PartitionKey { topic_id: id, partition: 0 }
}

/// Where reading goes on.
fn start_offset(progress: &Progress, id: TopicId) -> u64 {
    progress.partitions.get(&key(id)).map_or(0, |stored| u64::try_from(stored.next_offset).unwrap_or(0))
}
