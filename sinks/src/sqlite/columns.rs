//! How columns become values.

use super::calls::Handout;
use super::classify::Trouble;
use crate::BucketCount;
use floodmark_model::{EventTime, Fingerprint};
use rusqlite::{Row, Rows};
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

/// Hands on rows of tenant, fingerprint, start of the bucket and count.
pub(super) fn put_bucket_counts(mut rows: Rows<'_>, out: &mut Handout<BucketCount>) -> Result<(), Trouble> {
    // A tenant has many rows and they come together: one text for all of them.
    let mut tenant: Arc<str> = "".into();
    while let Some(row) = rows.next()? {
        tenant = interned(tenant, row)?;
        out.put(BucketCount {
            tenant: Arc::clone(&tenant),
            fingerprint: Fingerprint(row.get(1)?),
            bucket_start: EventTime(row.get(2)?),
            count: count(row, 3)?,
        })?;
    }
    Ok(())
}

/// The value that the text of a column stands for.
pub(super) fn parsed<T>(row: &Row<'_>, column: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Trouble> {
    let text: String = row.get(column)?;
    known(parse(&text), column, &text)
}

/// What only another program, or a damaged disk, can have written.
pub(super) fn known<T>(value: Option<T>, what: &str, found: &str) -> Result<T, Trouble> {
    value.ok_or_else(|| Trouble::Refused(format!("table incidents holds an unknown {what}: {found:?}")))
}
