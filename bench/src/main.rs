//! `floodmark-bench`: what floodmark costs, as ratios against something measured in the same run.

mod backfill;
mod engine;
mod latency;
mod load;
mod machine;
mod part;
mod pipeline;
mod records;
mod restart;
mod setup;
mod store;
mod what_if;

use clap::{Parser, Subcommand};

/// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures floodmark. Load stays on loopback, and every run ends by itself.
#[derive(Debug, Parser)]
#[command(name = "floodmark-bench", max_term_width = 110)]
struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The dataflow alone, in memory: events per second, or with --memory bytes per pane
    Engine(engine::Engine),
    /// A filled topic through the pipeline, without stores and with all of them, each against a bare loop
    Pipeline(pipeline::Pipeline),
    /// Records of a file through `backfill`, against the same records live
    Backfill(backfill::Backfill),
    /// From records in Kafka to an incident row in Postgres
    Latency(latency::Latency),
    /// kill -9 under load, and how long the start after it takes
    Restart(restart::Restart),
    /// Candidate rules over stored occurrences, against a ClickHouse query for each
    WhatIf(what_if::WhatIf),
    /// One part of `pipeline`, in a process of its own
    #[command(hide = true)]
    Part(part::Part),
}

fn main() -> anyhow::Result<()> {
    match Bench::parse().what {
        What::Engine(engine) => engine.run(),
        What::Pipeline(pipeline) => pipeline.run(),
        What::Backfill(backfill) => backfill.run(),
        What::Latency(latency) => latency.run(),
        What::Restart(restart) => restart.run(),
        What::WhatIf(what_if) => what_if.run(),
        What::Part(part) => part.run(),
    }
}
