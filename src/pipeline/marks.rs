//! How far the rows that each judge wants are stored: what closes must find them in the store.

use crate::pipeline::persist::Ended;
use crate::pipeline::stop::Stop;
use tokio::sync::watch;

/// The number of the last mark of each worker that is stored.
pub struct Marks(Vec<watch::Sender<u64>>);

impl Marks {
    /// None yet, of so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| watch::Sender::new(0)).collect())
    }

    /// Everything that a worker sent before this mark is stored.
    pub fn reach(&self, worker: u32, number: u64) {
        self.0[worker as usize].send_replace(number);
    }

    /// Waits for a mark.
    ///
    /// # Errors
    ///
    /// When the pipeline has ended before.
    pub async fn reached(&self, worker: u32, number: u64, stop: &Stop) -> Result<(), Ended> {
        let mut reached = self.0[worker as usize].subscribe();
        tokio::select! {
            found = reached.wait_for(|reached| *reached >= number) => found.map(drop).map_err(|_| Ended),
            () = stop.stopped() => Err(Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::stop::Ending;

    #[tokio::test]
    async fn a_closing_waits_for_its_worker_alone_and_not_beyond_the_end() {
        let (marks, stop) = (Marks::new(2), Stop::default());
        marks.reach(0, 7);
        assert_eq!(marks.reached(0, 7, &stop).await, Ok(()));
        let (waited, ()) = tokio::join!(marks.reached(1, 1, &stop), async { marks.reach(1, 2) });
        assert_eq!(waited, Ok(()));
        let (waited, ()) = tokio::join!(marks.reached(1, 3, &stop), async { stop.end(Ending::Requested) });
        assert_eq!(waited, Err(Ended));
    }
}
