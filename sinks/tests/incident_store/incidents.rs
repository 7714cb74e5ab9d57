//! One row per incident, and what becomes of it.

use super::builders::*;
use floodmark_model::incident::{ClosedWindow, IncidentRow, JudgedIncident, Sample, Status};
use floodmark_model::progress::Progress;
use floodmark_model::{Detection, EventTime, IncidentKey, Reach};
use floodmark_sinks::{Failure, IncidentStore, Selection, StoredIncident};

/// A row that its own window's count has opened.
fn stored_incident(key: IncidentKey, status: Status) -> StoredIncident {
    let is_closed = status == Status::Closed;
    StoredIncident { key, status, is_closed, reach: Reach::Own, detection: Detection::Window }
}

pub(crate) async fn w6_an_incident_is_stored_once_and_reported_as_new_once(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let new = JudgedIncident { message: Some("a\0b".into()), detection: Detection::Late, ..incident(300_000) };
    let ids = store.write_incidents(generation, std::slice::from_ref(&new)).await.unwrap();
    assert_eq!(ids, [new.key.id()]);
    let first = row(store).await;
    assert_eq!(first.id, new.key.id().to_string());
    assert_eq!((first.kind.as_str(), first.tenant.as_str(), first.rule.as_str()), ("burst", "acme", "default"));
    assert_eq!(first.fingerprint, fingerprint(1).to_string());
    assert_eq!((first.window_start, first.window_end), (EventTime(300_000), EventTime(600_000)));
    assert_eq!((first.detection, first.status, first.count), (Detection::Late, Status::Open, 10));
    assert_eq!((first.total, first.closed_at, first.opened_at), (None, None, EventTime(300_009)));
    assert_eq!((first.first_ts, first.last_ts, first.superseded_by.as_deref()), (None, None, None));
    assert_eq!(first.episode_id, first.id);
    assert_eq!(first.samples, [Sample { message: "a\u{2400}b".into(), count: 1 }]);

    let again = JudgedIncident { detection: Detection::Window, opened_at: EventTime(1), count: 9, ..new };
    assert_eq!(store.write_incidents(generation, &[again.clone(), again.clone()]).await.unwrap(), []);
    assert_eq!(row(store).await, first, "a repeat changes nothing");
    let again = JudgedIncident { count: 12, ..again };
    assert_eq!(store.write_incidents(generation, std::slice::from_ref(&again)).await.unwrap(), []);
    assert_eq!(row(store).await, IncidentRow { count: 12, ..first }, "a count only grows");
    store.close_incidents(generation, &[closed(300_000, 11)], false).await.unwrap();
    let closed = row(store).await;
    assert_eq!(store.write_incidents(generation, &[again, incident(0)]).await.unwrap(), [key(0).id()]);
    assert_eq!(rows(store).await[1].status, closed.status, "and a closed row stays so");
}

pub(crate) async fn calls_about_nothing_do_nothing(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    store.migrate().await.unwrap();
    store.ping().await.unwrap();
    assert_eq!(store.write_incidents(generation, &[]).await.unwrap(), []);
    store.refresh_incidents(generation, &[]).await.unwrap();
    store.close_incidents(generation, &[], false).await.unwrap();
    store.commit(generation, &Progress::default()).await.unwrap();
    assert_eq!(rows(store).await, []);
    assert_eq!(store.progress().await.unwrap(), Progress::default());
}

pub(crate) async fn w9_closing_writes_the_total_and_repeating_it_corrects(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    store.write_incidents(generation, &[incident(0)]).await.unwrap();
    for total in [12, 12, 13] {
        store.close_incidents(generation, &[closed(0, total)], false).await.unwrap();
        let row = row(store).await;
        assert_eq!((row.status, row.total, row.count), (Status::Closed, Some(total), total));
        assert_eq!((row.first_ts, row.last_ts), (Some(EventTime(0)), Some(EventTime(100))));
        assert_eq!(row.closed_at, Some(EventTime(300_000)));
    }
    store.close_incidents(generation, &[closed(300_000, 50)], false).await.unwrap();
    assert_eq!(rows(store).await.len(), 1, "closing creates no row");
}

pub(crate) async fn w9_a_row_that_was_never_due_is_withdrawn_and_comes_back_when_it_is(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    store.write_incidents(generation, &[incident(0)]).await.unwrap();
    let below = [closed(0, 9), closed(600_000, 9)];
    assert_eq!(store.close_incidents(generation, &below, false).await.unwrap(), 1, "the other one has no row");
    assert_eq!(store.close_incidents(generation, &below, false).await.unwrap(), 0, "it is withdrawn already");
    assert_eq!((row(store).await.status, row(store).await.total), (Status::Withdrawn, Some(9)));
    assert_eq!(store.stored_incidents(EventTime::MIN).await.unwrap(), [], "to the judge it does not exist");

    store.close_incidents(generation, &[closed(0, 10)], false).await.unwrap();
    assert_eq!(row(store).await.status, Status::Closed);
    store.close_incidents(generation, &[closed(0, 0)], false).await.unwrap();
    assert_eq!((row(store).await.first_ts, row(store).await.total), (None, Some(0)), "without rows no times");
    assert_eq!(store.write_incidents(generation, &[incident(0)]).await.unwrap(), [], "it pages nobody again");
    assert_eq!((row(store).await.status, row(store).await.count), (Status::Closed, 0), "its window has closed");
    store.close_incidents(generation, &[closed(0, 11)], false).await.unwrap();
    assert_eq!((row(store).await.status, row(store).await.count), (Status::Closed, 11));
}

