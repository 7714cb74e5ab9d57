//! Waking a worker from another thread.

use std::sync::{Arc, Mutex, PoisonError};
use timely::scheduling::activate::SyncActivator;

/// Wakes one operator of one worker; a call before the operator exists does nothing, since its first activation looks
/// at its channel anyway.
#[derive(Clone, Debug, Default)]
pub struct Waker(Arc<Mutex<Option<SyncActivator>>>);

impl Waker {
    /// Wakes the operator, and its worker where that is parked.
    pub fn wake(&self) {
        if let Some(activator) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // An error says that the worker is gone, and then nobody needs waking.
            let _ = activator.activate();
        }
    }

    pub(crate) fn set(&self, activator: SyncActivator) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(activator);
    }
}
