//! Flags that several commands share.

use super::Failure;
use crate::config::load::{Flags, Loaded, load};
use crate::config::show::mask_secrets;
use crate::config::units::Span;
use crate::pipeline::{Clock, SystemClock};
use clap::Args;
use figment::value::Value;
use floodmark_model::time::{EffectiveTime, RawTime, Zone};
use floodmark_model::{EventTime, RecordTime};
use floodmark_sinks::Selection;
use std::path::PathBuf;

/// Where the configuration and the stores are.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct StoreArguments {
    /// Configuration file (TOML); see floodmark.example.toml
    #[arg(long, value_name = "FILE", env = "FLOODMARK_CONFIG")]
    pub config: Option<PathBuf>,
    /// Postgres; a URL with a password belongs into the file or FLOODMARK_POSTGRES
    #[arg(long, value_name = "URL")]
    pub postgres: Option<String>,
    /// ClickHouse; a URL with a password belongs into the file or FLOODMARK_CLICKHOUSE
    #[arg(long, value_name = "URL")]
    pub clickhouse: Option<String>,
    /// Use one SQLite file instead of Postgres and ClickHouse
    #[arg(long)]
    pub embedded: bool,
    /// The SQLite file of --embedded
    #[arg(long, value_name = "FILE", default_value = "floodmark.sqlite")]
    pub store: PathBuf,
}

impl StoreArguments {
    /// Reads the configuration; `more` are further flags.
    pub(super) fn load(&self, mut more: Flags) -> Result<Loaded, Failure> {
        for (key, flag, url) in
            [("postgres", "--postgres", &self.postgres), ("clickhouse", "--clickhouse", &self.clickhouse)]
        {
            if let Some(url) = url {
                refuse_password(flag, url)?;
                more.0.push((key, Value::from(url.clone())));
            }
        }
        load(self.config.as_deref(), more).map_err(Failure::usage)
    }
}

/// A password in a flag would show in the process list.
pub(super) fn refuse_password(flag: &str, url: &str) -> Result<(), Failure> {
    if mask_secrets(url) == url {
        return Ok(());
    }
    let name = flag.trim_start_matches('-').to_uppercase();
    Err(Failure::usage(format!(
        "{flag}: a URL with a password would show in the process list: put it into the configuration file or into \
         the environment as FLOODMARK_{name}"
    )))
}

/// Which rows a command shows.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct SelectionArguments {
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// Only windows from this time on: a span before now, such as 36h or 7d, RFC 3339, or a number since 1970 as in `ts`
    #[arg(long, value_name = "SPAN|TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Only windows that start before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub until: Option<String>,
    /// Print JSON: times are milliseconds since 1970 UTC
    #[arg(long)]
    pub json: bool,
}

impl SelectionArguments {
    /// The selection.
    pub(super) fn selection(&self) -> Result<Selection, Failure> {
        Ok(Selection {
            tenant: self.tenant.clone(),
            since: self.since.as_deref().map(|text| read_since(text, now())).transpose()?,
            until: self.until.as_deref().map(|text| read_time("--until", text)).transpose()?,
        })
    }
}

/// What time it is.
pub(super) fn now() -> EventTime {
    EventTime(SystemClock.now_ms())
}

/// Reads `--since`: a span before now, or a time.
pub(super) fn read_since(text: &str, now: EventTime) -> Result<EventTime, Failure> {
    match text.parse::<Span>() {
        Ok(span) => Ok(now.minus(span.0)),
        Err(_) => read_time("--since", text).map_err(|_| {
            Failure::usage(format!(
                "--since {text}: neither a span before now, such as 36h or 7d, nor a time, such as 2026-01-31T12:00:00Z"
            ))
        }),
    }
}

/// Reads a time that a flag gives.
pub(super) fn read_time(flag: &str, text: &str) -> Result<EventTime, Failure> {
    let raw = RawTime::Text(text.into());
    let read = EffectiveTime::new(&raw, RecordTime(0), i64::MAX, &Zone::UTC);
    if read.missing {
        return Err(Failure::usage(format!(
            "{flag} {text}: not a time: write it as 2026-01-31T12:00:00Z, or as a number of seconds or milliseconds \
             since 1970"
        )));
    }
    Ok(read.time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_on_the_command_line_is_refused_without_repeating_it() {
        let refused = refuse_password("--postgres", "postgres://me:hunter2@db/x").unwrap_err();
        assert_eq!(refused.exit_code, 2);
        assert!(!refused.message.contains("hunter2") && refused.message.contains("FLOODMARK_POSTGRES"));
        assert!(refuse_password("--postgres", "host=db password=hunter2").is_err());
        assert!(refuse_password("--postgres", "postgres://me@db/x").is_ok());
    }

    #[test]
    fn times_are_read_as_text_and_as_milliseconds() {
        assert_eq!(read_time("--since", "1970-01-01T00:00:01Z").unwrap(), EventTime(1_000));
        assert_eq!(read_time("--since", "1700000000000").unwrap(), EventTime(1_700_000_000_000));
        assert_eq!(read_time("--since", "yesterday").unwrap_err().exit_code, 2);
        let since = |text| read_since(text, EventTime(100 * 3_600_000));
        assert_eq!(since("36h").unwrap(), EventTime(64 * 3_600_000));
        assert_eq!(since("1970-01-01T00:00:01Z").unwrap(), EventTime(1_000));
        let refused = since("soon").unwrap_err();
        assert!(refused.exit_code == 2 && refused.message.contains("7d"), "{}", refused.message);
    }
}
