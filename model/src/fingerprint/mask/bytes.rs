//! Classes of bytes, looked up in a table.

/// `0` to `9`.
pub(super) const DIGIT: u8 = 1;
/// `0` to `9`, `a` to `f`, `A` to `F`.
pub(super) const HEX: u8 = 2;
/// ASCII letters and digits, and `_`.
pub(super) const WORD: u8 = 4;
/// What may stand between two marks that become one.
pub(super) const SEPARATOR: u8 = 8;
/// A rule begins here.
pub(super) const SPECIAL: u8 = 16;

/// Whether the byte is in one of the classes.
pub(super) fn is(byte: u8, classes: u8) -> bool {
    CLASSES[byte as usize] & classes != 0
}

/// Whether the byte belongs to a word; bytes of other scripts do.
pub(super) fn in_word(byte: u8) -> bool {
    is(byte, WORD) || byte >= 0x80
}

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT | HEX | WORD,
            b'a'..=b'f' | b'A'..=b'F' => HEX | WORD,
            b'a'..=b'z' | b'A'..=b'Z' => WORD,
            b'_' => WORD | SEPARATOR,
            b' ' | b'\t' | b',' | b';' | b'/' | b'|' | b'%' => SEPARATOR,
            b'-' | b'+' | b'.' | b':' => SEPARATOR | SPECIAL,
            b'\'' | b'"' | b'[' | b'@' | b'=' | b'?' => SPECIAL,
            _ => 0,
        };
        byte += 1;
    }
    classes
};
