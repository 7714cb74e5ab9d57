//! Generation, heartbeat and progress (G-3; design, decisions 6 and 8).

use super::connection::{Fence, Session};
use super::values::{known_stamp, time, topic_id, watermark, watermark_stamp};
use crate::Generation;
use floodmark_model::progress::{PartitionKey, PartitionProgress, Progress, Tallies};
use std::time::SystemTime;
use tokio_postgres::Error;

/// Raises the generation. Waits for writers that hold the row, so that none commits behind it.
pub(super) async fn take_over(session: &Session, pipeline: &str) -> Result<Generation, Error> {
    const RAISE: &str = "INSERT INTO pipeline (name, generation) VALUES ($1, 1)
        ON CONFLICT (name) DO UPDATE SET generation = pipeline.generation + 1
        RETURNING generation";
    let rows = session.query(RAISE, &[&pipeline]).await?;
    Ok(Generation(rows.first().map_or(0, |row| row.get(0))))
}

/// Beats where the generation is still ours; gives the stored one.
pub(super) async fn heartbeat(session: &Session, pipeline: &str, generation: Generation) -> Result<Fence, Error> {
    const BEAT: &str = "WITH held AS (SELECT generation FROM pipeline WHERE name = $1),
        beat AS (
            INSERT INTO pipeline_heartbeat (name, generation, at)
            SELECT $1, $2, clock_timestamp() FROM held WHERE generation = $2
            ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, at = excluded.at)
        SELECT generation FROM held";
    let rows = session.query(BEAT, &[&pipeline, &generation.0]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Writes progress; nothing goes back.
pub(super) async fn commit(session: &Session, pipeline: &str, progress: &Progress) -> Result<(Fence, ()), Error> {
    const PARTITIONS: &str = "INSERT INTO progress AS p (pipeline, topic_id, partition, next_offset, watermark, stored,
            retried, unmatched, dead, unique_rows)
        SELECT $1, topic_id::uuid, partition, next_offset, watermark, stored, retried, unmatched, dead, unique_rows
        FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[], $10::bigint[])
            AS t (topic_id, partition, next_offset, watermark, stored, retried, unmatched, dead, unique_rows)
        ON CONFLICT (pipeline, topic_id, partition) DO UPDATE SET
            next_offset = greatest(p.next_offset, excluded.next_offset),
            watermark = greatest(p.watermark, excluded.watermark),
            stored = greatest(p.stored, excluded.stored), retried = greatest(p.retried, excluded.retried),
            unmatched = greatest(p.unmatched, excluded.unmatched), dead = greatest(p.dead, excluded.dead),
            unique_rows = greatest(p.unique_rows, excluded.unique_rows),
            updated_at = clock_timestamp()";
    const PIPELINE: &str = "UPDATE pipeline SET closed_watermark = greatest(closed_watermark, $2), settings_hash = $3
        WHERE name = $1 AND (closed_watermark IS DISTINCT FROM greatest(closed_watermark, $2) OR settings_hash <> $3)";
    let mut columns = Columns::default();
    progress.partitions.iter().for_each(|(key, partition)| columns.push(key, partition));
    let held = session.begin(pipeline).await?;
    let closed: Option<SystemTime> = progress.closed.and_then(known_stamp);
    let settings_hash = format!("{:032x}", progress.settings_hash);
    session
        .query(
            PARTITIONS,
            &[
                &pipeline,
                &columns.topic_ids,
                &columns.partitions,
                &columns.next_offsets,
                &columns.watermarks,
                &columns.stored,
                &columns.retried,
                &columns.unmatched,
                &columns.dead,
                &columns.unique,
            ],
        )
        .await?;
    session.query(PIPELINE, &[&pipeline, &closed, &settings_hash]).await?;
    Ok((held, ()))
}

/// Partitions by column; they come sorted.
#[derive(Default)]
struct Columns {
    topic_ids: Vec<String>,
    partitions: Vec<i32>,
    next_offsets: Vec<i64>,
    watermarks: Vec<Option<SystemTime>>,
    stored: Vec<i64>,
    retried: Vec<i64>,
    unmatched: Vec<i64>,
    dead: Vec<i64>,
    unique: Vec<i64>,
}

impl Columns {
    fn push(&mut self, key: &PartitionKey, partition: &PartitionProgress) {
        self.topic_ids.push(key.topic_id.to_string());
        self.partitions.push(key.partition);
        self.next_offsets.push(partition.next_offset);
        self.watermarks.push(watermark_stamp(partition.watermark));
        self.stored.push(partition.tallies.stored.cast_signed());
        self.retried.push(partition.tallies.retried.cast_signed());
        self.unmatched.push(partition.tallies.unmatched.cast_signed());
        self.dead.push(partition.tallies.dead.cast_signed());
        self.unique.push(partition.tallies.unique.cast_signed());
    }
}

/// Reads what is committed.
pub(super) async fn read(session: &Session, pipeline: &str) -> Result<Progress, Error> {
    const PARTITIONS: &str =
        "SELECT topic_id::text, partition, next_offset, watermark, stored, retried, unmatched, dead, unique_rows
        FROM progress WHERE pipeline = $1";
    const PIPELINE: &str = "SELECT closed_watermark, settings_hash FROM pipeline WHERE name = $1";
    let mut progress = Progress::default();
    if let Some(row) = session.query(PIPELINE, &[&pipeline]).await?.first() {
        progress.closed = row.get::<_, Option<SystemTime>>(0).map(time);
        progress.settings_hash = u128::from_str_radix(row.get(1), 16).unwrap_or(0);
    }
    for row in session.query(PARTITIONS, &[&pipeline]).await? {
        let Some(topic_id) = topic_id(row.get(0)) else { continue };
        let tally = |index: usize| row.get::<_, i64>(index).cast_unsigned();
        let partition = PartitionProgress {
            next_offset: row.get(2),
            watermark: watermark(row.get(3)),
            tallies: Tallies {
                stored: tally(4),
                retried: tally(5),
                unmatched: tally(6),
                dead: tally(7),
                unique: tally(8),
            },
        };
        progress.partitions.insert(PartitionKey { topic_id, partition: row.get(1) }, partition);
    }
    Ok(progress)
}
