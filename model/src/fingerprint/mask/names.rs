//! Names: runs of letters, digits and underscores, joined by single hyphens. Which are words, and which vary.

use super::Scanner;
use super::bytes::{DIGIT, HEX, WORD, is};

impl Scanner<'_, '_> {
    /// Scans the name at the current position. A mark for its beginning also covers what lies between `lead` and it.
    pub(super) fn name(&mut self, lead: usize) {
        if let Some(end) = self.email_end() {
            return self.mark(lead, end);
        }
        let start = self.at;
        let (end, has_digit, has_hyphen) = self.name_end();
        if let Some(end) = self.hex_groups_end(start, end) {
            return self.mark(lead, end);
        }
        if !has_digit {
            if self.is_date_word(start, end) {
                return self.mark(lead, end);
            }
            self.last_word = (start, end);
            self.after_mark &= self.bytes[start..end].iter().all(|&byte| byte == b'_');
            self.at = end;
        } else if has_hyphen {
            self.mark(lead, end);
        } else {
            self.pieces(lead, end);
        }
    }

    fn name_end(&self) -> (usize, bool, bool) {
        let mut has_digit = false;
        let mut has_hyphen = false;
        let mut end = self.at;
        loop {
            while let Some(&byte) = self.bytes.get(end)
                && is(byte, WORD)
            {
                has_digit |= is(byte, DIGIT);
                end += 1;
            }
            let joined = self.bytes.get(end) == Some(&b'-') && self.bytes.get(end + 1).is_some_and(|&b| is(b, WORD));
            if !joined {
                return (end, has_digit, has_hyphen);
            }
            has_hyphen = true;
            end += 1;
        }
    }

    /// Masks a name without hyphens piece by piece, so that the words of `ERR_HTTP2_PROTOCOL_ERROR` stay.
    fn pieces(&mut self, mut lead: usize, end: usize) {
        while self.at < end {
            let start = self.at;
            let piece_end = start + self.run_length(start, |byte| is(byte, WORD) && byte != b'_');
            if piece_end > start {
                self.piece(lead, piece_end);
            }
            while self.at < end && self.bytes[self.at] == b'_' {
                self.at += 1;
            }
            lead = self.at;
        }
    }

    /// Masks one run of letters and digits that ends at `end`.
    fn piece(&mut self, lead: usize, end: usize) {
        let piece = &self.bytes[self.at..end];
        let has_digit = piece.iter().any(|&byte| is(byte, DIGIT));
        let is_variable =
            is(piece[0], DIGIT) || has_digit && (piece.iter().all(|&byte| is(byte, HEX)) || is_random_id(piece));
        if is_variable {
            return self.mark(lead, end);
        }
        while self.at < end {
            let start = self.at;
            let digits = self.run_length(start, |byte| is(byte, DIGIT));
            if digits > 0 {
                self.mark(start, start + digits);
            } else {
                self.after_mark = false;
                self.at += 1;
            }
        }
    }

    /// Whether a name of letters is the month of `19/Dec/2016` or `Dec 19 16:12:33`, or a day of the week before it.
    fn is_date_word(&self, start: usize, end: usize) -> bool {
        let name = &self.bytes[start..end];
        if name.len() != 3 || !name[0].is_ascii_uppercase() {
            return false;
        }
        let byte = |index: usize| self.bytes.get(index).copied().unwrap_or(0);
        if MONTHS.contains(&name) {
            let joins = |byte| matches!(byte, b' ' | b'/');
            let before = start >= 2 && joins(byte(start - 1)) && is(byte(start - 2), DIGIT);
            return before || joins(byte(end)) && is(byte(end + 1), DIGIT);
        }
        let next = end + self.run_length(end, |byte| matches!(byte, b',' | b' '));
        WEEKDAYS.contains(&name)
            && next > end
            && (is(byte(next), DIGIT) || self.bytes.get(next..next + 3).is_some_and(|word| MONTHS.contains(&word)))
    }
}

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const WEEKDAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// Letters in lower case that make a run a word, in an id of letters and digits such as `Base64ToUtf8Converter`.
const WORD_LETTERS_MIN: usize = 4;

/// Whether the run is one of random letters and digits: two groups of digits or more, and nothing like a word.
fn is_random_id(piece: &[u8]) -> bool {
    let groups = piece.chunk_by(|a, b| is(*a, DIGIT) == is(*b, DIGIT)).filter(|group| is(group[0], DIGIT)).count();
    let has_word = piece
        .chunk_by(|a, b| a.is_ascii_lowercase() == b.is_ascii_lowercase())
        .any(|run| run[0].is_ascii_lowercase() && run.len() >= WORD_LETTERS_MIN);
    groups >= 2 && !has_word
}
