//! What a failure means, decided once: by ClickHouse's exception code where the server answered, by the phase where it
//! did not.
//!
//! | what failed | failure | why |
//! | --- | --- | --- |
//! | connecting, sending, receiving, a limit of time | transient | the server is away, starts or is slow; a repeated write is harmless |
//! | a code in [`PERMANENT_CODES`] | permanent | the statement, the schema, a value or the rights are wrong: the same call fails again |
//! | any other code | transient | memory, too many parts, full disk, a replica behind, Keeper away, a failing network below the server, codes of releases to come: waiting loses nothing and health says why, while a wrong stop costs an outage |
//! | status 4xx without a code, but 408 and 429 | permanent | no ClickHouse answers at this address, or a proxy refuses |
//! | any other status without a code | transient | a proxy whose server is away |
//! | an answer that does not fit the query | permanent | the schema is not the one this release knows |

use super::STORE;
use crate::{Failure, StoreError};
use clickhouse::error::Error;
use std::error::Error as _;

/// The exception codes that the same call would meet again.
const PERMANENT_CODES: [(u32, &str); 44] = [
    (6, "CANNOT_PARSE_TEXT"),
    (8, "THERE_IS_NO_COLUMN"),
    (10, "NOT_FOUND_COLUMN_IN_BLOCK"),
    (15, "DUPLICATE_COLUMN"),
    (16, "NO_SUCH_COLUMN_IN_TABLE"),
    (20, "NUMBER_OF_COLUMNS_DOESNT_MATCH"),
    (26, "CANNOT_PARSE_QUOTED_STRING"),
    (27, "CANNOT_PARSE_INPUT_ASSERTION_FAILED"),
    (36, "BAD_ARGUMENTS"),
    (42, "NUMBER_OF_ARGUMENTS_DOESNT_MATCH"),
    (43, "ILLEGAL_TYPE_OF_ARGUMENT"),
    (44, "ILLEGAL_COLUMN"),
    (46, "UNKNOWN_FUNCTION"),
    (47, "UNKNOWN_IDENTIFIER"),
    (48, "NOT_IMPLEMENTED"),
    (50, "UNKNOWN_TYPE"),
    (53, "TYPE_MISMATCH"),
    (57, "TABLE_ALREADY_EXISTS"),
    (60, "UNKNOWN_TABLE"),
    (62, "SYNTAX_ERROR"),
    (63, "UNKNOWN_AGGREGATE_FUNCTION"),
    (70, "CANNOT_CONVERT_TYPE"),
    (72, "CANNOT_PARSE_NUMBER"),
    (73, "UNKNOWN_FORMAT"),
    (80, "INCORRECT_QUERY"),
    (81, "UNKNOWN_DATABASE"),
    (115, "UNKNOWN_SETTING"),
    (117, "INCORRECT_DATA"),
    (128, "TOO_LARGE_ARRAY_SIZE"),
    (130, "CANNOT_READ_ARRAY_FROM_TEXT"),
    (131, "TOO_LARGE_STRING_SIZE"),
    (164, "READONLY"),
    (169, "KEY_DUPLICATE"),
    (192, "UNKNOWN_USER"),
    (193, "WRONG_PASSWORD"),
    (194, "REQUIRED_PASSWORD"),
    (195, "IP_ADDRESS_NOT_ALLOWED"),
    (291, "DATABASE_ACCESS_DENIED"),
    (446, "FUNCTION_NOT_ALLOWED"),
    (452, "SETTING_CONSTRAINT_VIOLATION"),
    (456, "UNKNOWN_QUERY_PARAMETER"),
    (457, "BAD_QUERY_PARAMETER"),
    (497, "ACCESS_DENIED"),
    (516, "AUTHENTICATION_FAILED"),
];

/// Codes of a table or column that is not there.
const OF_THE_SCHEMA: [u32; 5] = [10, 16, 47, 60, UNKNOWN_DATABASE];
const UNKNOWN_DATABASE: u32 = 81;

/// The longest message kept: ClickHouse repeats the statement in some.
const DETAIL_CHARS_MAX: usize = 2_000;

/// The failure of a call, with what the server or the client said.
pub(super) fn failed(action: &'static str, error: &Error) -> StoreError {
    StoreError { store: STORE, action, failure: failure(error), detail: detail(error) }
}

