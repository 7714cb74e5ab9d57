//! The reading thread of one worker: its files, oldest event first.

use super::stream::Next;
use super::{BytesRead, Input, InputEnd, InputEnds, OnRecord, Prefix, Source, compressed, key, start_offset};
use crate::input::decode::Decoder;
use crate::input::end::EndOfInput;
use crate::pipeline::intake::Intake;
use crate::pipeline::persist::Ended;
use crate::pipeline::{Clock, Output, Reader, Seat};
use floodmark_dataflow::message::{Batch, Reading};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::wire::text::{RecordSplitter, SplitRecord};
use floodmark_model::{Coordinates, DeadReason, EventTime, RawRecord, RecordTime};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is read of one file before another may come first.
const CHUNK_BYTES: usize = 64 << 10;
/// How long a stream without news is waited for.
const WAIT: Duration = Duration::from_millis(20);

/// Reads the inputs of one worker.
pub(super) struct FilesReader {
    pub(super) inputs: Vec<Input>,
    pub(super) decoder: Decoder,
    pub(super) max_record_bytes: usize,
    pub(super) end: Arc<EndOfInput>,
    pub(super) bytes_read: Arc<BytesRead>,
    pub(super) on_record: Option<Arc<OnRecord>>,
    pub(super) ends: InputEnds,
}

impl Reader for FilesReader {
    fn read(self: Box<Self>, seat: Seat) {
        let Seat { intake, output, stop, progress, clock, .. } = seat;
        let (max_record_bytes, end, on_record) = (self.max_record_bytes, self.end, self.on_record);
        let mut hands = Hands { intake, output, decoder: self.decoder, clock, end, on_record };
        let mut opened = Vec::new();
        for input in self.inputs {
            match Opened::new(input, &progress, &hands.decoder, max_record_bytes, &self.bytes_read) {
                Ok(input) => opened.push(input),
                Err((name, error)) => return stop.fail(format!("{name}: cannot be read: {error}"), 3),
            }
        }
        if hands.assign(&opened, &progress).is_err() {
            return;
        }
        while !stop.is_stopped() && !opened.is_empty() {
            let Some(index) = next(&opened) else { return };
            match hands.read_some(&mut opened[index]) {
                Ok(Went::On) => {}
                Ok(Went::ToTheEnd) => self.ends.push(opened.swap_remove(index).into_end()),
                Err(Ended) => return,
            }
        }
        opened.into_iter().for_each(|input| self.ends.push(input.into_end()));
    }
}

/// The input whose last event is oldest. Streams are asked in turn: one that has nothing new waits for no other.
fn next(opened: &[Opened]) -> Option<usize> {
    (0..opened.len()).min_by_key(|&index| (opened[index].has_nothing, opened[index].place.last))
}

/// An input while it is read.
struct Opened {
    path: PathBuf,
    name: String,
    place: Place,
    bytes: Bytes,
    /// Bytes of a stream that were read in an earlier run.
    skip: u64,
    splitter: RecordSplitter,
    start_offset: u64,
    /// It is a stream that had nothing when it was asked last.
    has_nothing: bool,
    /// Why it cannot be read further.
    trouble: Option<io::Error>,
}

/// Where an input stands.
struct Place {
    key: PartitionKey,
    /// Event time of its last record.
    last: Option<EventTime>,
    /// Nothing has been read in this run, and something in an earlier one.
    goes_on: bool,
    /// Where its last line begins, which is no whole record yet.
    cut_at: Option<u64>,
    records: u64,
    dead: u64,
}

enum Bytes {
    File { file: compressed::Bytes, first_read: RecordTime, prefix: Box<Prefix> },
    Stream(super::Stream),
}

impl Opened {
    fn new(
        input: Input,
        progress: &Progress,
        decoder: &Decoder,
        max_record_bytes: usize,
        bytes_read: &Arc<BytesRead>,
    ) -> Result<Self, (String, io::Error)> {
        let start_offset = start_offset(progress, input.id);
        let name = input.name.display().to_string();
        let (bytes, skip, line) = match input.source {
            Source::File { first_read } => {
                let bytes_read = Arc::clone(bytes_read);
                let opened = compressed::Bytes::open(&input.name, move |read| bytes_read.add(read));
                let (file, prefix) =
                    opened.and_then(|file| behind(file, start_offset)).map_err(|error| (name.clone(), error))?;
                let line = prefix.line();
                (Bytes::File { file, first_read, prefix: Box::new(prefix) }, 0, line)
            }
            Source::Stream(stream) => (Bytes::Stream(stream), start_offset, 1),
        };
        let splitter = RecordSplitter::new(decoder.framing(), start_offset, max_record_bytes).from_line(line);
        let key = key(input.id);
        let place = Place { key, last: None, goes_on: start_offset > 0, cut_at: None, records: 0, dead: 0 };
        let (path, has_nothing, trouble) = (input.name, false, None);
        Ok(Self { path, name, place, bytes, skip, splitter, start_offset, has_nothing, trouble })
    }

    /// How far it was read. A last line that is cut off was not read: it may still become another one.
    fn into_end(self) -> InputEnd {
        let read = match (self.bytes, self.place.cut_at) {
            (Bytes::Stream(_), _) => None,
            (Bytes::File { prefix, .. }, None) => Some(prefix.read()),
            (Bytes::File { .. }, Some(cut_at)) => Prefix::of_file(&self.path, cut_at).ok().map(|prefix| prefix.read()),
        };
        let unreadable =
            self.trouble.map(|error| format!("{}: cannot be read further, the rest is missing: {error}", self.name));
        let Place { key, records, dead, .. } = self.place;
        InputEnd { id: key.topic_id, path: self.path, read, records, dead, is_all: self.start_offset == 0, unreadable }
    }
}

