//! W-11, Q44: episodes are the maximal runs of adjacent windows with an incident, however they came about.

use super::builders::*;
use floodmark_model::incident::{ClosedWindow, Status};
use floodmark_model::{IncidentId, IncidentKey, Reach, Verdict};
use floodmark_sinks::{Generation, IncidentStore, Selection};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What happens in one call to the incidents of windows with these numbers.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// They are judged, some of them more than once.
    Judged(Vec<(i64, Verdict)>),
    /// They close, and have reached so much; or they settle.
    Closed { reached: BTreeMap<i64, Reach>, settled: bool },
}

/// Many steps on few windows.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let windows = -4..4i64;
    let verdict = prop::sample::select(vec![Verdict::Own, Verdict::Bridge, Verdict::Blocked]);
    let reach = prop::sample::select(vec![Reach::Own, Reach::Run, Reach::Below]);
    let step = prop_oneof![
        3 => prop::collection::vec((windows.clone(), verdict), 1..6).prop_map(Step::Judged),
        2 => (prop::collection::btree_map(windows, reach, 1..5), any::<bool>())
            .prop_map(|(reached, settled)| Step::Closed { reached, settled }),
    ];
    prop::collection::vec(step, 1..30)
}

/// The statuses of rows as the promises of the store have them, and nothing else.
#[derive(Default)]
struct Expected {
    /// Status, and whether the window has closed.
    rows: BTreeMap<i64, (Status, bool)>,
}

impl Expected {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Judged(judged) => {
                let last: BTreeMap<_, _> = judged.iter().copied().collect();
                last.into_iter().for_each(|(window, verdict)| self.judge(window, verdict));
            }
            Step::Closed { reached, settled } => {
                reached.iter().for_each(|(window, reach)| self.close(*window, *reach, *settled));
            }
        }
    }

    fn judge(&mut self, window: i64, verdict: Verdict) {
        match (self.rows.get(&window).copied(), verdict.is_incident()) {
            (None, true) => _ = self.rows.insert(window, (Status::Open, false)),
            (Some((_, is_closed)), true) => _ = self.rows.insert(window, (live(is_closed), is_closed)),
            (Some((Status::Open | Status::Closed, is_closed)), false) => {
                self.rows.insert(window, (Status::Superseded, is_closed));
            }
            (_, false) => {}
        }
    }

    fn close(&mut self, window: i64, reach: Reach, settled: bool) {
        let Some((_, was_closed)) = self.rows.get(&window).copied() else { return };
        let is_closed = was_closed || !settled;
        let status = match reach {
            Reach::Below => Status::Withdrawn,
            Reach::Run if self.is_live(window - 1) => Status::Superseded,
            Reach::Run | Reach::Own => live(is_closed),
        };
        self.rows.insert(window, (status, is_closed));
    }

    fn is_live(&self, window: i64) -> bool {
        self.rows.get(&window).is_some_and(|(status, _)| matches!(status, Status::Open | Status::Closed))
    }

    /// The first window of the run that `window` lies in; itself where it has no incident.
    fn head(&self, mut window: i64) -> i64 {
        while self.is_live(window) && self.is_live(window - 1) {
            window -= 1;
        }
        window
    }
}

fn live(is_closed: bool) -> Status {
    if is_closed { Status::Closed } else { Status::Open }
}

