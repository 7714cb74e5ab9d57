//! The common and the combined log format: `client ident user [time] "request" status bytes "referer" "agent"`.

use crate::fingerprint::masked;
use crate::time::{RawTime, parse_clf};
use crate::wire::Fields;
use std::borrow::Cow;

/// Reads one line. What follows the status is not looked at.
pub(super) fn fields(line: &str) -> Option<Fields<'_>> {
    let (client, rest) = line.split_once(' ')?;
    let (_, rest) = rest.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let (request, rest) = rest.split_at(closing_quote(rest)?);
    let status = rest.strip_prefix("\" ")?.split(' ').next()?;
    let code: u16 = status.parse().ok().filter(|code| status.len() == 3 && *code >= 100)?;
    let ts = match parse_clf(time) {
        Some(read) => RawTime::Read { time: read, original: Cow::Borrowed(time) },
        None => RawTime::Unusable(Cow::Borrowed(time)),
    };
    let level = match code {
        500.. => "error",
        400..500 => "warn",
        _ => "info",
    };
    Some(Fields {
        ts,
        level: Some(Cow::Borrowed(level)),
        host: Some(Cow::Borrowed(client)),
        message: Some(Cow::Owned(message(request, code))),
        ..Fields::default()
    })
}

/// The first quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// `GET /users/<*>/orders: 503 Service Unavailable`. The status in words, since the fingerprint masks its digits. A
/// query is left out: it may hold secrets, and does not make another bug.
fn message(request: &str, code: u16) -> String {
    let reason = reason(code);
    let mut parts = request.split(' ');
    let (Some(method), Some(target), Some(_protocol)) = (parts.next(), parts.next(), parts.next()) else {
        return format!("invalid request: {code} {reason}");
    };
    let path = target.split(['?', '#', ';']).next().unwrap_or(target);
    format!("{method} {}: {code} {reason}", masked(path))
}

/// What a status means: the phrase that servers and proxies use, or its class.
fn reason(code: u16) -> &'static str {
    phrase(code).unwrap_or(match code {
        ..200 => "Informational",
        200..300 => "Success",
        300..400 => "Redirection",
        400..500 => "Client Error",
        500.. => "Server Error",
    })
}

fn phrase(code: u16) -> Option<&'static str> {
    Some(match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        444 => "No Response",
        451 => "Unavailable For Legal Reasons",
        499 => "Client Closed Request",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => return None,
    })
}
