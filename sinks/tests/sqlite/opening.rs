//! Whose file it is, and who may write it.

use crate::builders::*;
use floodmark_model::incident::Status;
use floodmark_model::{Detection, EventTime, Reach, Verdict};
use floodmark_sinks::sqlite::SqliteStore;
use floodmark_sinks::{Failure, IncidentStore, OccurrenceStore, StoreError, StoredIncident};
use std::path::Path;

fn refused(path: &Path) -> StoreError {
    let error = SqliteStore::open(path).unwrap_err();
    assert_eq!(error.failure, Failure::Permanent);
    assert!(error.to_string().contains(&path.display().to_string()), "names the file: {error}");
    error
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_store_that_was_closed_opens_again_with_all_it_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for run in 1..=3 {
        let store = SqliteStore::open(&path).unwrap();
        IncidentStore::migrate(&store).await.unwrap();
        OccurrenceStore::migrate(&store).await.unwrap();
        OccurrenceStore::ping(&store).await.unwrap();
        insert(&store, &[occurrence(run, 0)]).await;
        assert_eq!(totals(&store).await, [(0, run.cast_unsigned())]);
    }
    assert_eq!(files(folder.path()), ["store.db", "store.db-lock"], "a closed store is one file, and its lock");
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_store_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    insert(&store, &[occurrence(0, 0)]).await;
    for suffix in ["", "-wal", "-shm", "-lock"] {
        let file = format!("{}{suffix}", path.display());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn one_process_writes_and_others_read_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let engine = SqliteStore::open(&path).unwrap();
    insert(&engine, &[occurrence(0, 0)]).await;

    let error = refused(&path);
    assert!(error.to_string().contains(&format!("process {} writes this store", std::process::id())), "{error}");

    let reader = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(totals(&reader).await, [(0, 1)]);
    insert(&engine, &[occurrence(1, 0)]).await;
    assert_eq!(totals(&reader).await, [(0, 2)], "a reader sees what is committed");
    let error = reader.insert(&[block(&[occurrence(2, 0)])]).await.unwrap_err();
    assert_eq!(error.failure, Failure::Permanent);
    assert!(error.to_string().contains("reading only"), "{error}");

    drop(engine);
    assert_eq!(totals(&reader).await, [(0, 2)]);
    SqliteStore::open(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn two_names_of_one_file_have_one_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("store.db"), folder.path().join("link.db"));
    let _engine = SqliteStore::open(&path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = SqliteStore::open(&link).unwrap_err();
    assert!(error.to_string().contains("writes this store"), "{error}");
}

#[tokio::test]
async fn a_store_that_is_closed_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    insert(&SqliteStore::open(&path).unwrap(), &[occurrence(0, 0)]).await;
    let reader = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(totals(&reader).await, [(0, 1)]);
    assert_eq!(reader.stored_incidents(EventTime::MIN).await.unwrap(), []);
    drop(reader);
    assert_eq!(files(folder.path()), ["store.db", "store.db-lock"]);
}

#[test]
fn reading_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let error = SqliteStore::open_read_only(&path).unwrap_err();
    assert!(error.to_string().contains("there is no such store"), "{error}");
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    let error = SqliteStore::open_read_only(&path).unwrap_err();
    assert!(error.to_string().contains("the store is empty"), "{error}");
}

#[test]
fn what_is_no_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.log");
    let text = "an error occurred\n".repeat(1_000);
    std::fs::write(&path, &text).unwrap();
    let error = refused(&path);
    assert!(error.to_string().contains("no floodmark store"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert!(SqliteStore::open_read_only(&path).is_err());
}

#[test]
fn another_programs_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for (name, sql) in [
        ("tables.db", "CREATE TABLE theirs (x)"),
        ("named.db", "PRAGMA application_id = 17"),
        ("versioned.db", "PRAGMA user_version = 1"),
    ] {
        let path = folder.path().join(name);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = refused(&path);
        assert!(error.to_string().contains("another program's database"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
    }
}

#[test]
fn a_newer_versions_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(SqliteStore::open(&path).unwrap());
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    for error in [refused(&path), SqliteStore::open_read_only(&path).unwrap_err()] {
        assert!(error.to_string().contains("version 99"), "{error}");
        assert!(error.to_string().contains("newer floodmark"), "{error}");
    }
}

#[test]
fn a_damaged_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(SqliteStore::open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let error = refused(&path);
    assert!(error.to_string().contains("restore a backup"), "{error}");
}

#[test]
fn a_path_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refused(folder.path()).to_string().contains("this is a folder"));
    let error = refused(&folder.path().join("missing").join("store.db"));
    assert!(error.to_string().contains("check that the folder exists"), "{error}");
}

#[tokio::test]
async fn a_store_of_an_earlier_version_is_brought_up_to_date_with_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(include_str!("../../../sql/sqlite/V001__embedded_store.sql")).unwrap();
    file.execute_batch(&format!(
        "PRAGMA application_id = {}; PRAGMA user_version = 1;
        INSERT INTO incidents (id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status, count,
            opened_at, episode_id)
        VALUES ('{id}', 'burst', 'acme', 'default', '{fingerprint}', 0, 300000, 'late', 'open', 10, 9, '{id}');
        INSERT INTO incident_transitions (incident_id, transition, at, generation) VALUES ('{id}', 'opened', 0, 1)",
        0x464C_4D4B,
        id = key(0).id(),
        fingerprint = fingerprint(1),
    ))
    .unwrap();
    drop(file);
    let error = SqliteStore::open_read_only(&path).unwrap_err();
    assert!(error.to_string().contains("its schema is version 1"), "{error}");

    let store = SqliteStore::open(&path).unwrap();
    let row = StoredIncident {
        key: key(0),
        status: Status::Open,
        is_closed: false,
        reach: Reach::Own,
        detection: Detection::Late,
    };
    assert_eq!(store.stored_incidents(EventTime::MIN).await.unwrap(), [row]);
    let generation = store.take_over().await.unwrap();
    let blocked = judged_of(key(0), Verdict::Blocked);
    assert_eq!(store.write_incidents(generation, &[blocked]).await.unwrap(), []);
    let audited = rusqlite::Connection::open(&path).unwrap();
    let audited = audited.query_row(
        "SELECT group_concat(transition_id || ' ' || transition) FROM incident_transitions",
        [],
        |row| row.get::<_, String>(0),
    );
    assert_eq!(audited.unwrap(), "1 opened,2 superseded");
}
