//! How messages stand in the file.

/// Longest message of a sample, in characters.
const MESSAGE_CHARS_MAX: usize = 1_024;

/// A message as an incident shows it: cut, and with NUL as U+2400 (Q52).
pub(super) fn shown(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS_MAX).map(|c| if c == '\0' { '\u{2400}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q52_a_nul_is_shown_and_a_long_message_is_cut_between_characters() {
        assert_eq!(shown("a\0b"), "a\u{2400}b");
        let long = "é".repeat(2_000);
        assert_eq!(shown(&long).chars().count(), MESSAGE_CHARS_MAX);
        assert_eq!(shown(&shown(&long)), shown(&long));
    }
}
