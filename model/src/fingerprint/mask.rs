//! Masking: a message with what varies between the occurrences of one bug replaced by a mark.
//!
//! One pass, by hand, over bytes; text is cut at ASCII bytes only. All kinds of variable parts leave the same mark,
//! since one place may hold `26408511` in one message and `4e3f58bf` in the next, and marks with nothing but
//! punctuation between them become one, so that `16:12:33,123`, `10.0.0.1:9092` and lists of any length are one mark.
//!
//! | masked | how it is known |
//! | --- | --- |
//! | numbers, also with a sign or a unit; ids that begin with a digit | a run of letters and digits that begins with one |
//! | hex | a run of hex digits, one of them 0 to 9 |
//! | UUIDs, thread names, pods, topic partitions, numbered hosts | names joined by hyphens with a digit somewhere |
//! | the digits of other words, such as `kafka1` | the letters stay; but `Lx8fK2jd` is an id: [`names`] |
//! | IPv6 and MAC addresses | groups of hex digits with two colons |
//! | quoted values | [`quotes`], which knows apostrophes, and keeps JSON keys and quoted code |
//! | emails, object hashes (`Request@7bfde3`) | around an `@` |
//! | `[name,12]` | Kafka's topic and partition |
//! | `topic=orders` | keys that name an instance: [`assignments`] |
//! | dates with a month's name | a month beside a number |
//! | a URL's query | left out |
//!
//! Invariants, which tests cite: **M-1** Another run of digits for a run of digits changes nothing. **M-2** Another
//! uuid, address, hash or quoted value changes nothing. **M-3** Another word, where none of the rules above applies,
//! changes the result. **M-4** No text panics, and the work is linear in its length.

mod addresses;
mod assignments;
mod bytes;
mod names;
mod quotes;

use bytes::{DIGIT, SEPARATOR, SPECIAL, WORD, is};

/// What stands for a variable part.
const MARK: &str = "<*>";

/// Appends the masked text to `out`.
pub(super) fn mask(text: &str, out: &mut String) {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        copied: 0,
        after_mark: false,
        last_word: (0, 0),
        at_sign: None,
        next_quotes: [quotes::Next::default(); 2],
        kept_closing_quote: None,
        out,
    };
    scanner.run();
}

/// A position in a text, and what was found before it.
struct Scanner<'a, 'o> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// The text before this is in `out`; what lies between here and `at` is kept as it is.
    copied: usize,
    /// A mark has been written, and only separators came after it.
    after_mark: bool,
    /// Start and end of the last word that was kept.
    last_word: (usize, usize),
    /// The first `@` at or after the last place that was asked about; the length of the text when there is none.
    at_sign: Option<usize>,
    /// Where the next closing quote stands, for `'` and `"`.
    next_quotes: [quotes::Next; 2],
    /// The closing quote of a quoted text that is kept; it opens nothing.
    kept_closing_quote: Option<usize>,
    out: &'o mut String,
}

impl Scanner<'_, '_> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            if is(byte, WORD) {
                self.name(self.at);
            } else if is(byte, SPECIAL) {
                self.special(byte);
            } else {
                self.keep(1);
            }
        }
        self.out.push_str(&self.text[self.copied..]);
    }

    fn special(&mut self, byte: u8) {
        match byte {
            b'-' | b'+' | b'.' => self.sign(),
            b'\'' | b'"' => self.quote(byte),
            b':' => self.colon(),
            b'[' => self.bracket(),
            b'@' => self.object_hash(),
            b'=' => self.assignment(),
            b'?' => self.query(),
            _ => self.keep(1),
        }
    }

    /// Keeps `length` bytes as they are; all of them separators or none.
    fn keep(&mut self, length: usize) {
        self.after_mark &= is(self.bytes[self.at], SEPARATOR);
        self.at += length;
    }

    /// Puts a mark for the text from `start` to `end` and goes on behind it; none when the last mark stands for it too.
    fn mark(&mut self, start: usize, end: usize) {
        if !self.after_mark {
            self.out.push_str(&self.text[self.copied..start]);
            self.out.push_str(MARK);
        }
        self.after_mark = true;
        self.copied = end;
        self.at = end;
    }

    /// A sign, or the point of `.5`, belongs to its number when no word stands before it.
    fn sign(&mut self) {
        let start = self.at;
        let starts_number = is(self.peek(1), DIGIT) && !self.follows_word();
        self.keep(1);
        if starts_number {
            self.name(start);
        }
    }

    /// `[name,12]`: a topic and its partition.
    fn bracket(&mut self) {
        self.keep(1);
        let start = self.at;
        let name = self.run_length(start, |byte| is(byte, WORD) || matches!(byte, b'.' | b'-'));
        let mut end = start + name;
        if name == 0 || self.bytes.get(end) != Some(&b',') {
            return;
        }
        end += 1;
        end += usize::from(self.bytes.get(end) == Some(&b' '));
        let digits = self.run_length(end, |byte| is(byte, DIGIT));
        if digits > 0 && self.bytes.get(end + digits) == Some(&b']') {
            self.mark(start, end + digits);
        }
    }

    /// The query of a URL or path, `?key=...`, is left out up to the end of the URL.
    fn query(&mut self) {
        let key = self.run_length(self.at + 1, |byte| is(byte, WORD) || matches!(byte, b'.' | b'-' | b'[' | b']'));
        let in_url = self.follows_word() || self.at > 0 && matches!(self.bytes[self.at - 1], b'/' | b'-');
        let is_query = in_url && key > 0 && self.bytes.get(self.at + 1 + key) == Some(&b'=');
        if !is_query {
            return self.keep(1);
        }
        self.out.push_str(&self.text[self.copied..self.at]);
        self.at += self.run_length(self.at, |byte| !matches!(byte, b'\0'..=b' ' | b'"' | b'\'' | b')' | b'>'));
        self.copied = self.at;
        self.after_mark = false;
    }

    /// The byte `distance` after the current one, NUL behind the end.
    fn peek(&self, distance: usize) -> u8 {
        self.bytes.get(self.at + distance).copied().unwrap_or(0)
    }

    /// Whether the byte before the current one belongs to a word.
    fn follows_word(&self) -> bool {
        self.at > 0 && bytes::in_word(self.bytes[self.at - 1])
    }

    /// How many bytes from `start` on are so.
    fn run_length(&self, start: usize, is_so: impl Fn(u8) -> bool) -> usize {
        self.bytes.get(start..).map_or(0, |rest| rest.iter().position(|&byte| !is_so(byte)).unwrap_or(rest.len()))
    }
}

#[cfg(test)]
mod tests;
