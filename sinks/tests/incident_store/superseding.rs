//! W-7, Q40 to Q44: rows that another takes the place of, and that come back.

use super::builders::*;
use super::episodes::episodes_of;
use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, Status};
use floodmark_model::{Detection, EventTime, Fingerprint, IncidentKey, IncidentKind, Reach, Verdict};
use floodmark_sinks::{IncidentStore, Selection};
use std::collections::BTreeSet;

fn at(window: i64) -> IncidentKey {
    key(window * WINDOW_MS)
}

fn judged<const N: usize>(verdicts: [(i64, Verdict); N]) -> [JudgedIncident; N] {
    verdicts.map(|(window, verdict)| judged_of(at(window), verdict))
}

fn reached(window: i64, total: u64, reach: Reach) -> ClosedWindow {
    ClosedWindow { facts: facts_of(at(window), total), reach }
}

/// (status, is it superseded by the window before) for each row.
async fn statuses(store: &impl IncidentStore) -> Vec<(Status, bool)> {
    let standing = |row: IncidentRow| {
        let previous = key(row.window_start.0 - WINDOW_MS).id().to_string();
        assert!(row.superseded_by.iter().all(|by| *by == previous));
        (row.status, row.superseded_by.is_some())
    };
    rows(store).await.into_iter().map(standing).collect()
}

const OPEN: (Status, bool) = (Status::Open, false);
const CLOSED: (Status, bool) = (Status::Closed, false);
const SUPERSEDED: (Status, bool) = (Status::Superseded, true);
const WITHDRAWN: (Status, bool) = (Status::Withdrawn, false);

/// Scenarios O28 and O29.
pub(crate) async fn q40_superseding_goes_on_along_the_chain_and_back(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let write = async |rows: &[JudgedIncident]| store.write_incidents(generation, rows).await.unwrap();
    for window in [1, 2, 3] {
        // Each bridge in its own arrival: what the window before has takes the place of the next.
        let verdict = if window == 2 { Verdict::Blocked } else { Verdict::Bridge };
        let new = write(&judged([(window, verdict)])).await;
        assert_eq!(new.len(), usize::from(window != 2), "what is blocked has no row");
    }
    assert_eq!(episodes_of(store, "acme").await, [(1, 1), (3, 3)]);

    let cascade = judged([(0, Verdict::Own), (1, Verdict::Blocked), (2, Verdict::Bridge), (3, Verdict::Blocked)]);
    let new: BTreeSet<_> = write(&cascade).await.into_iter().collect();
    assert_eq!(new, BTreeSet::from([at(0).id(), at(2).id()]));
    assert_eq!(statuses(store).await, [OPEN, SUPERSEDED, OPEN, SUPERSEDED]);
    assert_eq!(episodes_of(store, "acme").await, [(0, 0), (2, 2)]);

    let back = judged([(1, Verdict::Own), (2, Verdict::Blocked), (3, Verdict::Bridge)]);
    assert_eq!(write(&back).await, [], "rows that come back page nobody");
    assert_eq!(statuses(store).await, [OPEN, OPEN, SUPERSEDED, OPEN]);
    assert_eq!(episodes_of(store, "acme").await, [(0, 0), (1, 0), (3, 3)]);
    let stored = store.stored_incidents(EventTime(0)).await.unwrap();
    let stored: Vec<_> = stored.iter().map(|row| (row.status, row.reach)).collect();
    assert_eq!(
        stored,
        [
            (Status::Open, Reach::Own),
            (Status::Open, Reach::Own),
            (Status::Superseded, Reach::Run),
            (Status::Open, Reach::Run)
        ]
    );

    let all = rows(store).await;
    assert_eq!(write(&back).await, []);
    assert_eq!(rows(store).await, all, "a repeat changes nothing");
}

/// What [`q40_superseding_goes_on_along_the_chain_and_back`] leaves in the audit: (window, transition), sorted.
pub(crate) const A16_CHAIN: [(i64, &str); 9] = [
    (0, "opened"),
    (1, "opened"),
    (1, "returned"),
    (1, "superseded"),
    (2, "opened"),
    (2, "superseded"),
    (3, "opened"),
    (3, "returned"),
    (3, "superseded"),
];

pub(crate) fn chain_window(id: &str) -> i64 {
    (0..4).find(|window| at(*window).id().to_string() == id).unwrap()
}