/// The file behind this many bytes.
fn behind(mut file: compressed::Bytes, bytes: u64) -> io::Result<(compressed::Bytes, Prefix)> {
    let mut prefix = Prefix::default();
    prefix.read_on(&mut file, bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            let detail = "it is shorter than what was read of it before: was it replaced? Read it into another store";
            io::Error::new(ErrorKind::UnexpectedEof, detail)
        }
        _ => error,
    })?;
    Ok((file, prefix))
}

enum Went {
    On,
    ToTheEnd,
}

/// What a reading thread works with, apart from its inputs.
struct Hands {
    intake: Intake,
    output: Output,
    decoder: Decoder,
    clock: Arc<dyn Clock>,
    end: Arc<EndOfInput>,
    on_record: Option<Arc<OnRecord>>,
}

impl Hands {
    fn assign(&mut self, opened: &[Opened], progress: &Progress) -> Result<(), Ended> {
        let assigned = opened.iter().map(|input| {
            let key = input.place.key;
            let stored = progress.partitions.get(&key).copied();
            self.intake.assign(key, stored, input.start_offset as i64, Reading::Active)
        });
        let assigned = assigned.collect();
        self.output.send(Batch::Assigned(assigned))
    }

    /// Reads one chunk of an input.
    fn read_some(&mut self, input: &mut Opened) -> Result<Went, Ended> {
        let (chunk, record_time) = match &mut input.bytes {
            Bytes::File { file, first_read, prefix } => {
                let mut chunk = vec![0; CHUNK_BYTES];
                match file.read(&mut chunk) {
                    Ok(length) => chunk.truncate(length),
                    // What could be read counts: an archive that is cut off costs its own rest, and no other file.
                    Err(error) => {
                        input.trouble = Some(error);
                        chunk.clear();
                    }
                }
                prefix.take_in(&chunk);
                (chunk, *first_read)
            }
            Bytes::Stream(stream) => {
                let record_time = RecordTime(self.clock.now_ms());
                match stream.next(if input.has_nothing { WAIT } else { Duration::ZERO }) {
                    Next::Chunk(chunk) => (chunk, record_time),
                    Next::End => (Vec::new(), record_time),
                    Next::Nothing => {
                        input.has_nothing = true;
                        self.hand_over()?;
                        return Ok(Went::On);
                    }
                }
            }
        };
        input.has_nothing = false;
        if chunk.is_empty() {
            return self.finish(input, record_time).map(|()| Went::ToTheEnd);
        }
        let skipped = input.skip.min(chunk.len() as u64);
        input.skip -= skipped;
        let mut rest = &chunk[skipped as usize..];
        let Opened { splitter, place, name, .. } = input;
        while let Some(record) = splitter.next_record(&mut rest) {
            self.record(place, name, record, record_time)?;
        }
        Ok(Went::On)
    }

    fn finish(&mut self, input: &mut Opened, record_time: RecordTime) -> Result<(), Ended> {
        let Opened { splitter, place, name, trouble, .. } = input;
        while let Some(record) = splitter.finish() {
            let offset = record.offset;
            if trouble.is_some() && !record.ends_line {
                place.cut_at = Some(offset);
                continue;
            }
            self.record(place, name, record, record_time)?;
            if place.cut_at.is_some() {
                tracing::warn!(input = &**name, offset, "the last line is cut off: left for the next run");
            }
        }
        self.intake.set_reading(place.key, Reading::FINISHED);
        let next_offset = self.intake.next_offset(place.key).unwrap_or(0);
        self.hand_over()?;
        self.end.reached(place.key, next_offset);
        Ok(())
    }

    fn record(
        &mut self,
        place: &mut Place,
        name: &str,
        record: SplitRecord<'_>,
        record_time: RecordTime,
    ) -> Result<(), Ended> {
        let key = place.key;
        if std::mem::take(&mut place.goes_on) && !self.decoder.begins_record(record.bytes) {
            // Lines that have been added to a record since an earlier run read it.
            self.intake.skip_to(key, record.next_offset as i64);
            return Ok(());
        }
        let at = Coordinates { topic_id: key.topic_id, partition: key.partition, offset: record.offset as i64 };
        let raw = RawRecord { at, record_time, payload: Some(record.bytes) };
        let decoded = self.decoder.decode(raw);
        // A line that is too long already does not become shorter.
        if !record.ends_line && decoded.as_ref().is_err_and(|rejected| rejected.reason != DeadReason::TooLarge) {
            place.cut_at = Some(record.offset);
            return Ok(());
        }
        place.records += 1;
        place.dead += u64::from(decoded.is_err());
        if let Ok(Some(occurrence)) = &decoded {
            place.last = Some(occurrence.ts);
        }
        if let Some(on_record) = &self.on_record {
            on_record(name, record.line, &decoded);
        }
        self.intake.record(raw, record.next_offset as i64, decoded);
        if self.intake.is_full() {
            self.hand_over()?;
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), Ended> {
        match self.intake.take() {
            Some(batch) => self.output.send(batch),
            None => Ok(()),
        }
    }
}
