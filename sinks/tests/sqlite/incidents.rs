//! One row per incident, and what becomes of it.

use crate::builders::*;
use floodmark_model::incident::{IncidentRow, NewIncident, Sample, Status};
use floodmark_model::{Detection, EventTime};
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{Failure, Generation, IncidentStore, Selection, StoredIncident};

async fn store() -> (SqliteStore, Generation) {
    let store = SqliteStore::open_in_memory().unwrap();
    let generation = store.take_over().await.unwrap();
    (store, generation)
}

async fn rows(store: &SqliteStore) -> Vec<IncidentRow> {
    store.incidents(&Selection::default()).await.unwrap()
}

async fn row(store: &SqliteStore) -> IncidentRow {
    let mut rows = rows(store).await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

#[tokio::test]
async fn w6_an_incident_is_stored_once_and_reported_as_new_once() {
    let (store, generation) = store().await;
    let new = NewIncident { message: Some("a\0b".into()), detection: Detection::Late, ..incident(300_000) };
    let ids = store.insert_incidents(generation, std::slice::from_ref(&new)).await.unwrap();
    assert_eq!(ids, [new.key.id()]);
    let again = NewIncident { detection: Detection::Window, count: 12, ..new.clone() };
    assert_eq!(store.insert_incidents(generation, &[again.clone(), again]).await.unwrap(), []);

    let ids = [incident(0).key.id(), new.key.id()];
    assert_eq!(store.existing(&ids).await.unwrap(), [new.key.id()]);

    let row = row(&store).await;
    assert_eq!(row.id, new.key.id().to_string());
    assert_eq!((row.kind.as_str(), row.tenant.as_str(), row.rule.as_str()), ("burst", "acme", "default"));
    assert_eq!(row.fingerprint, fingerprint(1).to_string());
    assert_eq!((row.window_start, row.window_end), (EventTime(300_000), EventTime(600_000)));
    assert_eq!((row.detection, row.status, row.count), (Detection::Late, Status::Open, 10));
    assert_eq!((row.total, row.closed_at, row.opened_at), (None, None, EventTime(300_009)));
    assert_eq!(row.episode_id, row.id);
    assert_eq!(row.samples, [Sample { message: "a\u{2400}b".into(), count: 1 }]);
}

#[tokio::test]
async fn w9_closing_writes_the_total_and_repeating_it_corrects() {
    let (store, generation) = store().await;
    store.insert_incidents(generation, &[incident(0)]).await.unwrap();
    for total in [12, 12, 13] {
        store.close_incidents(generation, 10, &[facts(0, total)], false).await.unwrap();
        let row = row(&store).await;
        assert_eq!((row.status, row.total, row.count), (Status::Closed, Some(total), total));
        assert_eq!((row.first_ts, row.last_ts), (Some(EventTime(0)), Some(EventTime(100))));
        assert_eq!(row.closed_at, Some(EventTime(300_000)));
    }
    store.close_incidents(generation, 10, &[facts(300_000, 50)], false).await.unwrap();
    assert_eq!(rows(&store).await.len(), 1, "closing creates no row");
}

#[tokio::test]
async fn w9_a_row_that_was_never_due_is_withdrawn_and_comes_back_when_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let generation = store.take_over().await.unwrap();
    store.insert_incidents(generation, &[incident(0)]).await.unwrap();
    store.close_incidents(generation, 10, &[facts(0, 9)], false).await.unwrap();
    store.close_incidents(generation, 10, &[facts(0, 9)], false).await.unwrap();
    assert_eq!((row(&store).await.status, row(&store).await.total), (Status::Withdrawn, Some(9)));
    assert_eq!(store.stored_incidents(EventTime::MIN).await.unwrap(), [], "to the judge it does not exist");

    store.close_incidents(generation, 10, &[facts(0, 10)], false).await.unwrap();
    assert_eq!(row(&store).await.status, Status::Closed);
    store.close_incidents(generation, 10, &[facts(0, 9)], false).await.unwrap();
    assert_eq!(store.insert_incidents(generation, &[incident(0)]).await.unwrap(), [], "it pages nobody again");
    assert_eq!(row(&store).await.status, Status::Withdrawn, "the total decides");
    store.close_incidents(generation, 10, &[facts(0, 11)], false).await.unwrap();
    assert_eq!((row(&store).await.status, row(&store).await.count), (Status::Closed, 11));

    let file = rusqlite::Connection::open(&path).unwrap();
    let audit: Vec<(String, i64, Option<String>)> = file
        .prepare("SELECT transition, generation, reason FROM incident_transitions ORDER BY transition_id")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let transitions: Vec<_> = audit.iter().map(|(transition, ..)| transition.as_str()).collect();
    assert_eq!(transitions, ["opened", "withdrawn", "returned", "withdrawn", "returned"], "one for each change");
    assert_eq!(audit[1].1, generation.0);
    assert_eq!(audit[1].2.as_deref(), Some("the total of 9 is below the threshold of 10"));
}

