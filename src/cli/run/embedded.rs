//! Running embedded: files or streams into one SQLite file, to their end.

use super::process::Process;
use super::reconcile::Periodic;
use super::settle::settle;
use super::summary::Summary;
use crate::cli::Failure;
use crate::config::Config;
use crate::input::decode::Decoder;
use crate::input::end::EndOfInput;
use crate::input::files::{
    BytesRead, FileSettings, FilesInput, Found, InputEnd, InputEnds, OnRecord, OpenError, Stream, find, stream_input,
    written,
};
use crate::pipeline::commit::SameLog;
use crate::pipeline::stop::{Ending, Stop};
use crate::pipeline::{Clock, OnIncident, Pipeline, SystemClock};
use crate::rules::as_stored;
use floodmark_model::RecordTime;
use floodmark_model::progress::Progress;
use floodmark_model::wire::text::TextFormat;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{IncidentStore, StoreError};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An embedded run.
pub(crate) struct Embedded {
    /// Its configuration.
    pub config: Config,
    /// The SQLite file.
    pub store: PathBuf,
    /// What is read.
    pub inputs: Inputs,
    /// Told of each new incident.
    pub on_incident: Option<Arc<OnIncident>>,
    /// Whether a progress bar is shown, where stderr is a terminal.
    pub shows_progress: bool,
}

/// What an embedded run reads.
pub(crate) enum Inputs {
    /// What is named on the command line; `None` is JSON.
    Named {
        /// What named them, for messages.
        flag: &'static str,
        /// Paths, patterns, or `-`.
        patterns: Vec<String>,
        /// How it is written.
        format: Option<TextFormat>,
        /// Every file counts as a new input, whatever is known of it.
        again: bool,
        /// Told of each record that is read.
        on_record: Option<Arc<OnRecord>>,
    },
    /// JSON from within this process.
    Stream(Stream),
}

impl Embedded {
    /// Reads to the end, settles, and says what was found; or ends early when it is told to.
    pub(crate) fn run(self) -> Result<Summary, Failure> {
        let started = Instant::now();
        let store = SqliteStore::open(&self.store).map_err(Failure::dependency)?;
        let process = Process::start(&self.config)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let now = RecordTime(clock.now_ms());
        let Sources { found, decoder, written, on_record } =
            process.runtime.block_on(find_inputs(&store, self.inputs, now, &process.halt, &self.config))?;
        let (unreadable, ends) = (found.unreadable, InputEnds::default());
        let bytes_read = Arc::new(BytesRead::default());
        let shown = show_progress(self.shows_progress, found.bytes, &bytes_read);
        let config = Arc::new(self.config);
        let reader = || SqliteStore::open_read_only(&self.store).map_err(Failure::dependency);
        let periodic = Periodic {
            config: Arc::clone(&config),
            occurrences: reader()?,
            incidents: reader()?,
            log: None,
            metrics: Arc::clone(&process.metrics),
            health: Arc::clone(&process.health),
            halt: process.halt.clone(),
        };
        process.runtime.spawn(periodic.run());
        let mut inputs = Some(found.inputs);
        let ending = process.run(|stop: Stop| {
            let Some(inputs) = inputs.take() else {
                return Err(Failure::dependency("the store failed while it was read: run again, nothing is lost"));
            };
            if inputs.is_empty() {
                return Ok(Ending::Finished);
            }
            let end = Arc::new(EndOfInput::new(inputs.len(), windows_ms(&config), stop.clone()));
            let committed = Arc::clone(&end);
            let mut files = Some(FilesInput {
                inputs,
                decoder: decoder.clone(),
                max_record_bytes: config.limits.max_record_bytes,
                end,
                bytes_read: Arc::clone(&bytes_read),
                on_record: on_record.clone(),
                ends: ends.clone(),
            });
            let pipeline = Pipeline {
                config: Arc::clone(&config),
                occurrences: Arc::new(store.clone()),
                incidents: Arc::new(store.clone()),
                clock: Arc::clone(&clock),
                metrics: Arc::clone(&process.metrics),
                health: Arc::clone(&process.health),
                stop,
                same_log: SameLog::always(),
                on_incident: self.on_incident.clone(),
                on_commit: Some(Arc::new(move |progress: &Progress, epoch| committed.committed(progress, epoch))),
            };
            let mut readers = |progress: &Progress, workers, forget: &mut dyn FnMut() -> _| {
                let files = files.take().expect("readers are made once for each pipeline");
                files.readers(workers, progress, forget)
            };
            Ok(pipeline.run(process.runtime.handle(), &mut readers))
        })?;
        shown.finish_and_clear();
        let is_complete = matches!(ending, Ending::Finished);
        let ends = ends.take();
        process.runtime.block_on(async {
            note_ends(&store, &ends, &written).await.map_err(Failure::dependency)?;
            let rules = as_stored(&config.rules, &store.rules().await.map_err(Failure::dependency)?);
            if is_complete {
                settle(&store, &rules).await.map_err(Failure::dependency)?;
            }
            let summary =
                Summary::read(&store, &rules, self.store, &process.metrics, is_complete, started.elapsed()).await;
            Ok(summary.map_err(Failure::dependency)?.with_ends(unreadable, &ends, &written))
        })
    }
}

