//! `floodmark-bench`: what floodmark costs, as ratios against something measured in the same run.

mod engine;
mod machine;

use clap::{Parser, Subcommand};

/// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures floodmark. Load stays on loopback, and every run ends by itself.
#[derive(Debug, Parser)]
#[command(name = "floodmark-bench")]
struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The dataflow alone, in memory: events per second, or with --memory bytes per pane
    Engine(engine::Engine),
}

fn main() -> anyhow::Result<()> {
    match Bench::parse().what {
        What::Engine(engine) => engine.run(),
    }
}