/// Takes the steps for one tenant, and compares after each; and after a repeat of each.
pub(crate) async fn q44_episodes_are_the_runs_after_every_step(
    store: &impl IncidentStore,
    generation: Generation,
    tenant: &str,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let key = |window: i64| key_of(tenant, window * WINDOW_MS);
    let mut expected = Expected::default();
    for step in steps {
        let known: BTreeSet<_> = expected.rows.keys().map(|window| key(*window).id()).collect();
        expected.take(step);
        let new = take(store, generation, &key, step).await;
        let after = store.incidents(&of_tenant(tenant)).await.unwrap();
        let ids: BTreeSet<_> = expected.rows.keys().map(|window| key(*window).id()).collect();
        prop_assert_eq!(new, &ids - &known, "{:?} pages for what is new", step);
        prop_assert_eq!(after.len(), expected.rows.len());
        for row in &after {
            let window = row.window_start.0 / WINDOW_MS;
            let place = format!("window {window} after {step:?}");
            prop_assert_eq!(row.status, expected.rows[&window].0, "{}", &place);
            prop_assert_eq!(row.closed_at.is_some(), expected.rows[&window].1, "{}", &place);
            prop_assert_eq!(&row.episode_id, &key(expected.head(window)).id().to_string(), "{}", &place);
            let by = (row.status == Status::Superseded).then(|| key(window - 1).id().to_string());
            prop_assert_eq!(&row.superseded_by, &by, "{}", &place);
        }
        prop_assert_eq!(take(store, generation, &key, step).await, BTreeSet::new());
        let repeated = store.incidents(&of_tenant(tenant)).await.unwrap();
        prop_assert_eq!(repeated, after, "{:?} again", step);
    }
    Ok(())
}

/// Takes one step; gives the ids that are new.
async fn take(
    store: &impl IncidentStore,
    generation: Generation,
    key: &impl Fn(i64) -> IncidentKey,
    step: &Step,
) -> BTreeSet<IncidentId> {
    match step {
        Step::Judged(judged) => {
            let rows: Vec<_> = judged.iter().map(|&(window, verdict)| judged_of(key(window), verdict)).collect();
            store.write_incidents(generation, &rows).await.unwrap().into_iter().collect()
        }
        Step::Closed { reached, settled } => {
            let window = |(&window, &reach)| ClosedWindow { facts: facts_of(key(window), 10), reach };
            let windows: Vec<_> = reached.iter().map(window).collect();
            store.close_incidents(generation, &windows, *settled).await.unwrap();
            BTreeSet::new()
        }
    }
}

fn of_tenant(tenant: &str) -> Selection {
    Selection { tenant: Some(tenant.to_owned()), ..Selection::default() }
}

/// The windows of `tenant` that have an incident, with the first of their episode.
pub(crate) async fn episodes_of(store: &impl IncidentStore, tenant: &str) -> Vec<(i64, i64)> {
    let selection = Selection { tenant: Some(tenant.to_owned()), ..Selection::default() };
    let rows = store.incidents(&selection).await.unwrap();
    let first = |id: &str| rows.iter().find(|row| row.id == id).map_or(i64::MIN, |row| row.window_start.0 / WINDOW_MS);
    let live = rows.iter().filter(|row| matches!(row.status, Status::Open | Status::Closed));
    live.map(|row| (row.window_start.0 / WINDOW_MS, first(&row.episode_id))).collect()
}

pub(crate) async fn w11_adjacent_windows_are_one_episode_in_every_order_and_other_keys_are_apart(
    store: &impl IncidentStore,
) {
    let generation = store.take_over().await.unwrap();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (one_call, one_by_one) = (format!("one call {order:?}"), format!("one by one {order:?}"));
        let of = |tenant: &str| order.map(|window| incident_of(key_of(tenant, window * WINDOW_MS)));
        store.write_incidents(generation, &of(&one_call)).await.unwrap();
        for new in of(&one_by_one) {
            store.write_incidents(generation, &[new]).await.unwrap();
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
        store.write_incidents(generation, &due(&[0, 4])).await.unwrap();
        store.write_incidents(generation, &due(&[1, 2, 3])).await.unwrap();
        assert_eq!(episodes_of(store, &tenant).await, [0, 1, 2, 3, 4].map(|window| (window, 0)), "tenant {tenant}");
    }
}

pub(crate) async fn q44_rows_that_leave_and_return_in_one_call_part_and_join_runs(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    for tenant in (0..16).map(|n| n.to_string()) {
        let key = |window: i64| key_of(&tenant, window * WINDOW_MS);
        let close = async |totals: &[(i64, u64)]| {
            let closed: Vec<_> = totals.iter().map(|&(window, total)| closed_of(key(window), total)).collect();
            store.close_incidents(generation, &closed, false).await.unwrap();
        };
        let due: Vec<_> = (0..4).map(|window| incident_of(key(window))).collect();
        store.write_incidents(generation, &due).await.unwrap();
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
