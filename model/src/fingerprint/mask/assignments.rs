//! `key=value` where the key says that the value names one of many: a topic, a host, a session.
//!
//! Other values stay, since they may be what tells two bugs apart (`state=TIMEOUT`, `reason=refused`).

use super::Scanner;
use super::bytes::{WORD, is};

/// Keys, in any case, whose value is one of many; those that end in an `id` word are too.
const INSTANCE_KEYS: [&[u8]; 20] = [
    b"account",
    b"address",
    b"client",
    b"container",
    b"customer",
    b"email",
    b"group",
    b"host",
    b"hostname",
    b"id",
    b"instance",
    b"ip",
    b"node",
    b"partition",
    b"pod",
    b"queue",
    b"session",
    b"topic",
    b"user",
    b"username",
];

/// How the names of ids end.
const ID_ENDINGS: [&[u8]; 4] = [b"Id", b"ID", b"_id", b"-id"];

impl Scanner<'_, '_> {
    /// An equals sign: masks the value when the word before it is a key that names an instance.
    pub(super) fn assignment(&mut self) {
        let (start, end) = self.last_word;
        let key = if end == self.at { &self.bytes[start..end] } else { &[] };
        let names_instance = INSTANCE_KEYS.iter().any(|known| known.eq_ignore_ascii_case(key))
            || ID_ENDINGS.iter().any(|ending| key.ends_with(ending));
        self.keep(1);
        if !names_instance {
            return;
        }
        let start = self.at;
        let mut end = start + self.run_length(start, |byte| is(byte, WORD) || matches!(byte, b'.' | b'-' | b':'));
        while end > start && matches!(self.bytes[end - 1], b'.' | b'-' | b':') {
            end -= 1;
        }
        if end > start {
            self.mark(start, end);
        }
    }
}
