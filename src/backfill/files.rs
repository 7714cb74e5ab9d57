//! Files into the backfill topic.
//!
//! A record is sent byte for byte as it stands in the file, with its format in a header: the engine reads it with the
//! code that reads files, so that fields, identity and raw row are those of an embedded run.

use super::BackfillError;
use super::find::BackfillFile;
use super::report::Produced;
use super::send::Sender;
use super::touched::Touched;
use crate::config::Config;
use crate::input::decode::Decoder;
use crate::input::files::compressed::Bytes;
use crate::input::files::{Prefix, format_hint, written};
use floodmark_model::wire::backfill::Headers;
use floodmark_model::wire::text::{RecordSplitter, SplitRecord, TextFormat};
use floodmark_model::{Coordinates, DeadReason, RawRecord, Rule};
use floodmark_sinks::inputs::ReadBytes;
use floodmark_sinks::postgres::{BackfillInput, PostgresStore, Produced as Stored};
use std::io::{self, Read};
use tokio::runtime::Handle;

/// What is read of a file at once.
const CHUNK_BYTES: usize = 64 << 10;

/// How files are written.
pub struct Written {
    /// `None` is JSON.
    pub format: Option<TextFormat>,
    /// The name of the zone of times without one, where it is not the configured one.
    pub zone: Option<String>,
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
    /// The rules that may judge the records.
    pub rules: &'a [Rule],
    /// How the files are written.
    pub written: &'a Written,
    /// What was produced.
    pub produced: &'a mut Produced,
    /// Which windows that touches.
    pub touched: &'a mut Touched,
}

/// A file while it is read.
struct Reading<'a> {
    file: &'a BackfillFile,
    decoder: &'a Decoder,
    headers: Headers<'a>,
    /// How it is read, in words.
    written: &'a str,
    /// What was read.
    prefix: Prefix,
    began: i64,
    /// Records before it were produced by an earlier run: they are looked at, and not sent.
    resume_at: i64,
    /// Behind the last record that was looked at.
    next_offset: i64,
    /// Where the last line begins, where that is no whole record yet.
    cut_at: Option<u64>,
    /// Why it cannot be read further.
    trouble: Option<io::Error>,
    records: u64,
    sent: u64,
    dead: u64,
}

