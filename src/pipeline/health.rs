//! Whether the pipeline is ready, and if not, why (G-7).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What each part last said: `None` is well.
#[derive(Debug, Default)]
pub struct Health {
    troubles: Mutex<BTreeMap<&'static str, String>>,
}

impl Health {
    /// A pipeline that is not ready before it says so.
    #[must_use]
    pub fn starting() -> Self {
        let health = Self::default();
        health.starts();
        health
    }

    /// A pipeline starts, for the first time or anew: not ready before it says so.
    pub fn starts(&self) {
        self.trouble("pipeline", "starting: recovering from the stores");
    }

    /// A part is in trouble; the text says what and what is being done.
    pub fn trouble(&self, part: &'static str, what: impl Into<String>) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).insert(part, what.into());
    }

    /// A part is well.
    pub fn well(&self, part: &'static str) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).remove(part);
    }

    /// What is wrong, by part; empty when the pipeline is ready.
    #[must_use]
    pub fn troubles(&self) -> BTreeMap<&'static str, String> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