/// What [`w9_a_row_that_was_never_due_is_withdrawn_and_comes_back_when_it_is`] leaves in the audit: (transition,
/// reason).
pub(crate) const A16_TRANSITIONS: [(&str, Option<&str>); 5] = [
    ("opened", None),
    ("withdrawn", Some("the total is 9, and neither the window nor a run over its start reaches the threshold")),
    ("returned", None),
    ("withdrawn", Some("the total is 0, and neither the window nor a run over its start reaches the threshold")),
    ("returned", None),
];

pub(crate) async fn decision_14_settling_writes_totals_and_leaves_windows_open(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    store.write_incidents(generation, &[incident(0), incident(600_000)]).await.unwrap();
    store.close_incidents(generation, &[closed(0, 12)], false).await.unwrap();
    store.close_incidents(generation, &[closed(0, 14), closed(600_000, 11)], true).await.unwrap();
    let rows = rows(store).await;
    assert_eq!((rows[0].status, rows[0].total), (Status::Closed, Some(14)), "a closed window stays closed");
    assert_eq!((rows[1].status, rows[1].total, rows[1].closed_at), (Status::Open, Some(11), None));
    let stored = store.stored_incidents(EventTime(0)).await.unwrap();
    assert_eq!(stored, [stored_incident(key(0), Status::Closed), stored_incident(key(600_000), Status::Open)]);
    assert_eq!(store.stored_incidents(EventTime(1)).await.unwrap().len(), 1);
}

pub(crate) async fn w10_samples_are_refreshed_while_the_window_is_open(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let refreshed = |message: &str| {
        let mut facts = facts(0, 12);
        facts.samples = vec![Sample { message: message.into(), count: 12 }];
        facts
    };
    store.refresh_incidents(generation, &[refreshed("none")]).await.unwrap();
    assert_eq!(rows(store).await, [], "refreshing creates no row");

    store.write_incidents(generation, &[incident(0)]).await.unwrap();
    store.refresh_incidents(generation, &[refreshed("first")]).await.unwrap();
    store.refresh_incidents(generation, &[facts(0, 0)]).await.unwrap();
    let open = row(store).await;
    assert_eq!((open.samples[0].message.as_str(), open.total), ("first", None), "facts of no rows say nothing");
    assert_eq!(open.first_ts, Some(EventTime(0)));

    store
        .close_incidents(generation, &[ClosedWindow { facts: refreshed("closed"), reach: Reach::Own }], false)
        .await
        .unwrap();
    store.refresh_incidents(generation, &[refreshed("late")]).await.unwrap();
    assert_eq!(row(store).await.samples[0].message, "closed");
}

pub(crate) async fn incidents_are_selected_by_tenant_and_window_and_sorted_by_bytes(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let tenant = |tenant: &str, start: i64| incident_of(key_of(tenant, start));
    let new = [tenant("b", 600_000), tenant("b", 0), tenant("a", 300_000), tenant("é", 0), tenant("Z", 0)];
    store.write_incidents(generation, &new).await.unwrap();
    let select = async |selection: Selection| {
        let rows = store.incidents(&selection).await.unwrap();
        rows.into_iter().map(|row| (row.window_start.0, row.tenant)).collect::<Vec<_>>()
    };
    let row = |start: i64, tenant: &str| (start, tenant.to_owned());
    assert_eq!(
        select(Selection::default()).await,
        [row(0, "Z"), row(0, "b"), row(0, "é"), row(300_000, "a"), row(600_000, "b")]
    );
    let (since, until) = (Some(EventTime(300_000)), Some(EventTime(600_000)));
    assert_eq!(select(Selection { since, until, ..Selection::default() }).await, [row(300_000, "a")]);
    let tenant = Some("b".into());
    assert_eq!(
        select(Selection { tenant: tenant.clone(), ..Selection::default() }).await,
        [row(0, "b"), row(600_000, "b")]
    );
    assert_eq!(select(Selection { tenant, since, until: None }).await, [row(600_000, "b")]);
    for tenant in ["", "B", "b\0"] {
        assert_eq!(select(Selection { tenant: Some(tenant.into()), ..Selection::default() }).await, [], "{tenant:?}");
    }
    let (since, until) = (Some(EventTime(i64::MIN)), Some(EventTime(i64::MAX)));
    assert_eq!(select(Selection { since, until, tenant: None }).await.len(), 5, "times far out are times");
    assert_eq!(select(Selection { since: until, until: None, tenant: None }).await, []);
    assert_eq!(store.stored_incidents(EventTime(300_000)).await.unwrap().len(), 2);
}

