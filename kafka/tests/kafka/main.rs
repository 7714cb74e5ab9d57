//! Against a real Kafka at `FLOODMARK_TEST_KAFKA` (`dev/services up`; `eval "$(dev/services env)"`).
#![allow(clippy::unwrap_used)]

mod harness;
mod offsets;
mod producer;
mod reader;
mod topics;
