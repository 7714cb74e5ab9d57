//! Samples of incidents whose window is open (W-10): worth having, and never worth waiting for.
//!
//! What closing writes holds them anyway, so progress does not wait for these, what does not fit is forgotten, and the
//! occurrence store is asked for no more than a part of the time.

use floodmark_dataflow::message::WindowKey;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Windows that wait.
const WAITING_MAX: usize = 10_000;
/// The pause after a query is as many times as long as it took.
const REST: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The windows whose samples are to be refreshed.
#[derive(Default)]
pub struct Waiting(Mutex<BTreeSet<WindowKey>>);

impl Waiting {
    /// Adds windows, as far as there is room.
    pub fn add(&self, keys: impl IntoIterator<Item = WindowKey>) {
        let mut waiting = self.lock();
        let room = WAITING_MAX.saturating_sub(waiting.len());
        waiting.extend(keys.into_iter().take(room));
    }

    /// Takes out some of them, the earliest first.
    pub fn take(&self, max: usize) -> Vec<WindowKey> {
        let mut waiting = self.lock();
        std::iter::from_fn(|| waiting.pop_first()).take(max).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<WindowKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to leave the store alone after a query that took so long.
#[must_use]
pub fn pause_after(took: Duration) -> Duration {
    (took * REST).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_dataflow::message::PaneKey;
    use floodmark_dataflow::message::TenantId;
    use floodmark_model::rule::RuleIndex;
    use floodmark_model::{EventTime, Fingerprint};

    fn key(n: u32) -> WindowKey {
        let pane = PaneKey { fingerprint: Fingerprint::from_bits(u128::from(n)), tenant: TenantId(0) };
        WindowKey { rule: RuleIndex(0), window_start: EventTime(0), pane }
    }

    #[test]
    fn each_window_waits_once_and_what_does_not_fit_is_forgotten() {
        let waiting = Waiting::default();
        waiting.add([key(1), key(1), key(2)]);
        assert_eq!(waiting.take(10), [key(1), key(2)]);
        waiting.add((0..50_000).map(key));
        assert_eq!(waiting.take(usize::MAX).len(), WAITING_MAX);
        assert!(waiting.take(1).is_empty());
    }

    #[test]
    fn a_slow_store_is_left_alone_for_longer() {
        assert_eq!(pause_after(Duration::ZERO), PAUSE_MIN);
        assert_eq!(pause_after(Duration::from_secs(1)), Duration::from_secs(4));
        assert_eq!(pause_after(Duration::from_secs(60)), PAUSE_MAX);
    }
}
