//! Which file is which (design, decision 14).

use floodmark_model::RecordTime;
use floodmark_sinks::sqlite::{InputFile, ReadBytes, SqliteStore};
use std::path::Path;

async fn identify(store: &SqliteStore, path: &str, head: &[u8], now: i64) -> InputFile {
    store.identify(Path::new(path), head, RecordTime(now)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_file_that_has_grown_is_the_same_one_with_its_first_reading_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let first = identify(&SqliteStore::open(&path).unwrap(), "app.log", b"one\n", 5).await;
    assert_eq!((first.head_bytes, first.first_read), (4, RecordTime(5)));

    let store = SqliteStore::open(&path).unwrap();
    let grown = identify(&store, "app.log", b"one\ntwo\n", 9).await;
    assert_eq!(grown, first);
    assert_eq!(store.inputs().await.unwrap(), [grown]);
}

#[tokio::test]
async fn a_file_that_was_rotated_is_the_same_one_and_its_successor_is_new() {
    let store = SqliteStore::open_in_memory().unwrap();
    let first = identify(&store, "app.log", b"one\n", 5).await;
    let successor = identify(&store, "app.log", b"two\n", 6).await;
    let rotated = identify(&store, "app.log.1", b"one\n", 7).await;
    assert_ne!(successor.id, first.id);
    assert_eq!(rotated, InputFile { path: "app.log.1".into(), ..first });
    assert_eq!(store.inputs().await.unwrap(), [rotated, successor]);
}

#[tokio::test]
async fn a_file_that_was_written_anew_is_another_one() {
    let store = SqliteStore::open_in_memory().unwrap();
    let first = identify(&store, "app.log", b"one\n", 5).await;
    assert_ne!(identify(&store, "app.log", b"One\n", 6).await.id, first.id);
    assert_ne!(identify(&store, "app.log", b"on", 6).await.id, first.id, "shorter than what is stored");
}

#[tokio::test]
async fn of_two_that_match_the_one_at_the_path_is_meant_then_the_longer_one() {
    let store = SqliteStore::open_in_memory().unwrap();
    let long = identify(&store, "long.log", b"one\ntwo\n", 5).await;
    let short = identify(&store, "short.log", b"one\n", 6).await;
    assert_ne!(short.id, long.id);
    assert_eq!(identify(&store, "short.log", b"one\ntwo\nthree\n", 7).await.id, short.id);
    assert_eq!(identify(&store, "long.log", b"one\ntwo\nthree\n", 7).await.id, long.id);
    assert_eq!(identify(&store, "elsewhere.log", b"one\ntwo\n", 7).await.id, long.id);
}

#[tokio::test]
async fn two_files_that_begin_alike_answer_the_same_id_so_that_a_run_can_refuse_them() {
    let store = SqliteStore::open_in_memory().unwrap();
    let one = identify(&store, "a.log", b"# header\n", 5).await;
    let two = identify(&store, "b.log", b"# header\nmore\n", 5).await;
    assert_eq!(one.id, two.id);
}

#[tokio::test]
async fn only_the_first_4_kib_make_a_file() {
    let store = SqliteStore::open_in_memory().unwrap();
    let mut head = vec![b'x'; 10_000];
    let first = identify(&store, "app.log", &head, 5).await;
    assert_eq!(usize::from(first.head_bytes), InputFile::HEAD_BYTES_MAX);
    head[9_000] = b'y';
    assert_eq!(identify(&store, "other.log", &head, 6).await.id, first.id);
    head[4_095] = b'y';
    assert_ne!(identify(&store, "app.log", &head, 6).await.id, first.id);
}

#[tokio::test]
async fn an_empty_file_is_not_an_input_yet() {
    let store = SqliteStore::open_in_memory().unwrap();
    assert_eq!(store.identify(Path::new("app.log"), b"", RecordTime(5)).await.unwrap(), None);
    assert_eq!(store.inputs().await.unwrap(), []);
}

#[tokio::test]
async fn an_input_can_be_added_beside_one_that_begins_alike_and_each_keeps_what_was_read_of_it() {
    let store = SqliteStore::open_in_memory().unwrap();
    let path = Path::new("app.log");
    let first = identify(&store, "app.log", b"one\n", 5).await;
    let second = store.add_input(path, b"one\n", RecordTime(6)).await.unwrap().unwrap();
    assert_ne!(second.id, first.id);
    assert_eq!(second.head_id, first.head_id);
    let read = ReadBytes { bytes: 4, hash: u128::MAX - 1 };
    store.note_input(first.id, path, "ndjson", Some(read)).await.unwrap();
    store.note_input(first.id, Path::new("app.log.1"), "log4j", None).await.unwrap();
    let first = InputFile { path: "app.log.1".into(), written: Some("log4j".into()), read: Some(read), ..first };
    let alike = |path: &'static str| store.inputs_alike(Path::new(path), b"one\ntwo\n");
    assert_eq!(alike("app.log").await.unwrap(), [second.clone(), first.clone()], "the newest first");
    assert_eq!(alike("app.log.1").await.unwrap(), [first, second], "the one at the path first");
    assert_eq!(store.inputs_alike(path, b"two\n").await.unwrap(), []);
}
