//! The words by which text logs name levels.

use crate::Level;

/// The level that a word of a text log names, in any ASCII case.
pub(super) fn of_word(word: &str) -> Option<Level> {
    const WORDS: [(&str, Level); 22] = [
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("trace", Level::Trace),
        ("fatal", Level::Fatal),
        ("warning", Level::Warn),
        // java.util.logging
        ("severe", Level::Error),
        ("config", Level::Info),
        ("fine", Level::Debug),
        ("finer", Level::Trace),
        ("finest", Level::Trace),
        // syslog, nginx, Python
        ("emerg", Level::Fatal),
        ("alert", Level::Fatal),
        ("crit", Level::Fatal),
        ("critical", Level::Fatal),
        ("panic", Level::Fatal),
        ("err", Level::Error),
        ("notice", Level::Info),
        ("information", Level::Info),
        ("log", Level::Info),
        ("verbose", Level::Trace),
    ];
    WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, level)| *level)
}
