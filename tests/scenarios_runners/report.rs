//! Which scenarios a level runs, and what fails there.

use super::place::Plan;
use floodmark_testkit::scenario::{Runner, Scenario};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

/// All scenarios of occurrences.
pub(crate) fn occurrences() -> Vec<Scenario> {
    Scenario::load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/occurrences")).unwrap()
}

/// One level while it runs.
pub(crate) struct Level {
    name: &'static str,
    due: Vec<Scenario>,
    failures: Vec<String>,
}

impl Level {
    /// A level that runs every scenario that this runner can run.
    pub(crate) fn new(name: &'static str, runner: Runner) -> Self {
        let due = occurrences().into_iter().filter(|scenario| scenario.runs_on(runner)).collect();
        Self { name, due, failures: Vec::new() }
    }

    /// Runs the scenarios, each by every plan and `at_once` at a time. A panic is a failure of its run and of no other.
    pub(crate) fn run(
        &mut self,
        at_once: usize,
        plans: &[Plan],
        run: impl Fn(&Scenario, Plan) -> Result<(), String> + Sync,
    ) {
        let runs = self.due.iter().flat_map(|scenario| plans.iter().map(move |plan| (scenario, *plan)));
        let runs = Mutex::new(runs);
        let failures = Mutex::new(Vec::new());
        let next = || runs.lock().unwrap().next();
        thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(|| {
                    while let Some((scenario, plan)) = next() {
                        if let Err(difference) = caught(scenario, || run(scenario, plan)) {
                            failures.lock().unwrap().push(format!("{plan:?}: {difference}"));
                        }
                    }
                });
            }
        });
        self.failures.extend(failures.into_inner().unwrap());
    }

    /// Shows everything that failed.
    ///
    /// # Panics
    /// Something has failed, or nothing was run.
    pub(crate) fn finish(self) {
        assert!(!self.due.is_empty(), "{}: there are scenarios", self.name);
        let failures = self.failures.join("\n");
        assert!(failures.is_empty(), "{}: {} runs failed\n{failures}", self.name, self.failures.len());
    }
}

fn caught(scenario: &Scenario, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(format!("{}: {}\n  {text}", scenario.id, scenario.title))
    })
}
