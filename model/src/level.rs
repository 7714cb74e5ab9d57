//! Severity levels and their order (Q48).

use serde::{Deserialize, Serialize};

/// `trace < debug < info < warn < error < fatal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Level {
    /// Finest detail.
    Trace = 1,
    /// For developers.
    Debug = 2,
    /// Normal operation.
    Info = 3,
    /// Something to look at; the default rule matches from here on.
    Warn = 4,
    /// Something failed. A record without a level, or with an unknown one, counts as this.
    Error = 5,
    /// The process or the service is gone.
    Fatal = 6,
}

impl Level {
    /// The level a record names, in any ASCII case; absent and unknown names are [`Level::Error`] (Q48).
    #[must_use]
    pub fn from_name(name: Option<&str>) -> Self {
        const NAMES: [(&str, Level); 9] = [
            ("trace", Level::Trace),
            ("debug", Level::Debug),
            ("info", Level::Info),
            ("warn", Level::Warn),
            ("warning", Level::Warn),
            ("error", Level::Error),
            ("fatal", Level::Fatal),
            ("critical", Level::Fatal),
            ("notice", Level::Info),
        ];
        let Some(name) = name.map(str::trim) else { return Self::Error };
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(Self::Error, |(_, level)| *level)
    }

    /// The lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }

    /// The level with this number (`Level::Warn as u8`).
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error, Self::Fatal]
            .into_iter()
            .find(|level| *level as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn q48_absent_and_unknown_levels_are_errors() {
        assert_eq!(Level::from_name(None), Level::Error);
        assert_eq!(Level::from_name(Some("severe-ish")), Level::Error);
        assert_eq!(Level::from_name(Some("WARNING")), Level::Warn);
        assert!(Level::Warn < Level::Error && Level::Info < Level::Warn);
    }

    #[test]
    fn numbers_and_names_go_both_ways() {
        for number in 1..=6 {
            let level = Level::from_number(number).expect("six levels");
            assert_eq!(level as u8, number);
            assert_eq!(Level::from_name(Some(level.name())), level);
        }
        assert_eq!(Level::from_number(0), None);
    }
}
