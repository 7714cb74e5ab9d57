//! A proxy in front of the server that loses one answer when it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Hands requests on, and answers back.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// Breaks the next connection that commits, when the server has answered and before the client hears of it.
    pub(crate) lose_commit: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lose_commit = Arc::new(AtomicBool::new(false));
        let lose = Arc::clone(&lose_commit);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                let lose = Arc::clone(&lose);
                std::thread::spawn(move || serve(client, server, lose));
            }
        });
        Self { address, lose_commit }
    }
}

fn serve(mut client: TcpStream, mut server: TcpStream, lose: Arc<AtomicBool>) {
    let commits = Arc::new(AtomicBool::new(false));
    let (mut requests, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let committing = Arc::clone(&commits);
    std::thread::spawn(move || {
        let mut request = [0; 64 * 1024];
        while let Ok(length @ 1..) = requests.read(&mut request) {
            if request[..length].windows(7).any(|text| text == b"COMMIT\0") && lose.swap(false, Ordering::SeqCst) {
                committing.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&request[..length]).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut answer = [0; 64 * 1024];
    while let Ok(length @ 1..) = server.read(&mut answer) {
        // The server says so when it has committed: what else it answered before comes through.
        let is_committed = || answer[..length].windows(7).any(|text| text == b"COMMIT\0");
        if (commits.load(Ordering::SeqCst) && is_committed()) || client.write_all(&answer[..length]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
