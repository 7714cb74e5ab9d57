//! What surrounds a pipeline in a process: signals, `/healthz` and its neighbours, and starting anew.

use crate::cli::Failure;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::pipeline::health::Health;
use crate::pipeline::stop::{Ending, Stop};
use crate::web;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Exit code of a process that a second signal ends at once.
const INTERRUPTED: i32 = 130;

/// How soon after a signal another one is the same.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// A process that runs one pipeline after another until one ends for good.
pub(super) struct Process {
    /// Where stores are called.
    pub runtime: Runtime,
    /// Counts over all pipelines of the process.
    pub metrics: Arc<Metrics>,
    /// Of the pipeline that runs.
    pub health: Arc<Health>,
    current: Arc<Mutex<Stop>>,
    /// Ends what outlives a pipeline.
    pub(super) halt: Stop,
}

impl Process {
    /// Listens to signals, and for HTTP where the configuration says so.
    pub(super) fn start(config: &Config) -> Result<Self, Failure> {
        let process = Self {
            runtime: crate::cli::runtime()?,
            metrics: Arc::default(),
            health: Arc::new(Health::starting()),
            current: Arc::default(),
            halt: Stop::default(),
        };
        process.listen_to_signals()?;
        if let Some(address) = config.listen {
            let shown = web::Shown { health: Arc::clone(&process.health), metrics: Arc::clone(&process.metrics) };
            let listener =
                process.runtime.block_on(web::listen(address)).map_err(|error| Failure::usage(format!("{error:#}")))?;
            tracing::info!("http://{address}/healthz, /readyz and /metrics");
            let halt = process.halt.clone();
            process.runtime.spawn(async move {
                if let Err(error) = web::serve(listener, shown, halt).await {
                    tracing::error!(%error, "the HTTP server has ended");
                }
            });
        }
        Ok(process)
    }

    /// Runs `pipeline` until it ends for good. It is called again, with another stop, when it has to start anew.
    pub(super) fn run(&self, mut pipeline: impl FnMut(Stop) -> Result<Ending, Failure>) -> Result<Ending, Failure> {
        loop {
            let stop = Stop::default();
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = stop.clone();
            if self.halt.is_stopped() {
                return Ok(Ending::Requested);
            }
            match pipeline(stop)? {
                Ending::StartAnew(why) => tracing::warn!(%why, "starting anew from the stores"),
                Ending::Failed(failed) => return Err(failed.into()),
                ending @ (Ending::Requested | Ending::Finished) => return Ok(ending),
            }
            // What made it start anew may take a moment to pass.
            self.runtime.block_on(async {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(500)) => {}
                    () = self.halt.stopped() => {}
                }
            });
        }
    }

    /// The first SIGINT or SIGTERM ends the pipeline, a second one the process. One that comes at once is the first one
    /// again: a terminal and a time-out tell process and group.
    fn listen_to_signals(&self) -> Result<(), Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let _guard = self.runtime.enter();
        let failed = |error| Failure::dependency(format!("cannot listen to signals: {error}"));
        let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminations = signal(SignalKind::terminate()).map_err(failed)?;
        let (current, halt) = (Arc::clone(&self.current), self.halt.clone());
        self.runtime.spawn(async move {
            let mut halted = None;
            loop {
                tokio::select! {
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                }
                if halted.is_some_and(|at: Instant| at.elapsed() < SAME_SIGNAL) {
                    continue;
                }
                if halted.is_some() {
                    std::process::exit(INTERRUPTED);
                }
                halted = Some(Instant::now());
                halt.end(Ending::Requested);
                current.lock().unwrap_or_else(PoisonError::into_inner).end(Ending::Requested);
            }
        });
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.halt.end(Ending::Requested);
    }
}
