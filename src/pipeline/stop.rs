//! Why and when a pipeline ends. The first reason wins.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Why a pipeline ended.
#[derive(Debug)]
pub enum Ending {
    /// Somebody asked for it.
    Requested,
    /// The input was read to its end, and all of it is stored.
    Finished,
    /// What is in memory no longer fits the log (the topic was created anew): start anew from the stores.
    StartAnew(String),
    /// It cannot go on.
    Failed(Failed),
}

/// A failure that ends the process, with its exit code (design, section 5).
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    /// What, where, and what to do.
    pub message: String,
    /// 2 wrong configuration, 3 a dependency is unreachable or refuses, 4 data was lost.
    pub exit_code: u8,
}

/// Ends a pipeline, and tells its threads. Clones share it.
#[derive(Clone, Debug)]
pub struct Stop {
    is_stopped: watch::Sender<bool>,
    ending: Arc<Mutex<Option<Ending>>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { is_stopped: watch::Sender::new(false), ending: Arc::default() }
    }
}

impl Stop {
    /// Ends the pipeline. What comes after the first reason changes nothing.
    pub fn end(&self, ending: Ending) {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ending);
        self.is_stopped.send_replace(true);
    }

    /// Ends the pipeline with a failure.
    pub fn fail(&self, message: impl Into<String>, exit_code: u8) {
        self.end(Ending::Failed(Failed { message: message.into(), exit_code }));
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.is_stopped.borrow()
    }

    /// Waits until it has ended.
    pub async fn stopped(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.is_stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// The reason, once it has ended.
    #[must_use]
    pub fn take_ending(&self) -> Option<Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_wins() {
        let stop = Stop::default();
        assert!(!stop.is_stopped());
        stop.fail("no disk", 3);
        stop.end(Ending::Requested);
        stop.stopped().await;
        assert!(matches!(stop.take_ending(), Some(Ending::Failed(Failed { exit_code: 3, .. }))));
    }
}
