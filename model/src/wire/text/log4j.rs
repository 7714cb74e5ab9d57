//! Lines that begin with a date and time: log4j and what writes like it.

use super::level;
use crate::Level;
use crate::time::RawTime;
use crate::wire::Fields;
use std::borrow::Cow;

/// Whether the line begins with a date and time of day.
pub(super) fn begins_record(line: &[u8]) -> bool {
    Timestamp::read(line).is_some()
}

/// Reads a record's first line; of the rest only a logger that stands alone at the end of a message of many lines.
pub(super) fn fields<'a>(line: &'a str, rest: &'a str) -> Option<Fields<'a>> {
    let timestamp = Timestamp::read(line.as_bytes())?;
    let ts = &line[timestamp.start..timestamp.end];
    let (level, text) = level_and_rest(line[timestamp.after..].trim_start())?;
    let trailing = if timestamp.bracketed { trailing_logger(text, rest) } else { None };
    let (source, message) = match trailing.or_else(|| leading_logger(text)) {
        Some((logger, message)) => (Some(Cow::Borrowed(logger)), message),
        None => (None, text),
    };
    Some(Fields {
        ts: RawTime::Text(Cow::Borrowed(ts)),
        level: Some(Cow::Borrowed(level.name())),
        source,
        message: Some(Cow::Borrowed(message.trim())),
        ..Fields::default()
    })
}

/// Where a line's time stands, in bytes of the line. All of it is ASCII.
struct Timestamp {
    start: usize,
    end: usize,
    /// Where the line goes on.
    after: usize,
    bracketed: bool,
}

impl Timestamp {
    /// Reads `2016-12-19 16:12:33,123`, also with a `T`, without the fraction, with a zone, or in brackets.
    fn read(line: &[u8]) -> Option<Self> {
        let bracketed = line.first() == Some(&b'[');
        let start = usize::from(bracketed);
        let rest = line.get(start..)?;
        let digits = |from: usize| rest.get(from..).unwrap_or(&[]).iter().take_while(|b| b.is_ascii_digit()).count();
        let fits = |(position, shape): (usize, &u8)| match (shape, rest.get(position)) {
            (b'0', Some(byte)) => byte.is_ascii_digit(),
            (b' ', Some(byte)) => matches!(byte, b' ' | b'T'),
            (shape, byte) => byte == Some(shape),
        };
        if !SHAPE.iter().enumerate().all(fits) {
            return None;
        }
        let mut length = SHAPE.len();
        if matches!(rest.get(length), Some(b',' | b'.')) {
            length += 1 + digits(length + 1);
        }
        length += zone_length(&rest[length..]);
        let end = start + length;
        let after = match (bracketed, line.get(end)) {
            (true, Some(b']')) => end + 1,
            (false, _) => end,
            _ => return None,
        };
        let goes_on = line.get(after).is_none_or(|byte| byte.is_ascii_whitespace());
        goes_on.then_some(Self { start, end, after, bracketed })
    }
}

/// A date and time of day; each zero stands for a digit, the space also for a `T`.
const SHAPE: &[u8] = b"0000-00-00 00:00:00";

/// The length of `Z`, `+0100` or ` +01:00`.
fn zone_length(rest: &[u8]) -> usize {
    let space = usize::from(rest.first() == Some(&b' '));
    match &rest[space..] {
        [b'Z', ..] if space == 0 => 1,
        [b'+' | b'-', a, b, b':', c, d, ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()) => space + 6,
        [b'+' | b'-', a, b, c, d, ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()) => space + 5,
        _ => 0,
    }
}

/// Reads the level, before which a thread in brackets may stand, and what follows it.
fn level_and_rest(text: &str) -> Option<(Level, &str)> {
    if let Some(found) = level_word(text) {
        return Some(found);
    }
    let (bracketed, rest) = bracket(text)?;
    match level::of_word(bracketed.trim()) {
        Some(level) => Some((level, rest)),
        None => level_word(rest).or_else(|| {
            let (bracketed, rest) = bracket(rest)?;
            Some((level::of_word(bracketed.trim())?, rest))
        }),
    }
}

fn level_word(text: &str) -> Option<(Level, &str)> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Some((level::of_word(word)?, rest.trim_start()))
}

/// What stands in the brackets that the text begins with, and what follows them.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((inside, rest.strip_prefix(' ').or(rest.is_empty().then_some(rest))?.trim_start()))
}

/// Kafka's form: `message (logger)`, the logger alone on the last line when the message has many.
fn trailing_logger<'a>(line: &'a str, rest: &'a str) -> Option<(&'a str, &'a str)> {
    let in_parentheses = |text: &'a str| {
        let (before, logger) = text.trim_end().strip_suffix(')')?.rsplit_once('(')?;
        (is_dotted(logger) && (before.is_empty() || before.ends_with(' '))).then_some((logger, before))
    };
    in_parentheses(line).or_else(|| {
        let last_line = rest.trim_end().lines().next_back()?;
        let (logger, before) = in_parentheses(last_line)?;
        before.trim().is_empty().then_some((logger, line))
    })
}

/// The usual form: `[thread] logger - message`, `logger: message` or Spring Boot's `12345 --- [thread] logger : message`.
fn leading_logger(text: &str) -> Option<(&str, &str)> {
    let mut rest = text;
    if let Some((process, after)) = rest.split_once(" --- ")
        && process.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = after.trim_start();
    }
    for _ in 0..BRACKETS_MAX {
        rest = bracket(rest).map_or(rest, |(_, after)| after);
    }
    let (logger, after) = rest.split_once(char::is_whitespace)?;
    let after = after.trim_start();
    if let Some(message) = after.strip_prefix("- ").or_else(|| after.strip_prefix(": ")) {
        return Some((logger, message));
    }
    let logger = logger.strip_suffix(':')?;
    is_dotted(logger).then_some((logger, after))
}

/// Brackets before a logger that are skipped: application and thread.
const BRACKETS_MAX: usize = 2;

/// Whether this is a name with points in it, as loggers have.
fn is_dotted(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.contains('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$' | b'-'))
}
