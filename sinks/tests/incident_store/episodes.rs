//! W-11, Q44: episodes are the maximal runs of adjacent windows with an incident, however they came about.

use super::builders::*;
use floodmark_model::incident::Status;
use floodmark_sinks::{Generation, IncidentStore, Selection};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What happens in one call to the incidents of windows with these numbers.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// They are due.
    Due(BTreeSet<i64>),
    /// They close, and were due or not.
    Closed(Vec<(i64, bool)>),
}

/// Many steps on few windows.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let windows = || proptest::collection::btree_set(-4..4i64, 1..5);
    let step = prop_oneof![
        3 => windows().prop_map(Step::Due),
        2 => (windows(), any::<u8>()).prop_map(|(windows, are_due)| {
            Step::Closed(windows.iter().map(|window| (*window, are_due >> (window + 4) & 1 == 1)).collect())
        }),
    ];
    proptest::collection::vec(step, 1..30)
}

/// The first window of the run that `window` lies in.
fn head(live: &BTreeSet<i64>, mut window: i64) -> i64 {
    while live.contains(&(window - 1)) {
        window -= 1;
    }
    window
}

/// Takes the steps for one tenant, and compares after each.
pub(crate) async fn q44_episodes_are_the_runs_after_every_step(
    store: &impl IncidentStore,
    generation: Generation,
    tenant: &str,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let key = |window: i64| key_of(tenant, window * WINDOW_MS);
    let (mut live, mut known) = (BTreeSet::new(), BTreeSet::new());
    for step in steps {
        match step {
            Step::Due(windows) => {
                let new: Vec<_> = windows.iter().map(|&window| incident_of(key(window))).collect();
                store.insert_incidents(generation, &new).await.unwrap();
                live.extend(windows.difference(&known));
                known.extend(windows);
            }
            Step::Closed(windows) => {
                let total = |is_due| if is_due { 10 } else { 9 };
                let facts: Vec<_> =
                    windows.iter().map(|&(window, is_due)| facts_of(key(window), total(is_due))).collect();
                store.close_incidents(generation, 10, &facts, false).await.unwrap();
                for (window, is_due) in windows {
                    if !is_due {
                        live.remove(window);
                    } else if known.contains(window) {
                        live.insert(*window);
                    }
                }
            }
        }
        let selection = Selection { tenant: Some(tenant.to_owned()), ..Selection::default() };
        let rows = store.incidents(&selection).await.unwrap();
        prop_assert_eq!(rows.len(), known.len());
        for row in rows {
            let window = row.window_start.0 / WINDOW_MS;
            let is_live = live.contains(&window);
            prop_assert_eq!(row.status != Status::Withdrawn, is_live, "window {}", window);
            let episode = if is_live { head(&live, window) } else { window };
            prop_assert_eq!(row.episode_id, key(episode).id().to_string(), "window {} after {:?}", window, step);
        }
    }
    Ok(())
}

/// The windows of `tenant` that have an incident, with the first of their episode.
async fn episodes_of(store: &impl IncidentStore, tenant: &str) -> Vec<(i64, i64)> {
    let selection = Selection { tenant: Some(tenant.to_owned()), ..Selection::default() };
    let rows = store.incidents(&selection).await.unwrap();
    let first = |id: &str| rows.iter().find(|row| row.id == id).map_or(i64::MIN, |row| row.window_start.0 / WINDOW_MS);
    let live = rows.iter().filter(|row| row.status != Status::Withdrawn);
    live.map(|row| (row.window_start.0 / WINDOW_MS, first(&row.episode_id))).collect()
}

pub(crate) async fn w11_adjacent_windows_are_one_episode_in_every_order_and_other_keys_are_apart(
    store: &impl IncidentStore,
) {
    let generation = store.take_over().await.unwrap();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (one_call, one_by_one) = (format!("one call {order:?}"), format!("one by one {order:?}"));
        let of = |tenant: &str| order.map(|window| incident_of(key_of(tenant, window * WINDOW_MS)));
        store.insert_incidents(generation, &of(&one_call)).await.unwrap();
        for new in of(&one_by_one) {
            store.insert_incidents(generation, &[new]).await.unwrap();
        }
        for tenant in [one_call, one_by_one] {
            assert_eq!(episodes_of(store, &tenant).await, [(0, 0), (1, 0), (2, 0)], "{tenant}");
        }
    }
}

/// Ids order the rows of a call as chance will have it: with 16 tenants in every way.
pub(crate) async fn q44_several_windows_of_one_call_join_the_run_that_is_there(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    for tenant in (0..16).map(|n| n.to_string()) {
        let key = |window: i64| key_of(&tenant, window * WINDOW_MS);
        let due = |windows: &[i64]| windows.iter().map(|&window| incident_of(key(window))).collect::<Vec<_>>();
        store.insert_incidents(generation, &due(&[0, 4])).await.unwrap();
        store.insert_incidents(generation, &due(&[1, 2, 3])).await.unwrap();
        assert_eq!(episodes_of(store, &tenant).await, [0, 1, 2, 3, 4].map(|window| (window, 0)), "tenant {tenant}");
    }
}

pub(crate) async fn q44_rows_that_leave_and_return_in_one_call_part_and_join_runs(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    for tenant in (0..16).map(|n| n.to_string()) {
        let key = |window: i64| key_of(&tenant, window * WINDOW_MS);
        let close = async |totals: &[(i64, u64)]| {
            let facts: Vec<_> = totals.iter().map(|&(window, total)| facts_of(key(window), total)).collect();
            store.close_incidents(generation, 10, &facts, false).await.unwrap();
        };
        let due: Vec<_> = (0..4).map(|window| incident_of(key(window))).collect();
        store.insert_incidents(generation, &due).await.unwrap();
        close(&[(0, 9)]).await;
        assert_eq!(episodes_of(store, &tenant).await, [(1, 1), (2, 1), (3, 1)], "tenant {tenant}");
        close(&[(0, 10), (1, 9)]).await;
        assert_eq!(episodes_of(store, &tenant).await, [(0, 0), (2, 2), (3, 2)], "tenant {tenant}");
        close(&[(0, 9), (2, 9)]).await;
        assert_eq!(episodes_of(store, &tenant).await, [(3, 3)], "tenant {tenant}");
        close(&[(0, 10), (1, 10), (2, 10), (3, 10)]).await;
        assert_eq!(episodes_of(store, &tenant).await, [(0, 0), (1, 0), (2, 0), (3, 0)], "tenant {tenant}");
    }
}
