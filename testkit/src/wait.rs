//! Waiting for a condition with a deadline. The only place in the tests that lets time pass.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// How long what a test waits for may take, where nothing else is said: far more than it needs on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` gives a value, and looks at it at least once, also with a deadline of zero.
///
/// # Panics
/// After `deadline`; the message names `what` was waited for.
pub fn wait_for<T>(what: impl Display, deadline: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain for {what}");
        thread::park_timeout(PAUSE);
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// As [`wait_for`].
pub fn wait_until(what: impl Display, deadline: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, deadline, || condition().then_some(()));
}

/// Waits until `observe` gives what is wanted.
///
/// # Panics
/// As [`wait_for`], with the last difference that `compare` found.
pub fn wait_until_equal<T>(
    what: impl Display,
    deadline: Duration,
    mut observe: impl FnMut() -> T,
    mut compare: impl FnMut(&T) -> Result<(), String>,
) -> T {
    let started = Instant::now();
    loop {
        let observed = observe();
        match compare(&observed) {
            Ok(()) => return observed,
            Err(difference) => {
                assert!(started.elapsed() < deadline, "waited {deadline:?} in vain for {what}:\n{difference}");
            }
        }
        thread::park_timeout(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_is_seen() {
        let mut polls = 0;
        wait_until("the third poll", DEADLINE, || {
            polls += 1;
            polls == 3
        });
        assert_eq!(wait_for("a value", Duration::ZERO, || Some(7)), 7);
    }

    #[test]
    #[should_panic(expected = "in vain for what never comes")]
    fn a_deadline_fails_the_test() {
        wait_until("what never comes", Duration::from_millis(20), || false);
    }

    #[test]
    #[should_panic(expected = "seven is not eight")]
    fn a_deadline_shows_the_last_difference() {
        wait_until_equal("eight", Duration::ZERO, || 7, |_| Err("seven is not eight".into()));
    }
}
