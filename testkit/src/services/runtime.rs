//! One runtime for the asynchronous clients of all tests of a process.

use std::future::Future;
use std::sync::{OnceLock, mpsc};
use tokio::runtime::{Builder, Runtime};

/// Waits for a future, on a runtime that is never dropped: so this may be called anywhere.
pub(super) fn block_on<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = sender.send(future.await);
    });
    receiver.recv().expect("the task has panicked; its message is above")
}
