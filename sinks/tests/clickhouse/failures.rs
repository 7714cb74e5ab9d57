use crate::fixture::{Database, T0, block, record, server, total};
use floodmark_sinks::OccurrenceStore;
use floodmark_sinks::clickhouse::{ClickHouseSettings, ClickHouseStore};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A proxy that hands requests to the server, and answers back unless it is told to lose one.
struct Proxy {
    address: SocketAddr,
    lose_answers: Arc<AtomicBool>,
}

impl Proxy {
    fn to(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lose_answers = Arc::new(AtomicBool::new(false));
        let lose = Arc::clone(&lose_answers);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&upstream).unwrap());
                let lose = Arc::clone(&lose);
                std::thread::spawn(move || serve(client, server, &lose));
            }
        });
        Self { address, lose_answers }
    }
}

fn serve(mut client: TcpStream, mut server: TcpStream, lose: &AtomicBool) {
    let (mut requests, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut requests, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut answer = [0; 64 * 1024];
    while let Ok(length @ 1..) = server.read(&mut answer) {
        // The server answers an insert when it is done.
        if lose.load(Ordering::SeqCst) || client.write_all(&answer[..length]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

#[tokio::test]
async fn g4_an_insert_that_was_applied_but_reported_as_failed_is_repeated() {
    let database = Database::migrated("lost_answer").await;
    let upstream = server().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let proxy = Proxy::to(upstream);
    let url = format!("http://{}/{}", proxy.address, database.name);
    let store = ClickHouseStore::new(&ClickHouseSettings::new(url)).unwrap();
    let blocks = [block([&record(0), &record(1)])];

    proxy.lose_answers.store(true, Ordering::SeqCst);
    let error = store.insert(&blocks).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert_eq!(total(&database, T0).await, 2, "it was applied");

    proxy.lose_answers.store(false, Ordering::SeqCst);
    store.insert(&blocks).await.unwrap();
    assert_eq!(total(&database, T0).await, 2, "the repeat changed nothing");
    database.drop().await;
}

#[tokio::test]
async fn a_server_that_is_away_or_silent_is_transient_and_every_call_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let mut settings = ClickHouseSettings::new(format!("http://me:secret@{silent}/flood"));
    settings.request_timeout = Duration::from_millis(100);
    settings.read_timeout = Duration::from_millis(100);
    let store = ClickHouseStore::new(&settings).unwrap();
    let rule = floodmark_model::Rule::default();
    for error in [
        store.insert(&[block([&record(0)])]).await.unwrap_err(),
        store.totals(&rule, &floodmark_sinks::Selection::default()).await.unwrap_err(),
        store.migrate().await.unwrap_err(),
    ] {
        assert!(error.is_transient(), "{error}");
        assert!(!format!("{error} {error:?} {store:?} {settings:?}").contains("secret"));
    }
    drop(listener);
    let error = store.ping().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("refused"), "says why: {error}");
}

#[tokio::test]
async fn a_missing_schema_is_permanent() {
    let database = Database::named("missing_schema");
    database.store.ping().await.unwrap();
    let error = database.store.insert(&[block([&record(0)])]).await.unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains(&database.name), "{error}");
    let rule = floodmark_model::Rule::default();
    let error = database.store.candidates(&rule, record(0).ts).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
}
