//! The reading thread of one worker: its files, oldest event first.

use super::stream::Next;
use super::{BytesRead, Input, Source, compressed, key, open, start_offset};
use crate::input::decode::Decoder;
use crate::input::end::EndOfInput;
use crate::pipeline::intake::Intake;
use crate::pipeline::persist::Ended;
use crate::pipeline::{Clock, Output, Reader, Seat};
use floodmark_dataflow::message::{Batch, Reading};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_model::wire::text::{RecordSplitter, SplitRecord};
use floodmark_model::{Coordinates, EventTime, RawRecord, RecordTime};
use std::io::Read;
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
}

impl Reader for FilesReader {
    fn read(self: Box<Self>, seat: Seat) {
        let Seat { intake, output, stop, progress, clock, .. } = seat;
        let mut hands =
            Hands { intake, output, decoder: self.decoder, clock, end: self.end, bytes_read: self.bytes_read };
        let mut opened = Vec::new();
        for input in self.inputs {
            match Opened::new(input, &progress, &hands.decoder, self.max_record_bytes, &hands.bytes_read) {
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
                Ok(Went::ToTheEnd) => _ = opened.swap_remove(index),
                Err(Trouble::Ended) => return,
                Err(Trouble::Input(error)) => {
                    return stop.fail(format!("{}: cannot be read further: {error}", opened[index].name), 3);
                }
            }
        }
    }
}

/// The input whose last event is oldest. Streams are asked in turn: one that has nothing new waits for no other.
fn next(opened: &[Opened]) -> Option<usize> {
    (0..opened.len()).min_by_key(|&index| (opened[index].has_nothing, opened[index].place.last))
}

/// An input while it is read.
struct Opened {
    name: String,
    place: Place,
    bytes: Bytes,
    /// Bytes of a stream that were read in an earlier run.
    skip: u64,
    splitter: RecordSplitter,
    start_offset: u64,
    /// It is a stream that had nothing when it was asked last.
    has_nothing: bool,
}

/// Where an input stands.
struct Place {
    key: PartitionKey,
    /// Event time of its last record.
    last: Option<EventTime>,
    /// Nothing has been read in this run, and something in an earlier one.
    goes_on: bool,
    /// Its last line is no whole record yet.
    is_cut: bool,
}

enum Bytes {
    File { file: compressed::Bytes, first_read: RecordTime },
    Stream(super::Stream),
}

impl Opened {
    fn new(
        input: Input,
        progress: &Progress,
        decoder: &Decoder,
        max_record_bytes: usize,
        bytes_read: &Arc<BytesRead>,
    ) -> Result<Self, (String, std::io::Error)> {
        let start_offset = start_offset(progress, input.id);
        let name = input.name.display().to_string();
        let (bytes, skip) = match input.source {
            Source::File { first_read } => match open(&input.name, start_offset, Arc::clone(bytes_read)) {
                Ok(file) => (Bytes::File { file, first_read }, 0),
                Err(error) => return Err((name, error)),
            },
            Source::Stream(stream) => (Bytes::Stream(stream), start_offset),
        };
        let splitter = RecordSplitter::new(decoder.framing(), start_offset, max_record_bytes);
        let place = Place { key: key(input.id), last: None, goes_on: start_offset > 0, is_cut: false };
        Ok(Self { name, place, bytes, skip, splitter, start_offset, has_nothing: false })
    }
}

enum Went {
    On,
    ToTheEnd,
}

enum Trouble {
    Ended,
    Input(std::io::Error),
}

impl From<Ended> for Trouble {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

/// What a reading thread works with, apart from its inputs.
struct Hands {
    intake: Intake,
    output: Output,
    decoder: Decoder,
    clock: Arc<dyn Clock>,
    end: Arc<EndOfInput>,
    bytes_read: Arc<BytesRead>,
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
    fn read_some(&mut self, input: &mut Opened) -> Result<Went, Trouble> {
        let (chunk, record_time) = match &mut input.bytes {
            Bytes::File { file, first_read } => {
                let mut chunk = vec![0; CHUNK_BYTES];
                let length = file.read(&mut chunk).map_err(Trouble::Input)?;
                chunk.truncate(length);
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
        let Opened { splitter, place, .. } = input;
        while let Some(record) = splitter.next_record(&mut rest) {
            self.record(place, record, record_time)?;
        }
        Ok(Went::On)
    }

    fn finish(&mut self, input: &mut Opened, record_time: RecordTime) -> Result<(), Trouble> {
        let Opened { splitter, place, name, .. } = input;
        while let Some(record) = splitter.finish() {
            self.record(place, record, record_time)?;
            if place.is_cut {
                tracing::warn!(
                    input = &**name,
                    offset = record.offset,
                    "the last line is cut off: left for the next run"
                );
            }
        }
        self.intake.set_reading(place.key, Reading::FINISHED);
        let next_offset = self.intake.next_offset(place.key).unwrap_or(0);
        self.hand_over()?;
        self.end.reached(place.key, next_offset);
        Ok(())
    }

    fn record(&mut self, place: &mut Place, record: SplitRecord<'_>, record_time: RecordTime) -> Result<(), Ended> {
        let key = place.key;
        if std::mem::take(&mut place.goes_on) && !self.decoder.begins_record(record.bytes) {
            // Lines that have been added to a record since an earlier run read it.
            self.intake.skip_to(key, record.next_offset as i64);
            return Ok(());
        }
        let at = Coordinates { topic_id: key.topic_id, partition: key.partition, offset: record.offset as i64 };
        let raw = RawRecord { at, record_time, payload: Some(record.bytes) };
        let decoded = self.decoder.decode(raw);
        if decoded.is_err() && !record.ends_line {
            place.is_cut = true;
            return Ok(());
        }
        if let Ok(Some(occurrence)) = &decoded {
            place.last = Some(occurrence.ts);
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
