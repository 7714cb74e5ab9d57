//! What runs scenarios of occurrences, level by level.
//!
//! | level | what is real in it | where |
//! | --- | --- | --- |
//! | pure | decoder, intake, retry filter, state of the dataflow, recovery | `pure` |
//! | dataflow | all that, in the timely graph with 1, 2 and 4 workers | `graph` |
//! | embedded | the whole pipeline with one SQLite file as both stores | `embedded` |
//! | services | the binary with Kafka, Postgres and ClickHouse | `services` |
//!
//! `simulation` draws runs from seeds, for the first two of them. `place` takes the steps of a scenario to any of them, as written or with more kills and cuts; `report` says which
//! scenarios a level runs, and collects what fails.

pub(crate) mod embedded;
pub(crate) mod graph;
mod place;
pub(crate) mod pure;
mod report;
pub(crate) mod services;
pub(crate) mod simulation;
mod stored;
mod timely;

pub(crate) use place::Plan;
pub(crate) use report::Level;
