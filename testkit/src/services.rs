//! Real services for tests: their addresses, things of a test's own in them, and the binary as a child process.
//!
//! A test that needs a service fails when it is not there. Everything a test makes has a name that no other test and
//! no other run has, and is deleted when the value that stands for it is dropped; after a panic it stays, to be looked
//! at. All calls block; they may be made anywhere, also inside an asynchronous runtime.

pub mod clickhouse;
pub mod engine;
pub mod http;
pub mod kafka;
pub mod observed;
pub mod postgres;
mod runtime;

use std::fmt::Display;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// A service that tests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Apache Kafka: `FLOODMARK_TEST_KAFKA` is a list of brokers.
    Kafka,
    /// PostgreSQL: `FLOODMARK_TEST_POSTGRES` is a URL.
    Postgres,
    /// ClickHouse: `FLOODMARK_TEST_CLICKHOUSE` is the URL of its HTTP interface.
    ClickHouse,
    /// Redis: `FLOODMARK_TEST_REDIS` is a URL.
    Redis,
}

/// What [`Service::control`] does to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Start it and wait until it answers.
    Start,
    /// Stop it in order.
    Stop,
    /// `kill -9`.
    Kill,
}

impl Service {
    /// The name that `dev/services` knows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Postgres => "postgres",
            Self::ClickHouse => "clickhouse",
            Self::Redis => "redis",
        }
    }

    /// Its address.
    ///
    /// # Panics
    /// The environment does not name it.
    #[must_use]
    pub fn address(self) -> String {
        let variable = format!("FLOODMARK_TEST_{}", self.name().to_uppercase());
        std::env::var(&variable).unwrap_or_else(|_| {
            panic!(
                "this test needs {}: run `dev/services up`, then `eval \"$(dev/services env)\"`, which sets {variable}",
                self.name()
            )
        })
    }

    /// Starts or stops it for all tests: only for tests that run alone. [`Outage`] gives it back.
    ///
    /// # Panics
    /// `dev/services` fails.
    pub fn control(self, control: Control) {
        self.try_control(control).unwrap_or_else(|error| panic!("{error}"));
    }

    fn try_control(self, control: Control) -> Result<(), String> {
        let verb = match control {
            Control::Start => "start",
            Control::Stop => "stop",
            Control::Kill => "kill",
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../dev/services");
        let failed = |why: &dyn Display| format!("dev/services {verb} {}: {why}", self.name());
        let output = Command::new(script).args([verb, self.name()]).output().map_err(|error| failed(&error))?;
        if output.status.success() { Ok(()) } else { Err(failed(&String::from_utf8_lossy(&output.stderr))) }
    }
}

/// A service is down until this is dropped, also when the test fails.
pub struct Outage(Service);

impl Outage {
    /// Takes a service down, in order or not.
    ///
    /// # Panics
    /// As [`Service::control`].
    #[must_use]
    pub fn of(service: Service, how: Control) -> Self {
        let outage = Self(service);
        service.control(how);
        outage
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        match self.0.try_control(Control::Start) {
            Ok(()) => {}
            // A second panic would hide the first.
            Err(error) if thread::panicking() => eprintln!("{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A name that starts with `prefix`, and that no other call, test process or run gets. At most 63 bytes, lower-case
/// letters, digits and `_`: good for a topic and for a database.
#[must_use]
pub fn unique_name(prefix: &str) -> String {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let suffix = format!("_{}_{now_us:x}_{call}", process::id());
    let clean =
        prefix.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' });
    const NAME_BYTES_MAX: usize = 63;
    clean.take(NAME_BYTES_MAX - suffix.len()).collect::<String>() + &suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_a_database() {
        let (first, second) = (unique_name("W-5 emits"), unique_name("W-5 emits"));
        assert_ne!(first, second);
        assert!(first.starts_with("w_5_emits_"));
        assert_eq!(unique_name(&"x".repeat(100)).len(), 63);
    }
}