fn windows_ms(config: &Config) -> Vec<i64> {
    config.rules.iter().map(|rule| rule.window_ms).collect()
}

/// Remembers what was read of each file, so that a change of it is noticed.
async fn note_ends(store: &SqliteStore, ends: &[InputEnd], written: &str) -> Result<(), StoreError> {
    for end in ends {
        store.note_input(end.id, &end.path, written, end.read).await?;
    }
    Ok(())
}

/// What is read, and how.
struct Sources {
    found: Found,
    decoder: Decoder,
    written: String,
    on_record: Option<Arc<OnRecord>>,
}

async fn find_inputs(
    store: &SqliteStore,
    inputs: Inputs,
    now: RecordTime,
    stop: &Stop,
    config: &Config,
) -> Result<Sources, Failure> {
    let failed = |error| match error {
        OpenError::Usage(text) => Failure::usage(text),
        OpenError::Store(error) => Failure::dependency(error),
    };
    match inputs {
        Inputs::Named { flag, patterns, format, again, on_record } => {
            if patterns.is_empty() {
                return Err(Failure::usage("--embedded needs --input: files, a pattern, or - for standard input"));
            }
            let written = written(config, format.as_ref());
            let decoder = format.map_or_else(|| Decoder::json(config), |format| Decoder::text(config, format));
            let settings = FileSettings { flag, patterns: &patterns, written: &written, again, now, stop };
            let found = find(store, settings).await.map_err(failed)?;
            Ok(Sources { found, decoder, written, on_record })
        }
        Inputs::Stream(stream) => {
            let written = written(config, None);
            let settings = FileSettings { flag: "", patterns: &[], written: &written, again: false, now, stop };
            let input = stream_input(store, stream, Path::new("generated"), &settings).await.map_err(failed)?;
            let found = Found { inputs: input.into_iter().collect(), bytes: None, unreadable: Vec::new() };
            Ok(Sources { found, decoder: Decoder::json(config), written, on_record: None })
        }
    }
}

/// A bar over the bytes of all files; hidden where stderr is no terminal.
fn show_progress(is_shown: bool, bytes: Option<u64>, bytes_read: &Arc<BytesRead>) -> ProgressBar {
    let (true, Some(bytes)) = (is_shown, bytes) else { return ProgressBar::hidden() };
    let style = "{bar:40} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
    let bar = ProgressBar::new(bytes).with_style(ProgressStyle::with_template(style).expect("the template is right"));
    let (shown, read) = (bar.clone(), Arc::downgrade(bytes_read));
    let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
        while let Some(read) = read.upgrade()
            && !shown.is_finished()
        {
            shown.set_position(read.get());
            std::thread::park_timeout(Duration::from_millis(100));
        }
    });
    // Without the thread the bar stands still, and everything else goes on.
    drop(thread);
    bar
}