pub(crate) async fn q41_a_row_that_comes_back_is_as_far_as_its_window(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let write = async |rows: &[JudgedIncident]| store.write_incidents(generation, rows).await.unwrap();
    write(&judged([(1, Verdict::Bridge)])).await;
    write(&judged([(0, Verdict::Own), (1, Verdict::Blocked)])).await;
    store.close_incidents(generation, &[closed_of(at(0), 10), reached(1, 9, Reach::Run)], false).await.unwrap();
    assert_eq!(statuses(store).await, [CLOSED, SUPERSEDED]);
    write(&judged([(1, Verdict::Own)])).await;
    assert_eq!(statuses(store).await, [CLOSED, CLOSED], "its window has closed meanwhile");
    let row = rows(store).await.remove(1);
    assert_eq!((row.total, row.count, row.detection), (Some(9), 9, Detection::Window), "a total is final");
}

/// Q42: what a closing makes of a row, whatever it was. Each case has a tenant of its own.
pub(crate) async fn w9_the_reach_and_the_window_before_decide_whatever_the_row_was(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let mut tenants = 0..;
    for status in [Status::Open, Status::Closed, Status::Superseded, Status::Withdrawn] {
        for (reach, previous, after) in [
            (Reach::Below, Verdict::Own, Status::Withdrawn),
            (Reach::Below, Verdict::Blocked, Status::Withdrawn),
            (Reach::Own, Verdict::Own, Status::Closed),
            (Reach::Own, Verdict::Blocked, Status::Closed),
            (Reach::Run, Verdict::Own, Status::Superseded),
            (Reach::Run, Verdict::Blocked, Status::Closed),
        ] {
            let tenant = tenants.next().map_or(String::new(), |n: i32| n.to_string());
            let key = |window: i64| key_of(&tenant, window * WINDOW_MS);
            let write = async |window, verdict| {
                store.write_incidents(generation, &[judged_of(key(window), verdict)]).await.unwrap();
            };
            let close = async |reach| {
                let window = ClosedWindow { facts: facts_of(key(1), 8), reach };
                store.close_incidents(generation, &[window], false).await.unwrap();
                let of_tenant = Selection { tenant: Some(tenant.clone()), ..Selection::default() };
                store.incidents(&of_tenant).await.unwrap().remove(1)
            };
            write(0, Verdict::Own).await;
            write(1, Verdict::Own).await;
            match status {
                Status::Open => {}
                Status::Closed => assert_eq!(close(Reach::Own).await.status, status),
                Status::Superseded => write(1, Verdict::Blocked).await,
                Status::Withdrawn => assert_eq!(close(Reach::Below).await.status, status),
            }
            write(0, previous).await;
            for _repeat in 0..2 {
                let row = close(reach).await;
                assert_eq!(row.status, after, "{status:?} {reach:?} {previous:?}");
                assert_eq!((row.total, row.count, row.closed_at.is_some()), (Some(8), 8, true));
                assert_eq!(row.superseded_by, (after == Status::Superseded).then(|| key(0).id().to_string()));
            }
        }
    }
}

pub(crate) async fn w9_a_bridge_stays_though_its_total_is_below_the_threshold(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    store.write_incidents(generation, &judged([(1, Verdict::Bridge)])).await.unwrap();
    store.close_incidents(generation, &[reached(1, 3, Reach::Run)], true).await.unwrap();
    assert_eq!(statuses(store).await, [OPEN]);
    store.close_incidents(generation, &[reached(1, 3, Reach::Run)], false).await.unwrap();
    assert_eq!(statuses(store).await, [CLOSED]);
    assert_eq!(row(store).await.total, Some(3));
    store.close_incidents(generation, &[reached(1, 12, Reach::Own)], false).await.unwrap();
    let stored = store.stored_incidents(EventTime(0)).await.unwrap();
    assert_eq!((stored[0].reach, stored[0].is_closed), (Reach::Own, true), "late data has raised it");
}

pub(crate) async fn q42_a_superseded_row_returns_when_the_one_that_stood_for_it_is_withdrawn(
    store: &impl IncidentStore,
) {
    let generation = store.take_over().await.unwrap();
    let close = async |windows: &[ClosedWindow]| store.close_incidents(generation, windows, false).await.unwrap();
    store.write_incidents(generation, &judged([(0, Verdict::Own), (2, Verdict::Own)])).await.unwrap();
    store.write_incidents(generation, &judged([(1, Verdict::Bridge)])).await.unwrap();
    store.write_incidents(generation, &judged([(1, Verdict::Blocked)])).await.unwrap();
    assert_eq!(episodes_of(store, "acme").await, [(0, 0), (2, 2)]);
    close(&[reached(0, 9, Reach::Below)]).await;
    assert_eq!(statuses(store).await, [WITHDRAWN, SUPERSEDED, OPEN], "it waits for its own close");
    close(&[reached(1, 9, Reach::Run)]).await;
    assert_eq!(statuses(store).await, [WITHDRAWN, CLOSED, OPEN]);
    assert_eq!(episodes_of(store, "acme").await, [(1, 1), (2, 1)]);

    // The same the other way, and in one call, whose windows come in any order.
    close(&[reached(1, 9, Reach::Run), reached(0, 10, Reach::Own)]).await;
    assert_eq!(statuses(store).await, [CLOSED, SUPERSEDED, OPEN]);
    assert_eq!(episodes_of(store, "acme").await, [(0, 0), (2, 2)]);
    close(&[reached(1, 9, Reach::Run), reached(0, 9, Reach::Below)]).await;
    assert_eq!(statuses(store).await, [WITHDRAWN, CLOSED, OPEN]);
}

