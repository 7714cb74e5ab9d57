//! The 128-bit identity of a bug, and how it is computed: from the service, the class of the level, the exception
//! type and the message with what varies from one occurrence to the next [masked](masked). Not from the tenant.

mod mask;

use crate::Level;
use crate::identity::KeyHasher;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Part of every computed fingerprint: raised whenever the masks or the hashed fields change, since stored
/// fingerprints of the same bug then differ. A test pins values.
pub const FINGERPRINT_VERSION: u8 = 1;

/// The same bug gives the same fingerprint on every machine and every run. Shown as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// Of what is about no bug.
    pub const NONE: Self = Self([0; 16]);

    /// The fingerprint with these bits.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    /// The bits, as the number that the 32 hex digits write.
    #[must_use]
    pub fn bits(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// Reads 32 hex digits of any case.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        let mut bytes = [0; 16];
        let mut all = 0;
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| NIBBLES[usize::from(digit)]);
            *byte = high << 4 | low;
            all |= high | low;
        }
        (all != NO_NIBBLE).then_some(Self(bytes))
    }
}

/// What marks a byte that is no hex digit: all bits, so that it survives an "or" with any nibble.
const NO_NIBBLE: u8 = 0xff;

/// The value of each hex digit: clients that give their own fingerprint do so in every record.
const NIBBLES: [u8; 256] = {
    let mut nibbles = [NO_NIBBLE; 256];
    let mut value = 0;
    while value < 16 {
        nibbles[b"0123456789abcdef"[value] as usize] = value as u8;
        nibbles[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    nibbles
};

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.bits())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a fingerprint is computed from. Absent text is empty.
#[derive(Clone, Copy, Debug)]
pub struct FingerprintInput<'a> {
    /// Service name, taken as it is.
    pub service: &'a str,
    /// Severity, of which only the class counts: see [`compute`].
    pub level: Level,
    /// Exception type, masked like the message: generated classes (`Proxy$42`) are numbered.
    pub exception_type: &'a str,
    /// Message, masked.
    pub message: &'a str,
}

/// Computes the fingerprint.
///
/// There are two classes of levels: warn and above, and all below. A failure that is logged as `warn` while it is
/// retried and as `error` at the last try is one bug.
#[must_use]
pub fn compute(input: &FingerprintInput<'_>) -> Fingerprint {
    let mut key = KeyHasher::new("fingerprint");
    key.field(Some(&[FINGERPRINT_VERSION, level_class(input.level)]));
    key.field(Some(input.service.as_bytes()));
    let mut text = String::with_capacity(input.message.len().max(input.exception_type.len()) + MASK_SLACK);
    mask::mask(input.exception_type, &mut text);
    key.field(Some(text.as_bytes()));
    text.clear();
    mask::mask(input.message, &mut text);
    key.field(Some(text.as_bytes()));
    Fingerprint::from_bits(key.finish())
}

/// A message as its fingerprint sees it: each variable part is `<*>`, and a list of them is one. A URL's query is left
/// out.
///
/// ```
/// use floodmark_model::fingerprint::masked;
/// assert_eq!(masked("User 42 not found on kafka1:9092 after 35ms"), "User <*> not found on kafka<*> after <*>");
/// assert_eq!(masked("ISR = List(1, 2)"), masked("ISR = List(0)"));
/// ```
#[must_use]
pub fn masked(message: &str) -> String {
    let mut text = String::with_capacity(message.len() + MASK_SLACK);
    mask::mask(message, &mut text);
    text
}

/// A mask may be longer than what it stands for; this much more room nearly always spares a second allocation.
const MASK_SLACK: usize = 32;

fn level_class(level: Level) -> u8 {
    match level {
        Level::Trace | Level::Debug | Level::Info => 0,
        Level::Warn | Level::Error | Level::Fatal => 1,
    }
}

#[cfg(test)]
mod tests;
