//! Seeded runs of the whole dataflow with everything that may go wrong, against the oracle, which shares no code with
//! it.
//!
//! | what | where |
//! | --- | --- |
//! | what a seed stands for | `draw` |
//! | what happens, one thing after another, and how it settles | `world` |
//! | the stores' lanes, slow and out of step | `lanes` |
//! | the dataflow in one thread, or as the timely graph | `one_thread`, `threads` |
//! | what must stand in the end | `check` |
//! | what a failure shows | `failure` |
//!
//! Of a failure the seed is enough to repeat it: see `tests/scenarios/README.md`.

mod check;
mod draw;
mod engine;
mod failure;
mod lanes;
mod one_thread;
mod random;
mod threads;
mod world;

use check::check;
use draw::Run;
use engine::{Engine, Figures};
use failure::Failure;
use floodmark_testkit::scenario::{FingerprintLabels, Record, Scenario, Step};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use world::World;

/// Which seeds to run: `FLOODMARK_SIMULATION_SEEDS=17..18`, or the first `count`.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var("FLOODMARK_SIMULATION_SEEDS") else { return 0..count };
    let range = text.split_once("..").and_then(|(from, until)| Some(from.parse().ok()?..until.parse().ok()?));
    range.unwrap_or_else(|| panic!("FLOODMARK_SIMULATION_SEEDS={text:?}: want a range such as 0..10000"))
}

/// Runs the seeds with the plain state of the dataflow, `at_once` of them at a time.
///
/// # Panics
/// A seed fails: the message shows the first one.
pub(crate) fn run_in_one_thread(seeds: Range<u64>, at_once: usize) {
    run_all::<one_thread::OneThread>(seeds, at_once);
}

/// Runs the seeds with the timely graph.
///
/// # Panics
/// As [`run_in_one_thread`].
pub(crate) fn run_in_threads(seeds: Range<u64>, at_once: usize) {
    run_all::<threads::Threads>(seeds, at_once);
}

fn run_all<E: Engine>(seeds: Range<u64>, at_once: usize) {
    let (next, met) = (AtomicU64::new(seeds.start), Mutex::new(Figures::default()));
    let failed: Mutex<Option<Run>> = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while failed.lock().unwrap().is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let run = Run::draw(seed);
                    match run_one::<E>(&run) {
                        Ok(figures) => *met.lock().unwrap() += figures,
                        Err(_) => *failed.lock().unwrap() = Some(run),
                    }
                }
            });
        }
    });
    if let Some(run) = failed.into_inner().unwrap() {
        panic!("{}", Failure::of(run, |run| run_one::<E>(run).err()));
    }
    println!("seeds {seeds:?}: {:?}", met.into_inner().unwrap());
}

/// One run, and what it met; says what is wrong with what stands in the end. A panic is wrong as well.
fn run_one<E: Engine>(run: &Run) -> Result<Figures, String> {
    let records = records(run);
    let checked = || {
        let world = World::<E>::take(run, records.clone())?;
        let figures = world.figures();
        check(run, &records, &world.stored, figures).map(|()| figures)
    };
    catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
    })
}

/// The records of a run, as a scenario makes them.
fn records(run: &Run) -> Vec<Record> {
    let scenario =
        Scenario::parse(failure::NAME, &failure::scenario(run, None)).expect("a run draws what can be written");
    let records = scenario.steps(FingerprintLabels::Given).into_iter().filter_map(|step| match step {
        Step::Record(record) => Some(record),
        _ => None,
    });
    records.collect()
}
