//! One row per incident, and what becomes of it.

use crate::fixture::{connect, fresh};
use crate::incident_store::builders::*;
use crate::incident_store::{incidents, promises};
use floodmark_sinks::IncidentStore;
use floodmark_sinks::postgres::PostgresStore;
use floodmark_testkit::services::Service;
use floodmark_testkit::services::postgres::PostgresDatabase;

promises! {
    fresh:
    incidents::w6_an_incident_is_stored_once_and_reported_as_new_once,
    incidents::calls_about_nothing_do_nothing,
    incidents::w9_closing_writes_the_total_and_repeating_it_corrects,
    incidents::w9_a_row_that_was_never_due_is_withdrawn_and_comes_back_when_it_is,
    incidents::decision_14_settling_writes_totals_and_leaves_windows_open,
    incidents::w10_samples_are_refreshed_while_the_window_is_open,
    incidents::incidents_are_selected_by_tenant_and_window_and_sorted_by_bytes,
    incidents::decision_8_an_older_generation_writes_nothing,
    incidents::control_characters_come_back_as_they_went_in,
    incidents::names_may_be_long_and_a_long_message_is_cut_between_characters,
    incidents::times_before_1970_and_after_2262_are_kept_to_the_millisecond,
    incidents::twenty_thousand_incidents_are_one_insert,
}

#[tokio::test]
async fn a16_every_change_is_in_the_audit() {
    let (store, database) = fresh().await;
    incidents::w9_a_row_that_was_never_due_is_withdrawn_and_comes_back_when_it_is(&store).await;
    let audit = connect(&database)
        .await
        .query(
            "SELECT transition, reason, generation, incident_id FROM incident_transitions ORDER BY transition_id",
            &[],
        )
        .await
        .unwrap();
    let transitions: Vec<(&str, Option<&str>)> = audit.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(transitions, incidents::A16_TRANSITIONS, "one for each change");
    let id = key(0).id().to_string();
    assert!(audit.iter().all(|row| row.get::<_, i64>(2) == 1 && row.get::<_, &str>(3) == id));
}

/// Q52 lets no such tenant in; whatever comes, the row is stored.
#[tokio::test]
async fn a_nul_in_a_name_is_shown() {
    let (store, _database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    store.write_incidents(generation, &[incident_of(key_of("a\0b", 0))]).await.unwrap();
    assert_eq!(row(&store).await.tenant, "a\u{2400}b");
}

/// A server whose databases sort as a dictionary does.
#[tokio::test]
async fn incidents_are_sorted_by_bytes_in_a_database_of_any_collation() {
    let (server, name) = (Service::Postgres.address(), floodmark_testkit::services::unique_name("collation"));
    let administrator = PostgresDatabase::create("administrator");
    let client = connect(&administrator).await;
    let create =
        format!("CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'");
    client.batch_execute(&create).await.unwrap();
    let url = administrator.url().replace(administrator.name(), &name);
    assert_ne!(url, server);
    let store = PostgresStore::new(&url, "main").unwrap();
    store.migrate().await.unwrap();
    incidents::incidents_are_selected_by_tenant_and_window_and_sorted_by_bytes(&store).await;
    client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

#[tokio::test]
async fn a_call_that_fails_leaves_nothing_of_itself() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    database.execute("ALTER TABLE incidents ADD CHECK (window_start < '1970-01-01T00:10:00Z')");
    let error = store.write_incidents(generation, &[incident(0), incident(600_000)]).await.unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("23514"), "{error}");
    assert_eq!(rows(&store).await, []);
    assert_eq!(store.write_incidents(generation, &[incident(0)]).await.unwrap(), [key(0).id()]);
}

#[tokio::test]
async fn outsiders_find_the_columns_they_rely_on() {
    let (store, database) = fresh().await;
    let generation = store.take_over().await.unwrap();
    store.write_incidents(generation, &[incident(0)]).await.unwrap();
    for table in ["incidents", "all_incidents"] {
        let found = database.query(format!(
            "SELECT id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status, count, total, \
                first_ts, last_ts, opened_at, closed_at, episode_id, superseded_by, samples FROM {table}"
        ));
        assert_eq!(found.len(), 1, "{table}");
        let id = key(0).id().to_string();
        assert_eq!((found[0].get::<_, &str>("id"), found[0].get::<_, &str>("kind")), (id.as_str(), "burst"));
    }
}
