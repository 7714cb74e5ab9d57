//! How columns become values.

use rusqlite::Row;
use std::sync::Arc;

/// A count is never negative.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

/// The tenant of this row (its first column), shared with the row before where it is the same.
pub(super) fn interned(before: Arc<str>, row: &Row<'_>) -> rusqlite::Result<Arc<str>> {
    let tenant = row.get_ref(0)?.as_str()?;
    Ok(if *before == *tenant { before } else { tenant.into() })
}
