//! Whose file it is, and the steps to the current schema.

use super::classify::Trouble;
use rusqlite::{Connection, TransactionBehavior};

/// `FLMK`: SQLite's header names the application whose file it is.
const APPLICATION_ID: i32 = 0x464C_4D4B;

/// Numbered from 1, only ever added to; `user_version` in the file's header says how many have been applied.
const MIGRATIONS: [&str; 5] = [
    include_str!("../../../sql/sqlite/V001__embedded_store.sql"),
    include_str!("../../../sql/sqlite/V002__bridges.sql"),
    include_str!("../../../sql/sqlite/V003__rules.sql"),
    include_str!("../../../sql/sqlite/V004__unique_rows.sql"),
    include_str!("../../../sql/sqlite/V005__inputs_read.sql"),
];

/// The version that this program writes.
const CURRENT: usize = MIGRATIONS.len();

/// What a file is.
enum Owner {
    /// Nobody's: it holds nothing.
    New,
    /// floodmark's, with so many migrations applied.
    Floodmark(usize),
}

/// Refuses what is not floodmark's, or a newer version's. Reads only.
pub(super) fn check(connection: &Connection) -> Result<(), Trouble> {
    owner(connection).map(|_| ())
}

/// Refuses everything but a store of the current version. Reads only.
pub(super) fn check_current(connection: &Connection) -> Result<(), Trouble> {
    match owner(connection)? {
        Owner::Floodmark(CURRENT) => Ok(()),
        Owner::Floodmark(older) => Err(Trouble::Refused(format!(
            "its schema is version {older}, this program reads {CURRENT}: run `floodmark migrate` or the engine once"
        ))),
        Owner::New => Err(Trouble::Refused("the store is empty: no engine has written to it yet".into())),
    }
}

/// Brings the schema up to date, in one transaction. Safe to repeat.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Trouble> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let applied = match owner(&transaction)? {
        Owner::New => 0,
        Owner::Floodmark(applied) => applied,
    };
    if applied == CURRENT {
        return Ok(());
    }
    for migration in &MIGRATIONS[applied..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", CURRENT as i64)?;
    Ok(transaction.commit()?)
}

fn owner(connection: &Connection) -> Result<Owner, Trouble> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application_id = number("application_id")?;
    let version = number("user_version")?;
    let is_empty =
        connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get::<_, bool>(0))?;
    if application_id != i64::from(APPLICATION_ID) {
        if application_id == 0 && version == 0 && is_empty {
            return Ok(Owner::New);
        }
        return Err(Trouble::Refused(
            "this is another program's database: name another file, nothing was changed".into(),
        ));
    }
    match usize::try_from(version) {
        Ok(applied) if applied <= CURRENT => Ok(Owner::Floodmark(applied)),
        _ => Err(Trouble::Refused(format!(
            "its schema is version {version}, this program knows up to {CURRENT}: run the newer floodmark that wrote \
             it, or name another file"
        ))),
    }
}
