//! Versions of rules (Q51).

use super::connection::{Fence, Session};
use super::values::{stamp, time};
use crate::rule_versions::VersionRow;
use std::time::SystemTime;
use tokio_postgres::Error;

/// Makes the versions of the rules that the rows name what the rows say.
pub(super) async fn write(session: &Session, pipeline: &str, rows: &[VersionRow]) -> Result<(Fence, ()), Error> {
    const WRITE: &str = "INSERT INTO rules AS r (pipeline, name, version, first_window, content)
        SELECT $1, name, version, first_window, content
        FROM unnest($2::text[], $3::integer[], $4::timestamptz[], $5::jsonb[])
            AS t (name, version, first_window, content)
        ON CONFLICT (pipeline, name, version) DO UPDATE SET first_window = excluded.first_window,
            content = excluded.content, created_at = excluded.created_at
        WHERE (r.first_window, r.content) IS DISTINCT FROM (excluded.first_window, excluded.content)";
    const FORGET: &str = "DELETE FROM rules AS r
        USING (SELECT name, max(version) AS last FROM unnest($2::text[], $3::integer[]) AS t (name, version)
            GROUP BY name) AS kept
        WHERE r.pipeline = $1 AND r.name = kept.name AND r.version > kept.last";
    let names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
    let versions: Vec<i32> = rows.iter().map(|row| row.version).collect();
    let first_windows: Vec<Option<SystemTime>> = rows.iter().map(|row| row.first_window.map(stamp)).collect();
    let contents: Vec<_> = rows.iter().map(|row| &row.content).collect();
    let held = session.begin(pipeline).await?;
    session.query(FORGET, &[&pipeline, &names, &versions]).await?;
    session.query(WRITE, &[&pipeline, &names, &versions, &first_windows, &contents]).await?;
    Ok((held, ()))
}

/// Every version, sorted by name and version.
pub(super) async fn read(session: &Session, pipeline: &str) -> Result<Vec<VersionRow>, Error> {
    const READ: &str = "SELECT name, version, first_window, content FROM rules WHERE pipeline = $1
        ORDER BY name COLLATE \"C\", version";
    let row = |row: &tokio_postgres::Row| VersionRow {
        name: row.get(0),
        version: row.get(1),
        first_window: row.get::<_, Option<SystemTime>>(2).map(time),
        content: row.get(3),
    };
    Ok(session.query(READ, &[&pipeline]).await?.iter().map(row).collect())
}
