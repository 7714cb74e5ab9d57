//! One call to a store, repeated until it succeeds or the pipeline ends (G-7).

use crate::metrics::Metrics;
use crate::pipeline::health::Health;
use crate::pipeline::stop::Stop;
use backon::{BackoffBuilder, ExponentialBuilder};
use floodmark_sinks::{Failure, StoreError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Calls stores for one pipeline: waits for those that are away, and says so.
#[derive(Clone)]
pub struct Persist {
    /// Where `/readyz` looks.
    pub health: Arc<Health>,
    /// Where calls are counted and timed.
    pub metrics: Arc<Metrics>,
    /// Ends the waiting.
    pub stop: Stop,
}

/// The pipeline has ended before the call succeeded: whatever it was to write counts as not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

impl Persist {
    /// Repeats `call` with back-off while its failure is transient. Any other failure ends the pipeline.
    pub async fn until_stored<T>(
        &self,
        store: &'static str,
        action: &'static str,
        mut call: impl AsyncFnMut() -> Result<T, StoreError>,
    ) -> Result<T, Ended> {
        let mut waits = ExponentialBuilder::default()
            .with_min_delay(RETRY_MIN)
            .with_max_delay(RETRY_MAX)
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            if self.stop.is_stopped() {
                return Err(Ended);
            }
            let started = Instant::now();
            let result = tokio::select! {
                result = call() => result,
                () = self.stop.stopped() => return Err(Ended),
            };
            self.metrics.sink_call(store, action, started.elapsed(), result.is_err());
            match result {
                Ok(value) => {
                    self.health.well(store);
                    return Ok(value);
                }
                Err(error) if error.is_transient() => {
                    let wait = waits.next().unwrap_or(RETRY_MAX);
                    tracing::warn!(store, action, %error, retry_in = ?wait, "the store is away: the flow waits");
                    self.health.trouble(store, format!("{error}; repeating with back-off"));
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.stop.stopped() => return Err(Ended),
                    }
                }
                Err(error) => {
                    self.health.trouble(store, error.to_string());
                    self.stop.fail(explain(&error), 3);
                    return Err(Ended);
                }
            }
        }
    }
}

fn explain(error: &StoreError) -> String {
    match error.failure {
        Failure::Fenced => format!("{error}: another process has taken this pipeline over, so this one stops"),
        Failure::Permanent | Failure::Transient => format!("{error}: repeating does not help, so the pipeline stops"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::stop::{Ending, Failed};

    fn persist() -> Persist {
        Persist { health: Arc::default(), metrics: Arc::default(), stop: Stop::default() }
    }

    fn error(failure: Failure) -> StoreError {
        StoreError { store: "postgres", action: "test", failure, detail: "gone".into() }
    }

    #[tokio::test]
    async fn g7_a_store_that_is_away_is_waited_for_and_named() {
        let persist = persist();
        let mut calls = 0;
        let mut seen = None;
        let result = persist
            .until_stored("postgres", "test", async || {
                calls += 1;
                if calls == 2 {
                    seen = persist.health.troubles().remove("postgres");
                }
                if calls < 3 { Err(error(Failure::Transient)) } else { Ok(7) }
            })
            .await;
        assert_eq!(result, Ok(7));
        assert!(seen.expect("named while it was away").contains("gone"));
        assert!(persist.health.troubles().is_empty());
    }

    #[tokio::test]
    async fn what_repeating_does_not_help_ends_the_pipeline() {
        for failure in [Failure::Permanent, Failure::Fenced] {
            let persist = persist();
            let result = persist.until_stored("postgres", "test", async || Err::<(), _>(error(failure))).await;
            assert_eq!(result, Err(Ended));
            assert!(matches!(persist.stop.take_ending(), Some(Ending::Failed(Failed { exit_code: 3, .. }))));
        }
    }

    #[tokio::test]
    async fn a_stop_ends_the_waiting() {
        let persist = persist();
        let stop = persist.stop.clone();
        let result = persist
            .until_stored("postgres", "test", async || {
                stop.end(Ending::Requested);
                Err::<(), _>(error(Failure::Transient))
            })
            .await;
        assert_eq!(result, Err(Ended));
    }
}