impl FileProducer<'_> {
    /// Sends a whole file, or what can be read of it. `read` is told how many bytes of the disk each read takes.
    ///
    /// # Errors
    ///
    /// It was not sent to its end.
    pub fn send(&mut self, file: &BackfillFile, read: impl FnMut(u64) + Send + 'static) -> Result<(), BackfillError> {
        let decoder = self.decoder();
        let format = self.written.format.as_ref().map(ToString::to_string);
        let written = written(self.config, self.written.format.as_ref());
        let (began, resume_at) = self.place(&file.input);
        let headers = Headers {
            origin: None,
            record_time: Some(file.input.first_read),
            format: format.as_deref(),
            zone: self.written.zone.as_deref(),
        };
        let mut reading = Reading {
            file,
            decoder: &decoder,
            headers,
            written: &written,
            prefix: Prefix::default(),
            began,
            resume_at,
            next_offset: 0,
            cut_at: None,
            trouble: None,
            records: 0,
            sent: 0,
            dead: 0,
        };
        self.read(&mut reading, read)?;
        self.flush(&reading)?;
        reading.report(self.produced);
        Ok(())
    }

    fn read(&mut self, reading: &mut Reading<'_>, read: impl FnMut(u64) + Send + 'static) -> Result<(), BackfillError> {
        let mut splitter = RecordSplitter::new(reading.decoder.framing(), 0, self.config.limits.max_record_bytes);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut bytes = Bytes::open(&reading.file.path, read);
        loop {
            let length = match bytes.as_mut().map_err(|error| io::Error::from(error.kind())) {
                Ok(bytes) => bytes.read(&mut chunk),
                Err(error) => Err(error),
            };
            match length {
                Ok(0) => break,
                Ok(length) => {
                    let mut rest = &chunk[..length];
                    reading.prefix.take_in(rest);
                    while let Some(record) = splitter.next_record(&mut rest) {
                        self.record(reading, &record)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What could be read counts: an archive that is cut off costs its own rest, and no other file.
                Err(error) => {
                    reading.trouble = Some(error);
                    break;
                }
            }
        }
        while let Some(record) = splitter.finish() {
            self.record(reading, &record)?;
        }
        Ok(())
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
    fn place(&self, input: &BackfillInput) -> (i64, i64) {
        let of_topic = |stored: &Stored| stored.topic_id == self.sender.topic().id;
        input.produced.filter(of_topic).map_or((0, 0), |stored| (stored.began, stored.next_offset))
    }

    fn record(&mut self, reading: &mut Reading<'_>, record: &SplitRecord<'_>) -> Result<(), BackfillError> {
        let BackfillInput { key, first_read, .. } = reading.file.input;
        let offset = i64::try_from(record.offset).unwrap_or(i64::MAX);
        let at = Coordinates { topic_id: key.topic_id, partition: key.partition, offset };
        let decoded = reading.decoder.decode(RawRecord { at, record_time: first_read, payload: Some(record.bytes) });
        // A line that is too long already does not become shorter.
        let is_cut = reading.trouble.is_some()
            || decoded.as_ref().is_err_and(|rejected| rejected.reason != DeadReason::TooLarge);
        let place = || format!("{}:{}", reading.file.name, record.line);
        if !record.ends_line && is_cut {
            self.produced.cut_off.push(place());
            reading.cut_at = Some(record.offset);
            return Ok(());
        }
        reading.records += 1;
        match decoded {
            Err(rejected) => {
                reading.dead += 1;
                self.produced.rejected(&rejected, place);
            }
            Ok(Some(occurrence)) => self.touched.add(self.rules, &occurrence),
            Ok(None) => {}
        }
        if offset >= reading.resume_at {
            reading.sent += 1;
            self.sender.push(at, &Headers { origin: Some(at), ..reading.headers }, Some(record.bytes));
        }
        reading.next_offset = i64::try_from(record.next_offset).unwrap_or(i64::MAX);
        if self.sender.is_full() { self.flush(reading) } else { Ok(()) }
    }

    fn flush(&mut self, reading: &Reading<'_>) -> Result<(), BackfillError> {
        self.produced.records += self.sender.flush()?;
        let topic_id = self.sender.topic().id;
        let stored = Stored { topic_id, began: reading.began, next_offset: reading.next_offset.max(reading.resume_at) };
        let BackfillInput { key, read: before, .. } = &reading.file.input;
        let read = reading.read();
        self.runtime.block_on(async {
            // Of a file that is sent again more was read before.
            if before.is_none_or(|before| before.bytes <= read.bytes) {
                self.store.note_read(*key, &reading.file.name, reading.written, read).await?;
            }
            Ok(self.store.note_produced(*key, Some(stored)).await?)
        })
    }
}

impl Reading<'_> {
    /// What was read. A last line that is cut off was not: it may still become another one.
    fn read(&self) -> ReadBytes {
        let whole = self.cut_at.and_then(|cut_at| Prefix::of_file(&self.file.path, cut_at).ok());
        whole.as_ref().unwrap_or(&self.prefix).read()
    }

    /// What is to be said of it at the end.
    fn report(&self, produced: &mut Produced) {
        let (name, resume_at) = (&self.file.name, self.resume_at);
        if resume_at > 0 {
            produced.resumed.push(match self.sent {
                0 => format!("{name}: an earlier run has sent all of it, and was cut off before its verdict"),
                _ => format!("{name}: went on at byte {resume_at}, where an earlier run was cut off"),
            });
        }
        if let Some(error) = &self.trouble {
            let bytes = self.prefix.read().bytes;
            produced
                .unreadable
                .push(format!("{name}: cannot be read beyond byte {bytes}, the rest is missing: {error}"));
        }
        produced.hints.extend(format_hint(name, self.written, (self.records, self.dead), true));
    }
}
