//! Cuts a stream of bytes into records.

use super::TextFormat;
use std::mem;

/// What a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each line that is not blank: JSON, one object a line.
    Lines,
    /// A line that begins a record in this format, and those after it that begin none. What stands before the first
    /// such line is one record too, which cannot be read.
    Text(TextFormat),
}

/// One record of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitRecord<'a> {
    /// Where it begins in the stream, in bytes.
    pub offset: u64,
    /// Where the stream goes on behind it and its line break.
    pub next_offset: u64,
    /// Its bytes without the line break at the end. Of a record that is longer than `max_record_bytes` there is one
    /// byte more than that, so that it is decoded to a dead letter, `too_large`, and the rest is left out.
    pub bytes: &'a [u8],
    /// Whether its last line ends with a line break. If not, the stream ended within a line, which may still grow.
    pub ends_line: bool,
}

/// Finds the records in a stream of bytes that comes in chunks of any size.
///
/// The result does not depend on the chunks. Memory is bounded by three times `max_record_bytes`.
#[derive(Debug)]
pub struct RecordSplitter {
    framing: Framing,
    max_record_bytes: usize,
    /// The line that is being read.
    line: Span,
    /// The lines before it that no record has been made of yet.
    record: Span,
    /// The record that was handed out last.
    finished: Span,
}

impl RecordSplitter {
    /// A splitter for a stream that is read from `offset` on, where a record or a line begins.
    #[must_use]
    pub fn new(framing: Framing, offset: u64, max_record_bytes: usize) -> Self {
        let line = Span { offset, ..Span::default() };
        Self { framing, max_record_bytes, line, record: Span::default(), finished: Span::default() }
    }

    /// The next record that is known to be complete; takes what it reads off the front of `chunk`. `None` when the
    /// chunk is used up.
    pub fn next_record(&mut self, chunk: &mut &[u8]) -> Option<SplitRecord<'_>> {
        while !chunk.is_empty() {
            let line_end = chunk.iter().position(|&byte| byte == b'\n').map(|position| position + 1);
            let (piece, rest) = chunk.split_at(line_end.unwrap_or(chunk.len()));
            *chunk = rest;
            self.line.push(piece, piece.len() as u64, self.max_record_bytes);
            if line_end.is_some() && self.end_line() {
                return Some(self.finished.as_record(self.max_record_bytes, true));
            }
        }
        None
    }

    /// The records that are left at the end of the stream, one a call; then `None`.
    pub fn finish(&mut self) -> Option<SplitRecord<'_>> {
        let ends_line = self.line.length == 0;
        if !ends_line && self.end_line() {
            return Some(self.finished.as_record(self.max_record_bytes, matches!(self.framing, Framing::Text(_))));
        }
        if self.record.length == 0 {
            return None;
        }
        // The last line has just been added to the record, or stood there with its line break all along.
        let ends_line = ends_line && !self.record.is_open;
        self.finish_record();
        Some(self.finished.as_record(self.max_record_bytes, ends_line))
    }

    /// The line is complete: adds it to the record, or finishes that one (true) and begins the next.
    fn end_line(&mut self) -> bool {
        let end = self.line.offset + self.line.length;
        let line = mem::take(&mut self.line);
        self.line.offset = end;
        todo!()
    }
}
