//! W-11, Q44: episodes are the maximal runs of adjacent windows with an incident, however they came about.

use crate::builders::*;
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{IncidentStore, Selection};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What happens to the incident of the window with this number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Due(i64),
    Closed(i64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (-4..4i64).prop_map(Step::Due),
        2 => ((-4..4i64), any::<bool>()).prop_map(|(window, is_due)| Step::Closed(window, is_due)),
    ]
}

/// The first window of the run that `window` lies in.
fn head(live: &BTreeSet<i64>, mut window: i64) -> i64 {
    while live.contains(&(window - 1)) {
        window -= 1;
    }
    window
}

async fn follow(store: &SqliteStore, steps: &[Step]) -> Result<(), TestCaseError> {
    let generation = store.take_over().await.unwrap();
    let (mut live, mut known) = (BTreeSet::new(), BTreeSet::new());
    for &step in steps {
        match step {
            Step::Due(window) => {
                store.insert_incidents(generation, &[incident(window * WINDOW_MS)]).await.unwrap();
                if known.insert(window) {
                    live.insert(window);
                }
            }
            Step::Closed(window, is_due) => {
                let facts = facts(window * WINDOW_MS, if is_due { 10 } else { 9 });
                store.close_incidents(generation, 10, &[facts], false).await.unwrap();
                if !is_due {
                    live.remove(&window);
                } else if known.contains(&window) {
                    live.insert(window);
                }
            }
        }
        for row in store.incidents(&Selection::default()).await.unwrap() {
            let window = row.window_start.0 / WINDOW_MS;
            let episode = if live.contains(&window) { head(&live, window) } else { window };
            prop_assert_eq!(row.episode_id, key(episode * WINDOW_MS).id().to_string(), "window {}", window);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn q44_episodes_are_the_runs_after_every_step(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { follow(&SqliteStore::open_in_memory().unwrap(), &steps).await })?;
    }
}

#[tokio::test]
async fn w11_adjacent_windows_are_one_episode_in_every_order_and_other_keys_are_apart() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let store = SqliteStore::open_in_memory().unwrap();
        let generation = store.take_over().await.unwrap();
        let mut other = incident(WINDOW_MS);
        other.key.tenant = "other".into();
        let mut new: Vec<_> = order.iter().map(|window| incident(window * WINDOW_MS)).collect();
        new.insert(1, other.clone());
        store.insert_incidents(generation, &new).await.unwrap();
        for row in store.incidents(&Selection::default()).await.unwrap() {
            let first = if row.tenant == "other" { other.key.id() } else { key(0).id() };
            assert_eq!(row.episode_id, first.to_string(), "{order:?}");
        }
    }
}
