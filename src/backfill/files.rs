//! Files into the backfill topic.
//!
//! A record is sent byte for byte as it stands in the file, with its format in a header: the engine reads it with the
//! code that reads files, so that fields, identity and raw row are those of an embedded run.

use super::BackfillError;
use super::report::Produced;
use super::send::Sender;
use super::touched::Touched;
use crate::config::Config;
use crate::input::decode::Decoder;
use crate::input::files::compressed::Bytes;
use crate::input::files::{named_files, refuse_alike};
use floodmark_model::wire::backfill::Headers;
use floodmark_model::wire::text::{RecordSplitter, SplitRecord, TextFormat};
use floodmark_model::{Coordinates, RawRecord, RecordTime};
use floodmark_sinks::postgres::{BackfillInput, PostgresStore, Produced as Stored};
use std::collections::{BTreeSet, VecDeque};
use std::io::Read;
use std::path::PathBuf;
use tokio::runtime::Handle;

/// What is read of a file at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A file, and what is known of it.
pub struct BackfillFile {
    path: PathBuf,
    input: BackfillInput,
}

/// How files are written.
pub struct Written {
    /// `None` is JSON.
    pub format: Option<TextFormat>,
    /// The name of the zone of times without one, where it is not the configured one.
    pub zone: Option<String>,
}

/// Finds the files that paths and patterns name, and tells the store of them. Also says how many bytes they have on
/// disk.
///
/// # Errors
///
/// A pattern finds nothing, a file cannot be read, or two files cannot be told apart.
pub async fn find(
    store: &PostgresStore,
    patterns: &[String],
    now: RecordTime,
) -> Result<(Vec<BackfillFile>, u64), BackfillError> {
    let usage = |error: crate::input::files::OpenError| BackfillError::Usage(error.to_string());
    let found = named_files("FILE", patterns).map_err(usage)?;
    refuse_alike("FILE", &found).map_err(usage)?;
    let (mut files, mut disk_bytes, mut known) = (Vec::new(), 0, BTreeSet::new());
    for file in found {
        disk_bytes += file.disk_bytes;
        let name = file.path.display().to_string();
        let Some(input) = store.identify_file(&name, &file.head, now).await? else { continue };
        if !known.insert(input.key) {
            return Err(BackfillError::Usage(format!(
                "{name}: it begins as another file of this backfill did when it was first read: leave one of them out"
            )));
        }
        files.push(BackfillFile { path: file.path, input });
    }
    Ok((files, disk_bytes))
}

/// Sends records of files.
pub struct FileProducer<'a> {
    /// Where they go.
    pub sender: &'a mut Sender,
    /// Remembers how far that is.
    pub store: &'a PostgresStore,
    /// Where the store is called.
    pub runtime: &'a Handle,
    /// The configuration.
    pub config: &'a Config,
    /// How the files are written.
    pub written: &'a Written,
    /// What was produced.
    pub produced: &'a mut Produced,
    /// Which windows that touches.
    pub touched: &'a mut Touched,
}

/// A file while it is read.
struct Reading<'a> {
    name: String,
    input: BackfillInput,
    decoder: &'a Decoder,
    headers: Headers<'a>,
    lines: LineNumbers,
    began: i64,
    /// Records before it were produced by an earlier run: they are looked at, and not sent.
    resume_at: i64,
    /// Behind the last record that was looked at.
    next_offset: i64,
}

