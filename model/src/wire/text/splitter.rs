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
    /// The line of the stream in which it begins, from 1 where the stream was read from its beginning.
    pub line: u64,
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
        let line = Span { offset, line: 1, ..Span::default() };
        Self { framing, max_record_bytes, line, record: Span::default(), finished: Span::default() }
    }

    /// The same splitter for a stream that is read from this line on.
    #[must_use]
    pub fn from_line(mut self, line: u64) -> Self {
        self.line.line = line;
        self
    }

    /// The next record that is known to be complete; takes what it reads off the front of `chunk`. `None` when the
    /// chunk is used up.
    pub fn next_record(&mut self, chunk: &mut &[u8]) -> Option<SplitRecord<'_>> {
        while !chunk.is_empty() {
            let line_end = chunk.iter().position(|&byte| byte == b'\n').map(|position| position + 1);
            let (piece, rest) = chunk.split_at(line_end.unwrap_or(chunk.len()));
            *chunk = rest;
            self.line.push(piece, self.max_record_bytes);
            if line_end.is_some() && self.end_line(false) {
                return Some(self.finished.as_record(self.max_record_bytes));
            }
        }
        None
    }

    /// The records that are left at the end of the stream, one a call; then `None`.
    pub fn finish(&mut self) -> Option<SplitRecord<'_>> {
        let is_finished = self.line.length > 0 && self.end_line(true);
        if !is_finished {
            if self.record.length == 0 {
                return None;
            }
            self.finished = mem::take(&mut self.record);
        }
        Some(self.finished.as_record(self.max_record_bytes))
    }

    /// The line is complete, or the stream ends in it (`is_open`). Adds it to its record, or begins the next one with
    /// it. Whether a record is finished now.
    fn end_line(&mut self, is_open: bool) -> bool {
        let next = Span { offset: self.line.next_offset(), line: self.line.line + 1, ..Span::default() };
        let line = mem::replace(&mut self.line, next);
        let line = Span { is_open, ..line };
        let is_blank = line.bytes.trim_ascii().is_empty();
        match &self.framing {
            Framing::Lines => {
                self.finished = line;
                !is_blank
            }
            Framing::Text(_) if self.record.length == 0 => {
                if !is_blank {
                    self.record = line;
                }
                false
            }
            Framing::Text(format) if !is_blank && format.begins_record(without_line_break(&line.bytes)) => {
                self.finished = mem::replace(&mut self.record, line);
                true
            }
            Framing::Text(_) => {
                self.record.append(&line, self.max_record_bytes);
                false
            }
        }
    }
}

/// A part of the stream.
#[derive(Debug, Default)]
struct Span {
    /// Where it begins in the stream.
    offset: u64,
    /// The line in which it begins.
    line: u64,
    /// How long it is, line breaks included.
    length: u64,
    /// Its bytes, as far as they are kept.
    bytes: Vec<u8>,
    /// The stream ends in its last line.
    is_open: bool,
}

impl Span {
    fn next_offset(&self) -> u64 {
        self.offset + self.length
    }

    /// Keeps one byte more than a record may have, and a line break.
    fn push(&mut self, piece: &[u8], max_record_bytes: usize) {
        let room = (max_record_bytes + 1 + LINE_BREAK.len()).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        self.length += piece.len() as u64;
    }

    fn append(&mut self, line: &Self, max_record_bytes: usize) {
        let length = self.length + line.length;
        self.push(&line.bytes, max_record_bytes);
        self.length = length;
        self.is_open = line.is_open;
    }

    fn as_record(&self, max_record_bytes: usize) -> SplitRecord<'_> {
        let is_whole = self.bytes.len() as u64 == self.length;
        let bytes = if is_whole { without_line_break(&self.bytes) } else { &self.bytes };
        let bytes = &bytes[..bytes.len().min(max_record_bytes + 1)];
        let (offset, line, next_offset) = (self.offset, self.line, self.next_offset());
        SplitRecord { offset, line, next_offset, bytes, ends_line: !self.is_open }
    }
}

const LINE_BREAK: &[u8] = b"\r\n";

