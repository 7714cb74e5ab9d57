//! As much HTTP as tests need: one request, one connection, the whole answer.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longer than any answer to a test takes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body; bytes that are no UTF-8 are replaced.
    pub body: String,
}

/// GET of a path on `host:port`.
///
/// # Errors
/// Nobody listens, or what comes back is no HTTP.
pub fn get(address: impl ToSocketAddrs, path: &str) -> io::Result<Response> {
    request(address, "GET", path, &[], &[])
}

/// A request with further headers and a body.
///
/// # Errors
/// Those of [`get`].
pub fn request(
    address: impl ToSocketAddrs,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // Version 1.0: the answer ends with the connection, and comes in one piece.
    let mut head = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is no HTTP"))
}

fn parse(answer: &[u8]) -> Option<Response> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let status_line = std::str::from_utf8(&answer[..end]).ok()?.lines().next()?;
    let status = status_line.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
    Some(Response { status, body: String::from_utf8_lossy(&answer[end + 4..]).into_owned() })
}

/// The path and query parameter of a URL need this.
#[must_use]
pub(super) fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Where an `http` URL points, and its login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpUrl {
    /// `host:port`.
    pub(super) address: String,
    /// User and password.
    pub(super) login: Option<(String, String)>,
}

impl HttpUrl {
    pub(super) fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let authority = rest.split(['/', '?']).next()?;
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login.split_once(':').unwrap_or((login, ""))), host),
            None => (None, authority),
        };
        let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        Some(Self { address, login: login.map(|(user, password)| (user.to_owned(), password.to_owned())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut read = vec![0; 1024];
            let length = stream.read(&mut read).unwrap();
            stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nX: y\r\n\r\nno kafka\n").unwrap();
            String::from_utf8(read[..length].to_vec()).unwrap()
        });
        let answer = get(address, "/readyz").unwrap();
        assert_eq!(answer, Response { status: 503, body: "no kafka\n".into() });
        assert!(server.join().unwrap().starts_with("GET /readyz HTTP/1.0\r\n"));
    }

    #[test]
    fn what_is_no_http_is_an_error() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(parse(b"SSH-2.0-x\r\n\r\n"), None);
        assert!(get("127.0.0.1:1", "/").is_err());
    }

    #[test]
    fn urls_may_have_a_login() {
        let parsed = HttpUrl::parse("http://me:se:cret@db:8123/x?y=z").unwrap();
        assert_eq!(parsed.address, "db:8123");
        assert_eq!(parsed.login, Some(("me".into(), "se:cret".into())));
        assert_eq!(HttpUrl::parse("http://db").unwrap().address, "db:80");
        assert_eq!(HttpUrl::parse("https://db"), None);
        assert_eq!(percent_encoded("a b&c"), "a%20b%26c");
    }
}
