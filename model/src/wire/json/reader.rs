//! A JSON reader that borrows: it steps through one text, hands out the values that are asked for, and checks the
//! syntax of what is skipped.
//!
//! It exists beside `serde_json` because the hot path needs what that hides: a number's text (a decimal `ts` in a
//! float loses milliseconds), the difference between too deep and malformed, a depth limit on what is skipped, and
//! half of its time (`docs/decisions`). Escapes, which are rare, are left to `serde_json`. A property test holds both
//! to the same language.

use super::super::Rejected;
use super::super::fields::bool_text;
use crate::DeadReason;
use std::borrow::Cow;

/// Levels of objects and arrays that a text may have. The reader's own stack grows by one call a level.
pub(in crate::wire) const DEPTH_MAX: u32 = 128;

/// What reading gives. The error is boxed: it is rare, and the result of every step fits registers without it.
type Read<T> = Result<T, Box<Rejected>>;

/// A value, borrowed from the text.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::wire) enum Value<'a> {
    Null,
    Bool(bool),
    /// Its text.
    Number(&'a str),
    /// Unescaped.
    String(Cow<'a, str>),
    /// The text of an object or an array.
    Composite(&'a str),
}

impl<'a> Value<'a> {
    /// The value as text; `None` for null.
    pub(in crate::wire) fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Null => None,
            Self::Bool(value) => Some(Cow::Borrowed(bool_text(value))),
            Self::Number(text) | Self::Composite(text) => Some(Cow::Borrowed(text)),
            Self::String(text) => Some(text),
        }
    }
}

/// A string as it stands in the text.
#[derive(Clone, Copy)]
pub(in crate::wire) struct RawString<'a> {
    /// Without its quotes.
    text: &'a str,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// What the string says.
    ///
    /// # Errors
    /// `malformed_json` for a lone surrogate: it is no text.
    #[inline]
    pub(in crate::wire) fn unescape(self) -> Read<Cow<'a, str>> {
        if self.escaped {
            return unescape(self.text);
        }
        Ok(Cow::Borrowed(self.text))
    }
}

#[cold]
fn unescape(text: &str) -> Read<Cow<'static, str>> {
    serde_json::from_str::<String>(&format!("\"{text}\""))
        .map(Cow::Owned)
        .map_err(|error| rejected(DeadReason::MalformedJson, format!("a string is no text: {error}")))
}

/// Steps through one JSON text.
pub(in crate::wire) struct Reader<'a> {
    text: &'a str,
    /// Where in `text`; always between two characters.
    at: usize,
    depth: u32,
    /// Whether an object or array was just opened, so that no comma is due.
    opened: bool,
}