impl FileProducer<'_> {
    /// Sends a whole file. `read` is told how many bytes of the disk each read takes.
    ///
    /// # Errors
    ///
    /// It cannot be read further, or was not sent to its end.
    pub fn send(&mut self, file: &BackfillFile, read: impl FnMut(u64) + Send + 'static) -> Result<(), BackfillError> {
        let failed = |error| BackfillError::File { name: file.path.display().to_string(), error };
        let decoder = self.decoder();
        let format = self.written.format.as_ref().map(ToString::to_string);
        let (began, resume_at) = self.place(file.input);
        let headers = Headers {
            origin: None,
            record_time: Some(file.input.first_read),
            format: format.as_deref(),
            zone: self.written.zone.as_deref(),
        };
        let mut reading = Reading {
            name: file.path.display().to_string(),
            input: file.input,
            decoder: &decoder,
            headers,
            lines: LineNumbers::default(),
            began,
            resume_at,
            next_offset: 0,
        };
        if resume_at > 0 {
            self.produced.resumed.push(format!("{}: from byte {resume_at} on", reading.name));
        }
        let mut bytes = Bytes::open(&file.path, read).map_err(failed)?;
        let mut splitter = RecordSplitter::new(decoder.framing(), 0, self.config.limits.max_record_bytes);
        let (mut chunk, mut position) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let length = bytes.read(&mut chunk).map_err(failed)?;
            if length == 0 {
                break;
            }
            let mut rest = &chunk[..length];
            reading.lines.saw(rest, position);
            position += length as u64;
            while let Some(record) = splitter.next_record(&mut rest) {
                self.record(&mut reading, &record)?;
            }
        }
        while let Some(record) = splitter.finish() {
            self.record(&mut reading, &record)?;
        }
        self.flush(&reading)
    }

    /// The backfill of a file is finished.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn forget(store: &PostgresStore, file: &BackfillFile) -> Result<(), BackfillError> {
        Ok(store.note_produced(file.input.key, None).await?)
    }

    fn decoder(&self) -> Decoder {
        match &self.written.format {
            None => Decoder::json(self.config),
            Some(format) => Decoder::text(self.config, format.clone()),
        }
    }

    /// Where producing began, and where it goes on.
    fn place(&self, input: BackfillInput) -> (i64, i64) {
        let of_topic = |stored: &Stored| stored.topic_id == self.sender.topic().id;
        input.produced.filter(of_topic).map_or((0, 0), |stored| (stored.began, stored.next_offset))
    }

    fn record(&mut self, reading: &mut Reading<'_>, record: &SplitRecord<'_>) -> Result<(), BackfillError> {
        let key = reading.input.key;
        let offset = i64::try_from(record.offset).unwrap_or(i64::MAX);
        let at = Coordinates { topic_id: key.topic_id, partition: key.partition, offset };
        let raw = RawRecord { at, record_time: reading.input.first_read, payload: Some(record.bytes) };
        let line = reading.lines.of(record.offset);
        match reading.decoder.decode(raw) {
            Err(_) if !record.ends_line => {
                self.produced.cut_off.push(format!("{}:{line}", reading.name));
                return Ok(());
            }
            Err(rejected) => self.produced.rejected(&rejected, || format!("{}:{line}", reading.name)),
            Ok(Some(occurrence)) => self.touched.add(&self.config.rules, &occurrence),
            Ok(None) => {}
        }
        if offset >= reading.resume_at {
            self.sender.push(at, &Headers { origin: Some(at), ..reading.headers }, Some(record.bytes));
        }
        reading.next_offset = i64::try_from(record.next_offset).unwrap_or(i64::MAX);
        if self.sender.is_full() { self.flush(reading) } else { Ok(()) }
    }

    fn flush(&mut self, reading: &Reading<'_>) -> Result<(), BackfillError> {
        self.produced.records += self.sender.flush()?;
        let topic_id = self.sender.topic().id;
        let stored = Stored { topic_id, began: reading.began, next_offset: reading.next_offset.max(reading.resume_at) };
        self.runtime.block_on(self.store.note_produced(reading.input.key, Some(stored)))?;
        Ok(())
    }
}

/// Finds the line of an offset, for offsets that go up.
#[derive(Debug, Default)]
struct LineNumbers {
    passed: u64,
    /// Offsets of line breaks that were seen and not passed.
    breaks: VecDeque<u64>,
}

impl LineNumbers {
    fn saw(&mut self, chunk: &[u8], position: u64) {
        let breaks = chunk.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        self.breaks.extend(breaks.map(|(index, _)| position + index as u64));
    }

    fn pass(&mut self, offset: u64) {
        while self.breaks.front().is_some_and(|at| *at < offset) {
            self.breaks.pop_front();
            self.passed += 1;
        }
    }

    /// The line in which the byte at this offset stands, from 1.
    fn of(&mut self, offset: u64) -> u64 {
        self.pass(offset);
        self.passed + 1
    }
}

#[cfg(test)]
mod tests {
    use super::LineNumbers;

    #[test]
    fn a_line_is_found_by_its_offset_across_chunks() {
        let text = "one\ntwo\n\nfour\nfive";
        for size in [1, 3, 100] {
            let mut lines = LineNumbers::default();
            for (index, chunk) in text.as_bytes().chunks(size).enumerate() {
                lines.saw(chunk, (index * size) as u64);
            }
            assert_eq!([0, 4, 9, 14].map(|offset| lines.of(offset)), [1, 2, 4, 5]);
        }
    }
}