fn without_line_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset, text and whether the last line was ended, of each record; read in chunks of this size.
    fn split(framing: &Framing, stream: &str, chunk_bytes: usize, max_record_bytes: usize) -> Vec<(u64, String, bool)> {
        let owned = |record: SplitRecord<'_>| {
            (record.offset, String::from_utf8_lossy(record.bytes).into_owned(), record.ends_line)
        };
        let mut splitter = RecordSplitter::new(framing.clone(), 0, max_record_bytes);
        let mut records = Vec::new();
        for mut chunk in stream.as_bytes().chunks(chunk_bytes) {
            while let Some(record) = splitter.next_record(&mut chunk) {
                records.push(owned(record));
            }
        }
        while let Some(record) = splitter.finish() {
            records.push(owned(record));
        }
        records
    }

    fn assert_splits(framing: &Framing, stream: &str, want: &[(u64, &str, bool)]) {
        let want: Vec<_> = want.iter().map(|(offset, text, ends)| (*offset, (*text).to_owned(), *ends)).collect();
        for chunk_bytes in [1, 2, 3, 7, stream.len().max(1)] {
            assert_eq!(split(framing, stream, chunk_bytes, 100), want, "in chunks of {chunk_bytes} bytes");
        }
    }

    const FIRST: &str = "2020-01-01 00:00:00,000 ERROR one (a.B)";
    const SECOND: &str = "2020-01-01 00:00:01,000 WARN two (a.B)";

    #[test]
    fn lines_are_records_unless_they_are_blank() {
        assert_splits(&Framing::Lines, "", &[]);
        assert_splits(&Framing::Lines, "{}\n\r\n  \n[]\r\n", &[(0, "{}", true), (8, "[]", true)]);
        assert_splits(&Framing::Lines, "{}\n[", &[(0, "{}", true), (3, "[", false)]);
    }

    #[test]
    fn a_stack_trace_belongs_to_the_line_before_it() {
        let text = Framing::Text(TextFormat::Log4j);
        let stream = format!("{FIRST}\njava.io.IOException: no\n\tat x\n\n{SECOND}\n");
        let first = format!("{FIRST}\njava.io.IOException: no\n\tat x\n");
        let second_at = stream.find(SECOND).expect("it is there") as u64;
        assert_splits(&text, &stream, &[(0, &first, true), (second_at, SECOND, true)]);
        let cut = format!("{FIRST}\n\tat");
        assert_splits(&text, &cut, &[(0, &cut, false)]);
        let cut = format!("{FIRST}\n{SECOND}");
        assert_splits(&text, &cut, &[(0, FIRST, true), (FIRST.len() as u64 + 1, SECOND, false)]);
    }

    #[test]
    fn what_stands_before_the_first_record_is_one_that_cannot_be_read() {
        let stream = format!("\n\tat x\n\tat y\n{FIRST}\n");
        let text = Framing::Text(TextFormat::Log4j);
        assert_splits(&text, &stream, &[(1, "\tat x\n\tat y", true), (13, FIRST, true)]);
    }

    #[test]
    fn each_record_says_in_which_line_it_begins() {
        let lines = |framing: Framing, stream: &str| {
            let mut splitter = RecordSplitter::new(framing, 0, 60).from_line(5);
            let (mut chunk, mut lines) = (stream.as_bytes(), Vec::new());
            while let Some(record) = splitter.next_record(&mut chunk) {
                lines.push(record.line);
            }
            while let Some(record) = splitter.finish() {
                lines.push(record.line);
            }
            lines
        };
        assert_eq!(lines(Framing::Lines, &format!("{{}}\n\n{}\n\n\n[", "x".repeat(99))), [5, 7, 10]);
        let text = format!("\n\tat x\n{FIRST}\n\n\tat y\n{SECOND}");
        assert_eq!(lines(Framing::Text(TextFormat::Log4j), &text), [6, 7, 10]);
    }

    #[test]
    fn of_a_record_that_is_too_long_one_byte_more_than_allowed_is_kept() {
        let long = "x".repeat(1_000);
        for (stream, framing) in [
            (format!("{long}\n{{}}\n"), Framing::Lines),
            (format!("{FIRST}\n{long}\n{SECOND}\n"), Framing::Text(TextFormat::Log4j)),
        ] {
            let records = split(&framing, &stream, 11, 60);
            assert_eq!(records.len(), 2);
            assert_eq!(records[0].1.len(), 61);
            assert_eq!(records[1].0, (stream.trim_end().rfind('\n').expect("two lines") + 1) as u64);
        }
        for (length, kept) in [(60, 60), (61, 61), (62, 61)] {
            let stream = format!("{}\r\n", "x".repeat(length));
            assert_eq!(split(&Framing::Lines, &stream, 5, 60)[0].1.len(), kept);
        }
    }
}