pub(crate) async fn of_several_rows_of_one_key_the_last_verdict_holds_and_the_first_opens(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let write = async |rows: &[JudgedIncident]| store.write_incidents(generation, rows).await.unwrap();
    let row_of = |verdict, detection, count, opened_at| JudgedIncident {
        detection,
        count,
        opened_at: EventTime(opened_at),
        ..judged_of(at(1), verdict)
    };
    let blocked = row_of(Verdict::Blocked, Detection::Late, 5, 1);
    let bridge = row_of(Verdict::Bridge, Detection::Bridge, 6, 2);
    let own = row_of(Verdict::Own, Detection::Window, 10, 3);
    assert_eq!(write(&[bridge.clone(), blocked.clone()]).await, [], "nothing stands");
    assert_eq!(rows(store).await, []);
    assert_eq!(write(&[blocked.clone(), bridge, own]).await, [at(1).id()], "new once");
    let opened = row(store).await;
    assert_eq!((opened.detection, opened.count, opened.opened_at), (Detection::Bridge, 10, EventTime(2)));
    let stored = store.stored_incidents(EventTime(0)).await.unwrap();
    assert_eq!((stored[0].reach, stored[0].detection), (Reach::Own, Detection::Bridge));
    write(&[blocked, judged_of(at(1), Verdict::Bridge)]).await;
    assert_eq!(statuses(store).await, [OPEN]);
    let stored = store.stored_incidents(EventTime(0)).await.unwrap();
    assert_eq!(stored[0].reach, Reach::Own, "what was reached stays so");
}

pub(crate) async fn w12_a_cardinality_incident_is_a_row_of_its_own(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let burst = IncidentKey { fingerprint: Fingerprint::NONE, ..at(0) };
    let cardinality = IncidentKey { kind: IncidentKind::Cardinality, ..burst.clone() };
    let both = [incident_of(burst.clone()), incident_of(cardinality.clone())];
    assert_eq!(store.write_incidents(generation, &both).await.unwrap().len(), 2);
    assert_eq!(store.write_incidents(generation, &both).await.unwrap(), []);
    let close = ClosedWindow { facts: facts_of(cardinality.clone(), 1_000_001), reach: Reach::Own };
    store.close_incidents(generation, &[close], false).await.unwrap();
    let rows = rows(store).await;
    let shown: Vec<_> = rows.iter().map(|row| (row.kind.as_str(), row.status, row.total)).collect();
    assert_eq!(shown, [("burst", Status::Open, None), ("cardinality", Status::Closed, Some(1_000_001))]);
    let stored = store.stored_incidents(EventTime(0)).await.unwrap();
    assert_eq!(stored.into_iter().map(|row| row.key).collect::<Vec<_>>(), [burst, cardinality]);
}

pub(crate) async fn q44_a_thousand_chains_are_one_call(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let of = |verdicts: [(i64, Verdict); 3]| {
        let chain = |n: u128| {
            verdicts
                .map(|(window, verdict)| judged_of(IncidentKey { fingerprint: fingerprint(n), ..at(window) }, verdict))
        };
        (0..1_000).flat_map(chain).collect::<Vec<_>>()
    };
    let bridges = of([(1, Verdict::Bridge), (2, Verdict::Own), (3, Verdict::Own)]);
    assert_eq!(store.write_incidents(generation, &bridges).await.unwrap().len(), 3_000);
    let cascade = of([(0, Verdict::Own), (1, Verdict::Blocked), (2, Verdict::Own)]);
    assert_eq!(store.write_incidents(generation, &cascade).await.unwrap().len(), 1_000);
    let rows = rows(store).await;
    let own = |rows: &[IncidentRow]| rows.iter().all(|row| row.episode_id == row.id);
    assert!(own(&rows[..3_000]), "windows 0 and 2 begin runs, 1 is out of any");
    assert!(rows[2_000..3_000].iter().zip(&rows[3_000..]).all(|(first, next)| next.episode_id == first.id));
}
