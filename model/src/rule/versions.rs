//! Versions of a rule: every window is judged by the version of its own start (Q51).
//!
//! # Invariants
//!
//! - Versions begin at window starts, and each one later than the one before it.
//! - What lies before the first version is judged by the first.

use super::{Rule, RuleMatch};
use crate::{EventTime, Window};

/// The most versions of one rule.
pub const VERSIONS_MAX: usize = 100;

/// Why a rule cannot be changed so. The rule before the change stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Its windows are others.
    #[error(
        "rule {name:?} was started with windows of {was_ms} ms in {were_buckets} buckets and is configured with {is_ms} ms \
         in {are_buckets}: incidents are known by the rule's name, so another window length or other buckets need \
         another name; give the rule a new one, or put its window back"
    )]
    OtherWindows {
        /// The rule.
        name: String,
        /// Window length in milliseconds, as stored.
        was_ms: i64,
        /// Buckets, as stored.
        were_buckets: u16,
        /// Window length in milliseconds, as configured.
        is_ms: i64,
        /// Buckets, as configured.
        are_buckets: u16,
    },
    /// There are [`VERSIONS_MAX`] already.
    #[error("rule {name:?} has been changed {VERSIONS_MAX} times, which is the limit: give it a new name")]
    TooMany {
        /// The rule.
        name: String,
    },
}

/// What a rule matches from one time on to another. The spans of a rule follow each other without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchSpan<'a> {
    /// First instant; [`EventTime::MIN`] in the first span.
    pub from: EventTime,
    /// First instant after it; `None` in the last span.
    pub until: Option<EventTime>,
    /// What is matched.
    pub matches: &'a RuleMatch,
}

impl Rule {
    /// All versions, oldest first, this one last.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = &Self> {
        self.earlier.iter().chain([self])
    }

    /// The version that judges a window, by its start or by any other time in it.
    #[must_use]
    pub fn at(&self, time: EventTime) -> &Self {
        self.versions().rev().find(|version| version.from <= time).unwrap_or_else(|| self.first())
    }

    fn first(&self) -> &Self {
        self.earlier.first().unwrap_or(self)
    }

    /// What it matches, by time. Versions that match alike share a span, so that there is one unless the match has
    /// changed.
    #[must_use]
    pub fn match_spans(&self) -> Vec<MatchSpan<'_>> {
        let mut spans: Vec<MatchSpan<'_>> = Vec::new();
        for version in self.versions() {
            match spans.last_mut() {
                Some(last) if *last.matches == version.matches => {}
                Some(last) => {
                    last.until = Some(version.from);
                    spans.push(MatchSpan { from: version.from, until: None, matches: &version.matches });
                }
                None => spans.push(MatchSpan { from: EventTime::MIN, until: None, matches: &version.matches }),
            }
        }
        spans
    }

    /// A rule of these versions, oldest first; `None` when there are none.
    #[must_use]
    pub fn of_versions(mut versions: Vec<Self>) -> Option<Self> {
        let newest = versions.pop()?;
        Some(Self { earlier: versions, ..newest })
    }

    /// Whether two versions differ in nothing but when they judge.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let content = |rule: &Self| Self { from: EventTime::MIN, earlier: Vec::new(), ..rule.clone() };
        content(self) == content(other)
    }

    /// The rule from a restart on, for which it was `configured` so: a change judges the windows that start after the
    /// `watermark` of the restart. A version that has not begun by then is replaced; without a watermark nothing has been
    /// judged, and that is every version.
    ///
    /// # Errors
    ///
    /// The change needs another name.
    pub fn changed_to(self, configured: &Self, watermark: Option<EventTime>) -> Result<Self, VersionError> {
        if self.says_the_same(configured) {
            return Ok(self);
        }
        let watermark = watermark.filter(|time| *time > EventTime::MIN);
        let after = watermark.map(|time| Window::containing(time, self.window_ms).next().start);
        let has_begun = |version: &&Self| after.is_some_and(|after| version.from < after);
        let mut versions: Vec<Self> =
            self.versions().filter(has_begun).map(|version| Self { earlier: Vec::new(), ..version.clone() }).collect();
        match versions.last() {
            Some(last) if last.says_the_same(configured) => {}
            Some(last) if (last.window_ms, last.buckets) != (configured.window_ms, configured.buckets) => {
                return Err(VersionError::OtherWindows {
                    name: last.name.clone(),
                    was_ms: last.window_ms,
                    were_buckets: last.buckets,
                    is_ms: configured.window_ms,
                    are_buckets: configured.buckets,
                });
            }
            Some(last) if versions.len() >= VERSIONS_MAX => {
                return Err(VersionError::TooMany { name: last.name.clone() });
            }
            Some(_) => versions.push(Self { from: after.unwrap_or(EventTime::MIN), ..configured.clone() }),
            None => versions.push(Self { from: EventTime::MIN, ..configured.clone() }),
        }
        Ok(Self::of_versions(versions).unwrap_or(self))
    }
}