impl<'a> Reader<'a> {
    pub(in crate::wire) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0, opened: false }
    }

    /// Enters the one object of a record.
    ///
    /// # Errors
    /// `not_an_object` when the text is JSON of another kind, and those of its syntax.
    pub(in crate::wire) fn open_record(&mut self) -> Read<()> {
        if self.at_object() {
            return self.open_object();
        }
        self.skip_value()?;
        self.end()?;
        Err(rejected(DeadReason::NotAnObject, "the record is JSON, but not an object".into()))
    }

    /// Whether an object comes next.
    pub(in crate::wire) fn at_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// Whether an array comes next.
    pub(in crate::wire) fn at_array(&mut self) -> bool {
        self.peek() == Some(b'[')
    }

    /// Where the next value begins: for [`Reader::since`].
    pub(in crate::wire) fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The text from a [`Reader::position`] up to here.
    pub(in crate::wire) fn since(&self, position: usize) -> &'a str {
        &self.text[position..self.at]
    }

    /// Enters an object; [`Reader::next_key`] leaves it.
    pub(in crate::wire) fn open_object(&mut self) -> Read<()> {
        self.open(b'{')
    }

    /// Enters an array; [`Reader::next_item`] leaves it.
    pub(in crate::wire) fn open_array(&mut self) -> Read<()> {
        self.open(b'[')
    }

    /// The next key of the object, behind its colon: its value has to be read or skipped next. `None` leaves the
    /// object.
    #[inline]
    pub(in crate::wire) fn next_key(&mut self) -> Read<Option<RawString<'a>>> {
        if !self.next(b'}')? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.fault("expected a key"));
        }
        let key = self.string()?;
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// Whether the array has a next item, which has to be read or skipped next. `false` leaves the array.
    pub(in crate::wire) fn next_item(&mut self) -> Read<bool> {
        self.next(b']')
    }

    /// The next value.
    #[inline]
    pub(in crate::wire) fn value(&mut self) -> Read<Value<'a>> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?.unescape()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            Some(b'n') => self.literal("null").map(|()| Value::Null),
            Some(b't') => self.literal("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.literal("false").map(|()| Value::Bool(false)),
            _ => {
                let start = self.at;
                self.skip_value()?;
                Ok(Value::Composite(self.since(start)))
            }
        }
    }

    /// Passes over the next value. Its syntax is checked, but not whether its strings are text.
    pub(in crate::wire) fn skip_value(&mut self) -> Read<()> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            Some(b'n') => self.literal("null"),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'{') => {
                self.open_object()?;
                while self.next_key()?.is_some() {
                    self.skip_value()?;
                }
                Ok(())
            }
            Some(b'[') => {
                self.open_array()?;
                while self.next_item()? {
                    self.skip_value()?;
                }
                Ok(())
            }
            _ => Err(self.fault("expected a value")),
        }
    }

    /// The text ends here.
    ///
    /// # Errors
    /// `malformed_json` when more follows than white space.
    pub(in crate::wire) fn end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fault("expected the end of the record")),
        }
    }

    /// The next byte that is not white space, which is passed over.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.peek() != Some(byte) {
            return Err(self.fault(match byte {
                b':' => "expected a colon",
                b',' => "expected a comma or the end of an object or array",
                _ => "expected an object or array",
            }));
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Read<()> {
        self.expect(bracket)?;
        if self.depth == DEPTH_MAX {
            let detail = format!("more than {DEPTH_MAX} levels of objects and arrays");
            return Err(rejected(DeadReason::TooDeep, detail));
        }
        self.depth += 1;
        self.opened = true;
        Ok(())
    }

    /// Passes the comma before a key or item; `false` when the closing bracket came instead.
    #[inline]
    fn next(&mut self, closing: u8) -> Read<bool> {
        if self.peek() == Some(closing) {
            self.at += 1;
            self.depth -= 1;
            self.opened = false;
            return Ok(false);
        }
        if !std::mem::take(&mut self.opened) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn literal(&mut self, literal: &'static str) -> Read<()> {
        if !self.text[self.at..].starts_with(literal) {
            return Err(self.fault("expected a value"));
        }
        self.at += literal.len();
        Ok(())
    }

    fn number(&mut self) -> Read<&'a str> {
        let start = self.at;
        self.pass(b"-");
        if !self.pass(b"0") {
            self.digits()?;
        }
        if self.pass(b".") {
            self.digits()?;
        }
        if self.pass(b"eE") {
            self.pass(b"+-");
            self.digits()?;
        }
        Ok(self.since(start))
    }

    /// Passes one byte if it is one of these.
    fn pass(&mut self, any_of: &[u8]) -> bool {
        let passed = self.text.as_bytes().get(self.at).is_some_and(|byte| any_of.contains(byte));
        self.at += usize::from(passed);
        passed
    }

    /// Passes one digit or more.
    fn digits(&mut self) -> Read<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.fault("expected a digit"));
        }
        self.at += count;
        Ok(())
    }

    /// The string whose quote comes next.
    #[inline]
    fn string(&mut self) -> Read<RawString<'a>> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at = find_special(bytes, self.at);
            match bytes.get(self.at) {
                Some(b'"') => {
                    let text = self.since(start);
                    self.at += 1;
                    return Ok(RawString { text, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.pass_escape()?;
                }
                Some(_) => return Err(self.fault("a control character in a string has to be escaped")),
                None => return Err(self.fault("expected the end of a string")),
            }
        }
    }

    fn pass_escape(&mut self) -> Read<()> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        self.at += match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()) => 6,
            _ => return Err(self.fault("an unknown escape")),
        };
        Ok(())
    }

    #[cold]
    fn fault(&self, what: &str) -> Box<Rejected> {
        let detail = match self.text.len() - self.at {
            0 => format!("{what}, but the record ends at byte {}", self.at),
            _ => format!("{what} at byte {}", self.at),
        };
        rejected(DeadReason::MalformedJson, detail)
    }
}

#[cold]
fn rejected(reason: DeadReason, detail: String) -> Box<Rejected> {
    Box::new(Rejected::new(reason, detail))
}

/// The position at or after `at` of the first quote, backslash or control character, or the end; eight bytes a step.
#[inline]
fn find_special(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    // The highest bit of each byte that is below `limit`; after the first such byte the others may be wrong.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGHS;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let special = quote | backslash | below(word, 0x20);
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
