//! Quoted values, `'...'` and `"..."`, within a line.

use super::Scanner;
use super::bytes::{WORD, in_word, is};

/// The next closing quote, or the end of the line when none comes before it.
#[derive(Clone, Copy, Default)]
pub(super) struct Next {
    index: usize,
    closes: bool,
}

impl Next {
    fn after(at: usize, bytes: &[u8], quote: u8) -> Self {
        let closes = |index: usize| {
            bytes[index] == quote
                && bytes[index - 1] != b'\\'
                && bytes.get(index + 1).is_none_or(|&next| !in_word(next))
        };
        (at + 1..bytes.len())
            .find(|&index| bytes[index] == b'\n' || closes(index))
            .map_or(Self { index: bytes.len(), closes: false }, |index| Self { index, closes: bytes[index] == quote })
    }
}

impl Scanner<'_, '_> {
    /// Masks the quoted value that begins here, quotes included. Kept are: an apostrophe, which follows a word
    /// (`don't`) or has no closing quote; a JSON key; and code, whose name is what tells bugs apart
    /// (`Cannot invoke "Cart.total()"`).
    pub(super) fn quote(&mut self, quote: u8) {
        let start = self.at;
        let opens = !self.follows_word() && self.kept_closing_quote != Some(start);
        let closing = if opens { self.closing_quote(quote) } else { None };
        let Some(closing) = closing else { return self.keep(1) };
        if self.is_key(start, closing) || is_call(&self.bytes[start + 1..closing]) {
            self.kept_closing_quote = Some(closing);
            self.keep(1);
        } else {
            self.mark(start, closing + 1);
        }
    }

    /// The quote that closes the one at the current position: on the same line, not escaped, and not inside a word.
    ///
    /// Whether a quote closes does not depend on the one that it closes, so that each is looked for once.
    fn closing_quote(&mut self, quote: u8) -> Option<usize> {
        let next = &mut self.next_quotes[usize::from(quote == b'"')];
        if next.index <= self.at {
            *next = Next::after(self.at, self.bytes, quote);
        }
        next.closes.then_some(next.index)
    }

    /// Whether the quoted text is the key of a JSON object: after a brace or a comma, and before a colon.
    fn is_key(&self, start: usize, closing: usize) -> bool {
        let before = self.bytes[..start].iter().rev().find(|&&byte| byte != b' ');
        let after = self.bytes[closing + 1..].iter().find(|&&byte| byte != b' ');
        after == Some(&b':') && matches!(before, Some(b'{' | b','))
    }
}

/// Whether a quoted text is a call, such as `String.length()`.
fn is_call(text: &[u8]) -> bool {
    let name = text.iter().position(|&byte| byte == b'(').unwrap_or(0);
    name > 0 && text.ends_with(b")") && text[..name].iter().all(|&byte| is(byte, WORD) || matches!(byte, b'.' | b'$'))
}