#[tokio::test]
async fn decision_14_settling_writes_totals_and_leaves_windows_open() {
    let (store, generation) = store().await;
    store.insert_incidents(generation, &[incident(0), incident(600_000)]).await.unwrap();
    store.close_incidents(generation, 10, &[facts(0, 12)], false).await.unwrap();
    store.close_incidents(generation, 10, &[facts(0, 14), facts(600_000, 11)], true).await.unwrap();
    let rows = rows(&store).await;
    assert_eq!((rows[0].status, rows[0].total), (Status::Closed, Some(14)), "a closed window stays closed");
    assert_eq!((rows[1].status, rows[1].total, rows[1].closed_at), (Status::Open, Some(11), None));
    let stored = store.stored_incidents(EventTime(0)).await.unwrap();
    assert_eq!(
        stored,
        [StoredIncident { key: key(0), is_closed: true }, StoredIncident { key: key(600_000), is_closed: false }]
    );
    assert_eq!(store.stored_incidents(EventTime(1)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn w10_samples_are_refreshed_while_the_window_is_open() {
    let (store, generation) = store().await;
    let refreshed = |message: &str| {
        let mut facts = facts(0, 12);
        facts.samples = vec![Sample { message: message.into(), count: 12 }];
        facts
    };
    store.refresh_incidents(generation, &[refreshed("none")]).await.unwrap();
    assert_eq!(rows(&store).await, [], "refreshing creates no row");

    store.insert_incidents(generation, &[incident(0)]).await.unwrap();
    store.refresh_incidents(generation, &[refreshed("first")]).await.unwrap();
    store.refresh_incidents(generation, &[facts(0, 0)]).await.unwrap();
    let open = row(&store).await;
    assert_eq!((open.samples[0].message.as_str(), open.total), ("first", None), "facts of no rows say nothing");
    assert_eq!(open.first_ts, Some(EventTime(0)));

    store.close_incidents(generation, 10, &[refreshed("closed")], false).await.unwrap();
    store.refresh_incidents(generation, &[refreshed("late")]).await.unwrap();
    assert_eq!(row(&store).await.samples[0].message, "closed");
}

#[tokio::test]
async fn incidents_are_selected_by_tenant_and_window_and_sorted() {
    let (store, generation) = store().await;
    let mut new = vec![incident(600_000), incident(0), incident(300_000)];
    new[0].key.tenant = "b".into();
    new[1].key.tenant = "b".into();
    new.push(incident(0));
    store.insert_incidents(generation, &new).await.unwrap();
    let select = async |selection: Selection| {
        let rows = store.incidents(&selection).await.unwrap();
        rows.into_iter().map(|row| (row.window_start.0, row.tenant)).collect::<Vec<_>>()
    };
    let row = |start: i64, tenant: &str| (start, tenant.to_owned());
    assert_eq!(
        select(Selection::default()).await,
        [row(0, "acme"), row(0, "b"), row(300_000, "acme"), row(600_000, "b")]
    );
    let (since, until) = (Some(EventTime(300_000)), Some(EventTime(600_000)));
    assert_eq!(select(Selection { since, until, ..Selection::default() }).await, [row(300_000, "acme")]);
    let tenant = Some("b".into());
    assert_eq!(select(Selection { tenant, ..Selection::default() }).await, [row(0, "b"), row(600_000, "b")]);
}

#[tokio::test]
async fn decision_8_an_older_generation_writes_nothing() {
    let (store, old) = store().await;
    store.insert_incidents(old, &[incident(0)]).await.unwrap();
    let new = store.take_over().await.unwrap();
    assert!(new > old);
    let errors = [
        store.heartbeat(old).await.unwrap_err(),
        store.insert_incidents(old, &[incident(300_000)]).await.unwrap_err(),
        store.refresh_incidents(old, &[facts(0, 99)]).await.unwrap_err(),
        store.close_incidents(old, 10, &[facts(0, 99)], false).await.unwrap_err(),
        store.commit(old, &progress(9)).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.failure, Failure::Fenced, "{error}");
    }
    assert_eq!(row(&store).await.total, None);
    assert_eq!(store.progress().await.unwrap().partitions.len(), 0);
    store.heartbeat(new).await.unwrap();
}

#[tokio::test]
async fn a_call_that_fails_leaves_nothing_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let generation = store.take_over().await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(
        "CREATE TRIGGER refuse BEFORE INSERT ON incidents WHEN NEW.window_start = 600000
        BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .unwrap();
    let error = store.insert_incidents(generation, &[incident(0), incident(600_000)]).await.unwrap_err();
    assert_eq!(error.failure, Failure::Permanent);
    assert_eq!(rows(&store).await, []);
}
