//! What can go wrong with a store, classified once (by code and phase).

use std::fmt;

/// What the caller should do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The store is away, restarting or overloaded: wait with back-off and repeat the same call.
    Transient,
    /// Repeating will not help: stop loudly.
    Permanent,
    /// Another process has taken the pipeline over (decision 8): stop at once, write nothing more.
    Fenced,
}

/// Said after what a store says of a table or column that it does not know.
pub(crate) const MIGRATE: &str = ": its schema is missing, or of another release: run `floodmark migrate`";

/// A failed call to a store. Its message says which store, what was tried and what the store said; never a
/// password.
#[derive(Debug)]
pub struct StoreError {
    /// The store's name.
    pub store: &'static str,
    /// What was tried, such as `insert occurrences`.
    pub action: &'static str,
    /// What the caller should do.
    pub failure: Failure,
    /// What the store or its client said.
    pub detail: String,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.store, self.action, self.detail)
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.failure == Failure::Transient
    }
}
