//! The `floodmark` command.

use clap::Parser;
use floodmark::cli::{Command, Failure, printable};
use std::process::ExitCode;

/// Windows of millions of panes come and go: this allocator gives their memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Turns floods of error events into incidents: one per bug and window, exactly once.
#[derive(Debug, Parser)]
#[command(name = "floodmark", version = floodmark::VERSION, max_term_width = 110)]
struct Floodmark {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    abort_on_panic();
    match Floodmark::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, exit_code }) => {
            eprintln!("floodmark: {}", printable(&message));
            ExitCode::from(exit_code)
        }
    }
}

/// A worker that unwinds leaves its peers hanging for ever (decision 9): the whole process goes, and a start recovers
/// from the stores. `panic = "abort"` does the same, but not in every profile.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
