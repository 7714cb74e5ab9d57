//! The child-process harness, with a shell script in the binary's place.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use floodmark_testkit::services::engine::{Engine, Installation};
use floodmark_testkit::wait::{DEADLINE, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

/// An installation of a shell, which takes the verb for a script in its folder. The script shows what it was given,
/// then does as `then` says.
fn script(verb: &str, then: &str) -> Installation {
    let installation =
        Installation::new("/bin/sh", "workers = 3\n").with_environment("FLOODMARK_POSTGRES", "postgres://x");
    let text = format!("echo \"arguments $*\"\ncat \"$2\"\nenv | grep FLOODMARK_\n{then}\n");
    fs::write(installation.folder().join(verb), text).unwrap();
    installation
}

fn wait_for_log(engine: &Engine, text: &str) {
    wait_until(format!("{text:?} in the log"), DEADLINE, || engine.log().contains(text));
}

fn is_alive(process_id: u32) -> bool {
    Path::new(&format!("/proc/{process_id}")).exists()
}

/// Runs until it is killed.
const RUN: &str = "echo running; exec tail -f /dev/null";

/// Runs until it is told to stop; `wait` returns at once when a trapped signal comes.
const STOP_IN_ORDER: &str = "tail -f /dev/null & trap 'kill $!; exit 7' TERM; echo running >&2; wait";

#[test]
fn a_command_gets_the_configuration_and_an_environment_of_its_own() {
    let installation = script("totals", "echo wrong usage >&2; exit 2");
    let output = installation.output("totals", ["--json"]);
    assert_eq!((output.exit_code, &*output.stderr), (Some(2), "wrong usage\n"));
    assert!(output.stdout.starts_with("arguments --config ") && output.stdout.contains("--json\n"));
    assert!(output.stdout.ends_with("workers = 3\nFLOODMARK_POSTGRES=postgres://x\n"), "{}", output.stdout);
}

#[test]
fn an_engine_is_stopped_with_its_exit_code_and_started_again() {
    let installation = script("run", STOP_IN_ORDER);
    for _ in 0..2 {
        let engine = installation.start(["--workers", "2"]);
        wait_for_log(&engine, "running");
        assert!(engine.log().contains(&format!("--listen {} --workers 2", engine.address())));
        assert_eq!(engine.stop(), Some(7));
    }
}

#[test]
fn an_engine_is_gone_when_it_is_killed_or_dropped() {
    let installation = script("run", RUN);
    for kill in [true, false] {
        let engine = installation.start::<&str>([]);
        wait_for_log(&engine, "running");
        let process_id = engine.process_id();
        assert!(is_alive(process_id));
        if kill {
            engine.kill();
        } else {
            drop(engine);
        }
        assert!(!is_alive(process_id));
    }
}

#[test]
fn readiness_and_metrics_are_asked_over_http() {
    let installation = script("run", RUN);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut engine = installation.start_at(listener.local_addr().unwrap(), [] as [&str; 0]);
    let server = thread::spawn(move || {
        let answers =
            ["503 Not yet\r\n\r\n", "200 OK\r\n\r\n", "200 OK\r\n\r\nx_total{a=\"b\"} 2\nx_total{a=\"c\"} 3\n"];
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            write!(stream, "HTTP/1.1 {answer}").unwrap();
        }
    });
    engine.wait_until_ready();
    assert_eq!(engine.metric("x_total", ""), Some(5.0));
    server.join().unwrap();
    assert!(!engine.is_ready(), "nobody listens any more");
}

#[test]
#[should_panic(expected = "the engine ended while it started: exit status: 3")]
fn an_engine_that_ends_is_not_waited_for() {
    let installation = script("run", "exit 3");
    installation.start::<&str>([]).wait_until_ready();
}
