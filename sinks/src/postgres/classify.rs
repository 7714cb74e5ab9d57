//! What a failure means, by SQLSTATE and phase.

use super::STORE;
use crate::{Failure, StoreError};
use tokio_postgres::error::SqlState;

/// The error of a failed call. The message never repeats the URL.
pub(super) fn error(action: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let detail = match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {}){}", db.message(), db.code().code(), advice(db.code())),
        // The client's own message names its cause last: "error connecting to server: Connection refused".
        None => std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    };
    let failure = if is_of_the_clients_making(&error.to_string()) { Failure::Permanent } else { failure(error.code()) };
    StoreError { store: STORE, action, failure, detail }
}

/// What to do about a schema that is not there, or not this release's.
fn advice(code: &SqlState) -> &'static str {
    const OF_THE_SCHEMA: [&str; 3] = ["3F000", "42703", "42P01"];
    if OF_THE_SCHEMA.contains(&code.code()) { crate::error::MIGRATE } else { "" }
}

/// What the client refuses before the server is asked, by its text, since it has no code: a URL without the password
/// that the server wants, a login that it cannot do, a value that fits no parameter. The same call meets it again.
fn is_of_the_clients_making(text: &str) -> bool {
    const KINDS: [&str; 4] =
        ["invalid configuration", "authentication error", "error serializing parameter", "error deserializing column"];
    KINDS.iter().any(|kind| text.starts_with(kind))
}

/// | SQLSTATE | what it says | so |
/// | --- | --- | --- |
/// | none | the connection broke, or never came up | transient |
/// | 08 | connection trouble, as the server saw it | transient |
/// | 25P02, 25P03 | the transaction had failed, or idled too long: nothing of it is there | transient |
/// | 40 | serialization failure, deadlock: somebody else went first | transient |
/// | 53 | out of memory, disk or connections | transient: a human makes room, and nothing is lost meanwhile |
/// | 55P03, 57 | lock time-out, statement time-out, shutting down, starting up | transient |
/// | 58 | the system under the server failed | transient |
/// | 25006 | read only: the old primary after a fail-over | transient: the address will lead to the new one |
/// | all others | wrong password, missing database or right, a schema that is not ours | permanent |
fn failure(code: Option<&SqlState>) -> Failure {
    let Some(code) = code.map(SqlState::code) else { return Failure::Transient };
    const TRANSIENT: [&str; 9] = ["08", "25P02", "25P03", "25006", "40", "53", "55P03", "57", "58"];
    // 57P04 says that the database was dropped, which no waiting cures.
    if code != "57P04" && TRANSIENT.iter().any(|prefix| code.starts_with(prefix)) {
        Failure::Transient
    } else {
        Failure::Permanent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_is_missing_is_to_be_migrated() {
        assert!(advice(&SqlState::UNDEFINED_TABLE).contains("floodmark migrate"));
        assert_eq!(advice(&SqlState::UNIQUE_VIOLATION), "");
    }

    #[test]
    fn what_passes_is_waited_for_and_what_does_not_is_loud() {
        for code in ["57P01", "57P03", "57014", "40P01", "53300", "08006", "25P03", "25006"] {
            assert_eq!(failure(Some(&SqlState::from_code(code))), Failure::Transient, "{code}");
        }
        for code in ["28P01", "3D000", "42P01", "42501", "23514", "57P04"] {
            assert_eq!(failure(Some(&SqlState::from_code(code))), Failure::Permanent, "{code}");
        }
        assert_eq!(failure(None), Failure::Transient);
    }
}
