//! Addresses: groups of hex digits between colons, and what stands around an `@`.

use super::Scanner;
use super::bytes::{DIGIT, HEX, WORD, in_word, is};

/// How far an address is looked at, which keeps the work linear in a long run of groups that is none.
const ADDRESS_BYTES_MAX: usize = 64;

impl Scanner<'_, '_> {
    /// The end of an IPv6 or MAC address whose first group is the name from `start` to `end`. A time of day is read as
    /// one as well, to the same effect.
    pub(super) fn hex_groups_end(&self, start: usize, end: usize) -> Option<usize> {
        let begins_so = self.bytes.get(end) == Some(&b':') && self.bytes[start..end].iter().all(|&byte| is(byte, HEX));
        if !begins_so {
            return None;
        }
        let mut end = start + self.address_length(start);
        if self.bytes[end - 1] == b':' && self.bytes[end - 2] != b':' {
            end -= 1;
        }
        let groups = &self.bytes[start..end];
        let colons = groups.iter().filter(|&&byte| byte == b':').count();
        let ends_so = self.bytes.get(end).is_none_or(|&byte| !in_word(byte));
        let has_digit = groups.iter().any(|&byte| is(byte, DIGIT));
        (colons >= 2 && ends_so && (has_digit || colons >= 5)).then_some(end)
    }

    /// `::1`: an address that begins with colons; after a word they are something else.
    pub(super) fn colon(&mut self) {
        let start = self.at;
        if self.peek(1) == b':' && is(self.peek(2), HEX) && !self.follows_word() {
            let end = start + self.address_length(start);
            if self.bytes.get(end).is_none_or(|&byte| !in_word(byte)) {
                return self.mark(start, end);
            }
        }
        self.keep(1);
    }

    /// The length of the hex digits and colons at `start`.
    fn address_length(&self, start: usize) -> usize {
        let end = self.bytes.len().min(start + ADDRESS_BYTES_MAX);
        let bytes = &self.bytes[start..end];
        bytes.iter().position(|&byte| !is(byte, HEX) && byte != b':').unwrap_or(bytes.len())
    }

    /// `FetchRequest@7bfde3`: the hash may consist of letters alone.
    pub(super) fn object_hash(&mut self) {
        let follows_word = self.follows_word();
        self.keep(1);
        let start = self.at;
        let end = start + self.run_length(start, |byte| is(byte, HEX) && !byte.is_ascii_uppercase());
        let ends_so = self.bytes.get(end).is_none_or(|&byte| !in_word(byte));
        if follows_word && end > start && ends_so {
            self.mark(start, end);
        }
    }

    /// The end of the email address that begins at the current position.
    pub(super) fn email_end(&mut self) -> Option<usize> {
        let start = self.at;
        let at_sign = self.next_at_sign();
        let begins_so = start == 0 || !in_local_part(self.bytes[start - 1]);
        let has_local_part = at_sign < self.bytes.len() && self.bytes[start..at_sign].iter().all(|&b| in_local_part(b));
        if !begins_so || !has_local_part {
            return None;
        }
        let mut end = at_sign + 1 + self.run_length(at_sign + 1, |byte| is(byte, WORD) || matches!(byte, b'.' | b'-'));
        while matches!(self.bytes[end - 1], b'.' | b'-') {
            end -= 1;
        }
        let domain = &self.bytes[at_sign + 1..end.max(at_sign + 1)];
        let dot = domain.iter().rposition(|&byte| byte == b'.')?;
        let top_level = &domain[dot + 1..];
        (dot > 0 && top_level.len() >= 2 && top_level.iter().all(u8::is_ascii_alphabetic)).then_some(end)
    }

    /// The first `@` at or after the current position; the length of the text when there is none.
    fn next_at_sign(&mut self) -> usize {
        match self.at_sign {
            Some(at_sign) if at_sign >= self.at => at_sign,
            _ => {
                let found = self.at + self.run_length(self.at, |byte| byte != b'@');
                self.at_sign = Some(found);
                found
            }
        }
    }
}

fn in_local_part(byte: u8) -> bool {
    is(byte, WORD) || matches!(byte, b'.' | b'+' | b'-' | b'%')
}