pub(crate) async fn decision_8_an_older_generation_writes_nothing(store: &impl IncidentStore) {
    let old = store.take_over().await.unwrap();
    store.write_incidents(old, &[incident(0)]).await.unwrap();
    let (before, new) = (row(store).await, store.take_over().await.unwrap());
    assert!(new > old);
    let errors = [
        store.heartbeat(old).await.unwrap_err(),
        store.write_incidents(old, &[incident(300_000)]).await.unwrap_err(),
        store.refresh_incidents(old, &[facts(0, 99)]).await.unwrap_err(),
        store.close_incidents(old, &[closed(0, 99)], false).await.unwrap_err(),
        store.close_incidents(old, &[closed(0, 9)], true).await.unwrap_err(),
        store.commit(old, &progress(9)).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.failure, Failure::Fenced, "{error}");
    }
    assert_eq!(row(store).await, before);
    assert_eq!(store.progress().await.unwrap(), Progress::default());
    store.heartbeat(new).await.unwrap();
    assert_eq!(store.write_incidents(new, &[incident(300_000)]).await.unwrap(), [key(300_000).id()]);
}

pub(crate) async fn control_characters_come_back_as_they_went_in(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let odd: String =
        (1..0x20).chain(0x7f..0xa0).chain([0x2028, 0xfeff, 0xfffe, 0x1_f600]).filter_map(char::from_u32).collect();
    let odd = format!("{odd}\\u0000\\\"'{{}}%s\r\n");
    let new = JudgedIncident { message: Some(odd.as_str().into()), ..incident_of(key_of(&odd, 0)) };
    store.write_incidents(generation, std::slice::from_ref(&new)).await.unwrap();
    let row = row(store).await;
    assert_eq!((row.tenant.as_str(), row.samples[0].message.as_str()), (odd.as_str(), odd.as_str()));
    assert_eq!(store.stored_incidents(EventTime(0)).await.unwrap(), [stored_incident(new.key, Status::Open)]);
    let selection = Selection { tenant: Some(odd), ..Selection::default() };
    assert_eq!(store.incidents(&selection).await.unwrap().len(), 1);
}

pub(crate) async fn names_may_be_long_and_a_long_message_is_cut_between_characters(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let long = "é".repeat(100_000);
    let mut new = JudgedIncident { message: Some(long.as_str().into()), ..incident_of(key_of(&long, 0)) };
    new.key.rule = long.as_str().into();
    assert_eq!(store.write_incidents(generation, &[new]).await.unwrap().len(), 1);
    let row = row(store).await;
    assert!(row.tenant == long && row.rule == long);
    assert_eq!(row.samples[0].message, "é".repeat(1_024));
}

/// Nanoseconds in 64 bits end in 2262.
pub(crate) async fn times_before_1970_and_after_2262_are_kept_to_the_millisecond(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let starts = [EventTime::EARLIEST.0, -300_000, 9_223_372_200_000, EventTime::LATEST.0 + 1 - WINDOW_MS];
    store.write_incidents(generation, &starts.map(incident)).await.unwrap();
    let closed = starts.map(|start| {
        let mut closed = closed(start, 10);
        closed.facts.last_ts = EventTime(start + WINDOW_MS - 1);
        closed
    });
    store.close_incidents(generation, &closed, false).await.unwrap();
    let found: Vec<_> = rows(store)
        .await
        .into_iter()
        .map(|row| {
            let times = [
                Some(row.window_start),
                Some(row.window_end),
                Some(row.opened_at),
                row.first_ts,
                row.last_ts,
                row.closed_at,
            ];
            times.map(|time| time.map_or(i64::MIN, |time| time.0 - row.window_start.0))
        })
        .collect();
    assert_eq!(found, [[0, WINDOW_MS, 9, 0, WINDOW_MS - 1, WINDOW_MS]; 4]);
    let stored: Vec<_> = store.stored_incidents(EventTime::MIN).await.unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(stored, starts.map(key));
    assert_eq!(store.stored_incidents(EventTime(1)).await.unwrap().len(), 2);
}

pub(crate) async fn twenty_thousand_incidents_are_one_insert(store: &impl IncidentStore) {
    let generation = store.take_over().await.unwrap();
    let new: Vec<_> = (0..20_000)
        .map(|n| {
            let mut key = key(n % 2 * WINDOW_MS);
            key.fingerprint = fingerprint((n / 2).cast_unsigned().into());
            incident_of(key)
        })
        .collect();
    assert_eq!(store.write_incidents(generation, &new).await.unwrap().len(), 20_000);
    assert_eq!(store.write_incidents(generation, &new).await.unwrap(), []);
    let rows = rows(store).await;
    assert_eq!(rows.len(), 20_000);
    let (first, second) = rows.split_at(10_000);
    let episodes = |rows: &[floodmark_model::incident::IncidentRow]| {
        rows.iter().map(|row| row.episode_id.clone()).collect::<Vec<_>>()
    };
    assert!(first.iter().all(|row| row.episode_id == row.id));
    assert_eq!(episodes(first), episodes(second), "each bug's two windows are one episode");
}
