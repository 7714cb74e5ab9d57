//! What `floodmark backfill` keeps beside the engine's own tables: which input is which, how far it is produced, and
//! whether an engine is alive. These writes carry no generation: they are not the engine's, and decide nothing.

use super::PostgresStore;
use super::connection::{Lane, Session};
use super::values::{stamp, time, topic_id};
use crate::StoreError;
use crate::inputs::{id_of, length};
use floodmark_model::progress::PartitionKey;
use floodmark_model::{EventTime, RecordTime, TopicId};
use std::time::{Duration, SystemTime};
use tokio_postgres::{Error, Row};

/// An input of backfills, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackfillInput {
    /// File id and 0, or topic id and partition: what its records' identities are made of.
    pub key: PartitionKey,
    /// The moment of its first reading.
    pub first_read: RecordTime,
    /// What an unfinished backfill has produced of it.
    pub produced: Option<Produced>,
}

/// What an unfinished backfill has produced of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    /// Into this topic.
    pub topic_id: TopicId,
    /// From this offset on.
    pub began: i64,
    /// Up to this one: every record below it is acknowledged.
    pub next_offset: i64,
}

impl PostgresStore {
    /// Which file begins with these bytes, at most [`crate::inputs::InputFile::HEAD_BYTES_MAX`] of them; one that is new is stored.
    /// `None` for an empty one.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn identify_file(
        &self,
        name: &str,
        head: &[u8],
        now: RecordTime,
    ) -> Result<Option<BackfillInput>, StoreError> {
        let Some(head_bytes) = length(head) else { return Ok(None) };
        let call = self.lane(Lane::Progress, "identify an input");
        call.run(async |session| {
            let id = match known_alike(session, &self.pipeline, head, head_bytes).await? {
                Some(known) => known,
                None => id_of(head),
            };
            let key = PartitionKey { topic_id: id, partition: 0 };
            identify(session, &self.pipeline, key, Some(head_bytes), name, now).await.map(Some)
        })
        .await
    }

    /// What is stored of a topic's partition; one that is new is stored.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn identify_partition(
        &self,
        key: PartitionKey,
        topic: &str,
        now: RecordTime,
    ) -> Result<BackfillInput, StoreError> {
        let call = self.lane(Lane::Progress, "identify an input");
        call.run(async |session| identify(session, &self.pipeline, key, None, topic, now).await).await
    }

    /// Notes what is produced of an input; `None` when its backfill is finished.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn note_produced(&self, key: PartitionKey, produced: Option<Produced>) -> Result<(), StoreError> {
        const NOTE: &str = "UPDATE backfill_inputs
            SET backfill_topic_id = $4::text::uuid, began = $5, next_offset = $6
            WHERE pipeline = $1 AND input_id = $2::text::uuid AND partition = $3";
        let id = key.topic_id.to_string();
        let topic_id = produced.map(|produced| produced.topic_id.to_string());
        let (began, next) = (produced.map(|produced| produced.began), produced.map(|produced| produced.next_offset));
        let call = self.lane(Lane::Progress, "note what is produced");
        let note = async |session: &Session| {
            session.query(NOTE, &[&self.pipeline, &id, &key.partition, &topic_id, &began, &next]).await.map(drop)
        };
        call.run(note).await
    }

    /// How long ago an engine said last that it is alive; `None` when none ever did.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn heartbeat_age(&self) -> Result<Option<Duration>, StoreError> {
        const AGE: &str = "SELECT (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint
            FROM pipeline_heartbeat WHERE name = $1";
        let call = self.lane(Lane::Progress, "ask for the heartbeat");
        let rows = call.run(async |session| session.query(AGE, &[&self.pipeline]).await).await?;
        Ok(rows.first().map(|row| Duration::from_millis(row.get::<_, i64>(0).max(0).unsigned_abs())))
    }
}

/// The known file that `head` begins with; of several the one of which most bytes are known.
async fn known_alike(
    session: &Session,
    pipeline: &str,
    head: &[u8],
    head_bytes: u16,
) -> Result<Option<TopicId>, Error> {
    const LENGTHS: &str = "SELECT DISTINCT head_bytes FROM backfill_inputs
        WHERE pipeline = $1 AND head_bytes <= $2 ORDER BY head_bytes DESC";
    const KNOWN: &str = "SELECT FROM backfill_inputs
        WHERE pipeline = $1 AND input_id = $2::text::uuid AND head_bytes = $3";
    for row in session.query(LENGTHS, &[&pipeline, &i32::from(head_bytes)]).await? {
        let length: i32 = row.get(0);
        let Some(beginning) = usize::try_from(length).ok().and_then(|length| head.get(..length)) else { continue };
        let id = id_of(beginning);
        if !session.query(KNOWN, &[&pipeline, &id.to_string(), &length]).await?.is_empty() {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

async fn identify(
    session: &Session,
    pipeline: &str,
    key: PartitionKey,
    head_bytes: Option<u16>,
    name: &str,
    now: RecordTime,
) -> Result<BackfillInput, Error> {
    const IDENTIFY: &str = "INSERT INTO backfill_inputs (pipeline, input_id, partition, head_bytes, name, first_read)
        VALUES ($1, $2::text::uuid, $3, $4, $5, $6)
        ON CONFLICT (pipeline, input_id, partition) DO UPDATE SET name = excluded.name
        RETURNING first_read, backfill_topic_id::text, began, next_offset";
    let (id, head_bytes) = (key.topic_id.to_string(), head_bytes.map(i32::from));
    // Postgres holds no NUL, which no path or topic has.
    let now = stamp(EventTime(now.0));
    let rows = session.query(IDENTIFY, &[&pipeline, &id, &key.partition, &head_bytes, &name, &now]).await?;
    // An upsert gives its one row back.
    let row = &rows[0];
    Ok(BackfillInput { key, first_read: RecordTime(time(row.get::<_, SystemTime>(0)).0), produced: produced(row) })
}

fn produced(row: &Row) -> Option<Produced> {
    let id: Option<&str> = row.get(1);
    let (began, next_offset) = (row.get::<_, Option<i64>>(2)?, row.get::<_, Option<i64>>(3)?);
    Some(Produced { topic_id: topic_id(id?)?, began, next_offset })
}
