//! Every scenario of occurrences at every level, from plain state to real services (`tests/scenarios/README.md`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test may panic")]

mod scenarios_runners;

use floodmark_testkit::scenario::Runner;
use scenarios_runners::{Level, Plan, embedded, graph, pure, services, simulation};

/// Kills after so many records, which leave something else each time.
fn kills(records: usize) -> impl Iterator<Item = Plan> {
    (0..5).map(move |turn| Plan::KillAfterEvery { records, turn })
}

/// As written, in one batch for each record, and with kills all the time.
fn all_plans() -> Vec<Plan> {
    [Plan::AsWritten, Plan::CutAfterEveryRecord].into_iter().chain(kills(1)).chain(kills(3)).collect()
}

#[test]
fn every_scenario_passes_through_the_pure_state_whatever_the_cuts_and_crashes() {
    let mut level = Level::new("pure state", Runner::Pure);
    level.run(2, &all_plans(), pure::run);
    level.finish();
}

fn passes_through_the_dataflow(workers: usize) {
    let mut level = Level::new("dataflow", Runner::Dataflow);
    let plans: Vec<_> = [Plan::AsWritten, Plan::CutAfterEveryRecord].into_iter().chain(kills(7)).collect();
    level.run(4, &plans, |scenario, plan| graph::run(scenario, plan, workers));
    level.finish();
}

#[test]
fn every_scenario_passes_through_the_dataflow_with_1_worker() {
    passes_through_the_dataflow(1);
}

#[test]
fn every_scenario_passes_through_the_dataflow_with_2_workers() {
    passes_through_the_dataflow(2);
}

#[test]
fn every_scenario_passes_through_the_dataflow_with_4_workers() {
    passes_through_the_dataflow(4);
}

#[test]
fn every_scenario_passes_through_the_embedded_store() {
    let mut level = Level::new("embedded store", Runner::Kafka);
    let kills = (0..2).map(|turn| Plan::KillAfterEvery { records: 6, turn });
    let plans: Vec<_> = [Plan::AsWritten].into_iter().chain(kills).collect();
    level.run(3, &plans, embedded::run);
    level.finish();
}

#[test]
fn every_scenario_passes_through_real_services() {
    let mut level = Level::new("services", Runner::Kafka);
    level.run(2, &[Plan::AsWritten], services::run);
    level.finish();
}

#[test]
fn simulation_whatever_happens_the_oracle_is_right() {
    simulation::run_in_one_thread(simulation::seeds(400), 2);
}

#[test]
fn simulation_whatever_happens_to_the_timely_graph_the_oracle_is_right() {
    simulation::run_in_threads(simulation::seeds(30), 2);
}