/// The failure of a call that took longer than it may.
pub(super) fn timed_out(action: &'static str, limit: std::time::Duration) -> StoreError {
    let detail = format!("no answer within {} s", limit.as_secs_f32());
    StoreError { store: STORE, action, failure: Failure::Transient, detail }
}

/// A failure that no repetition mends.
pub(super) fn permanent(action: &'static str, detail: impl Into<String>) -> StoreError {
    StoreError { store: STORE, action, failure: Failure::Permanent, detail: detail.into() }
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::BadResponse(text) => failure_of_response(text),
        Error::Network(_) | Error::TimedOut | Error::NotEnoughData | Error::Decompression(_) | Error::Other(_) => {
            Failure::Transient
        }
        _ => Failure::Permanent,
    }
}

fn failure_of_response(text: &str) -> Failure {
    if let Some(code) = exception_code(text) {
        let known = PERMANENT_CODES.iter().any(|(permanent, _)| *permanent == code);
        return if known { Failure::Permanent } else { Failure::Transient };
    }
    match text.get(..3).and_then(|status| status.parse::<u16>().ok()) {
        Some(408 | 429) => Failure::Transient,
        Some(400..=499) => Failure::Permanent,
        _ => Failure::Transient,
    }
}

/// The code in `Code: 252. DB::Exception: ...`.
fn exception_code(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("Code: ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The message with its causes: a client's own says only that it could not connect, not why.
fn detail(error: &Error) -> String {
    let mut detail = error.to_string();
    if let Some(code) = exception_code(&detail).filter(|code| OF_THE_SCHEMA.contains(code)) {
        // The server repeats the whole statement.
        let said = detail.find(" in scope ").or_else(|| detail.find(": While ")).unwrap_or(detail.len());
        detail.truncate(said);
        detail.push_str(if code == UNKNOWN_DATABASE { ": create it first" } else { crate::error::MIGRATE });
    }
    let mut cause = error.source().and_then(std::error::Error::source);
    while let Some(error) = cause {
        detail.push_str(": ");
        detail.push_str(&error.to_string());
        cause = error.source();
    }
    if let Some((end, _)) = detail.char_indices().nth(DETAIL_CHARS_MAX) {
        detail.truncate(end);
        detail.push('…');
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Failure {
        failure(&Error::BadResponse(text.into()))
    }

    #[test]
    fn what_passes_by_itself_is_transient() {
        for text in [
            "Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)",
            "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS)",
            "Code: 159. DB::Exception: Timeout exceeded. (TIMEOUT_EXCEEDED)",
            "Code: 202. DB::Exception: Too many simultaneous queries. (TOO_MANY_SIMULTANEOUS_QUERIES)",
            "Code: 243. DB::Exception: Cannot reserve 1.00 MiB. (NOT_ENOUGH_SPACE)",
            "Code: 999. Coordination::Exception: Session expired. (KEEPER_EXCEPTION)",
            "Code: 99999. DB::Exception: of a release to come",
            "502 Bad Gateway",
            "503 Service Unavailable",
            "429 Too Many Requests",
        ] {
            assert_eq!(of(text), Failure::Transient, "{text}");
        }
        assert_eq!(failure(&Error::TimedOut), Failure::Transient);
        assert_eq!(failure(&Error::Network("reset".into())), Failure::Transient);
        assert_eq!(failure(&Error::NotEnoughData), Failure::Transient);
    }

    #[test]
    fn what_the_same_call_meets_again_is_permanent() {
        for (code, name) in PERMANENT_CODES {
            assert_eq!(of(&format!("Code: {code}. DB::Exception: so it is. ({name})")), Failure::Permanent);
        }
        assert_eq!(of("404 Not Found"), Failure::Permanent);
        assert_eq!(failure(&Error::SchemaMismatch("ts".into())), Failure::Permanent);
        assert_eq!(failure(&Error::InvalidParams("url".into())), Failure::Permanent);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let error = failed("insert", &Error::BadResponse("ä".repeat(DETAIL_CHARS_MAX * 2)));
        assert!(error.detail.chars().count() <= DETAIL_CHARS_MAX + 1);
    }
}
