//! The binary as a child process: started, looked at over HTTP, killed, started again.

use super::http::{self, Response};
use crate::wait::{DEADLINE, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A binary with a folder, a configuration file and an environment of a test's own: what is the same from one start to
/// the next.
pub struct Installation {
    binary: PathBuf,
    folder: TempDir,
    environment: Vec<(String, String)>,
}

impl Installation {
    /// `configuration` is the text of the TOML file that every command gets with `--config`.
    ///
    /// # Panics
    /// No folder can be made.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>, configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("floodmark.toml"), configuration).unwrap();
        Self { binary: binary.into(), folder, environment: Vec::new() }
    }

    /// Sets a variable for every command. Of this process's own environment, commands see no `FLOODMARK_*`.
    #[must_use]
    pub fn with_environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The folder in which commands run.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command of the binary: `verb`, the configuration file, further arguments.
    #[must_use]
    pub fn command<A: Into<OsString>>(&self, verb: &str, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg(verb).arg("--config").arg(self.folder().join("floodmark.toml"));
        command.args(arguments.into_iter().map(Into::into)).current_dir(self.folder()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FLOODMARK_")) {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// The binary cannot be started.
    #[must_use]
    pub fn output<A: Into<OsString>>(&self, verb: &str, arguments: impl IntoIterator<Item = A>) -> Output {
        let output = self.command(verb, arguments).output().unwrap_or_else(|error| self.cannot_start(&error));
        Output {
            exit_code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts `run` with a free port to listen on, and further arguments.
    ///
    /// # Panics
    /// The binary cannot be started.
    #[must_use]
    pub fn start<A: Into<OsString>>(&self, arguments: impl IntoIterator<Item = A>) -> Engine {
        self.start_at(free_address(), arguments)
    }

    /// As [`Self::start`], with the address to listen on.
    ///
    /// # Panics
    /// The binary cannot be started.
    #[must_use]
    pub fn start_at<A: Into<OsString>>(&self, address: SocketAddr, arguments: impl IntoIterator<Item = A>) -> Engine {
        let log_path = self.folder().join(format!("{}.log", super::unique_name("run")));
        let log = File::create(&log_path).unwrap();
        let mut command = self.command("run", [OsString::from("--listen"), address.to_string().into()]);
        command.args(arguments.into_iter().map(Into::into)).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| self.cannot_start(&error));
        Engine { child, address, log_path }
    }

    fn cannot_start(&self, error: &std::io::Error) -> ! {
        panic!("cannot start {}: {error}", self.binary.display())
    }
}

/// What a command that ended leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// A running `floodmark run`. Killed with this value; in a failing test the end of its log is shown.
pub struct Engine {
    child: Child,
    address: SocketAddr,
    log_path: PathBuf,
}

impl Engine {
    /// Where it serves `/readyz` and `/metrics`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// GET of a path; `None` while nobody answers.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Response> {
        http::get(self.address, path).ok()
    }

    /// Whether `/readyz` answers 200.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|answer| answer.status == 200)
    }

    /// Waits until it is ready.
    ///
    /// # Panics
    /// It ends, or the deadline passes.
    pub fn wait_until_ready(&mut self) {
        wait_until("the engine to be ready", DEADLINE, || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the engine ended while it started: {}", ended.unwrap());
            self.is_ready()
        });
    }

    /// The sum of all series of a metric whose labels contain `labels` (`outcome="stored"`; empty: all of them); `None`
    /// when nobody answers or there is none.
    #[must_use]
    pub fn metric(&self, name: &str, labels: &str) -> Option<f64> {
        sum_of_series(&self.get("/metrics")?.body, name, labels)
    }

    /// What it has written so far, to standard output and standard error.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log_path).unwrap_or_default()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(mut self) {
        self.kill_now();
    }

    /// Asks it to stop (SIGTERM), and waits for its exit code; `None` if a signal ended it.
    ///
    /// # Panics
    /// It is still there after the deadline.
    pub fn stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait(DEADLINE).code()
    }

    /// Sends a signal; `STOP` and `CONT` make a process that seems dead and wakes up.
    ///
    /// # Panics
    /// It has ended already.
    pub fn signal(&mut self, signal: Signal) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the engine has ended: {}", ended.unwrap());
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// The deadline passes.
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        wait_for("the engine to end", deadline, || self.child.try_wait().unwrap())
    }

    fn kill_now(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill_now();
        if thread::panicking() {
            const LINES: usize = 40;
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- the engine's last lines:\n{}", lines[lines.len().saturating_sub(LINES)..].join("\n"));
        }
    }
}

/// An address on loopback that was free a moment ago.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn sum_of_series(text: &str, name: &str, labels: &str) -> Option<f64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let (series, value) = rest.rsplit_once(' ')?;
        let is_series = series.is_empty() || series.starts_with('{');
        (is_series && series.contains(labels)).then(|| value.parse::<f64>().ok())?
    };
    text.lines().filter_map(value).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::sum_of_series;

    #[test]
    fn series_are_summed_by_label() {
        let text = "# TYPE records counter\nrecords_total{outcome=\"stored\"} 3\nrecords_total{outcome=\"dead\"} 1\n\
                    records_total_other 9\nready 1\n";
        assert_eq!(sum_of_series(text, "records_total", "outcome=\"stored\""), Some(3.0));
        assert_eq!(sum_of_series(text, "records_total", ""), Some(4.0));
        assert_eq!(sum_of_series(text, "ready", ""), Some(1.0));
        assert_eq!(sum_of_series(text, "records", ""), None);
    }
}
