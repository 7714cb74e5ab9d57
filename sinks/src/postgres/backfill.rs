//! What `floodmark backfill` keeps beside the engine's own tables: which input is which, how far it is produced, and
//! whether an engine is alive. These writes carry no generation: they are not the engine's, and decide nothing.

use super::PostgresStore;
use super::connection::{Lane, Session};
use super::values::{stamp, time, topic_id};
use crate::StoreError;
use crate::inputs::{ReadBytes, further_id_of, id_of, length};
use floodmark_model::progress::PartitionKey;
use floodmark_model::{EventTime, RecordTime, TopicId};
use std::time::{Duration, SystemTime};
use tokio_postgres::{Error, Row};

/// A file of backfills, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackfillInput {
    /// File id and 0: what its records' identities are made of.
    pub key: PartitionKey,
    /// Where it was last seen.
    pub name: String,
    /// The moment of its first reading.
    pub first_read: RecordTime,
    /// What an unfinished backfill has produced of it.
    pub produced: Option<Produced>,
    /// How its records were read: format, zone and mapping; `None` where nobody noted it.
    pub written: Option<String>,
    /// What was read of it; `None` where nobody noted it.
    pub read: Option<ReadBytes>,
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
    /// The known files whose stored first bytes `head` begins with: those of which most are known first, then the
    /// newest.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn files_alike(&self, head: &[u8]) -> Result<Vec<BackfillInput>, StoreError> {
        let call = self.lane(Lane::Progress, "read inputs");
        call.run(async |session| alike(session, &self.pipeline, head).await).await
    }

    /// Whether a file of this name was read that began with other bytes.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn was_another_file(&self, name: &str, head: &[u8]) -> Result<bool, StoreError> {
        const OTHER: &str = "SELECT FROM backfill_inputs WHERE pipeline = $1 AND name = $2 AND head_id IS NOT NULL";
        let alike = self.files_alike(head).await?;
        let call = self.lane(Lane::Progress, "read inputs");
        let named = call.run(async |session| session.query(OTHER, &[&self.pipeline, &name]).await).await?;
        Ok(!named.is_empty() && !alike.iter().any(|file| file.name == name))
    }

    /// Stores a new file that begins with these bytes, at most [`crate::inputs::InputFile::HEAD_BYTES_MAX`] of them,
    /// though another one may begin alike. `None` for an empty one.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn add_file(
        &self,
        name: &str,
        head: &[u8],
        now: RecordTime,
    ) -> Result<Option<BackfillInput>, StoreError> {
        const ADD: &str = "INSERT INTO backfill_inputs
                (pipeline, input_id, partition, head_id, head_bytes, name, first_read)
            VALUES ($1, $2::text::uuid, 0, $3::text::uuid, $4, $5, $6)
            ON CONFLICT (pipeline, input_id, partition) DO UPDATE SET name = excluded.name";
        let Some(head_bytes) = length(head).map(i32::from) else { return Ok(None) };
        let (head_id, stamped) = (id_of(head), stamp(EventTime(now.0)));
        let call = self.lane(Lane::Progress, "add an input");
        let id = call
            .run(async |session| {
                let known = known(session, &self.pipeline, head_id, head_bytes).await?.len() as u64;
                let id = if known == 0 { head_id } else { further_id_of(head_id, known) };
                let (id_text, head_text) = (id.to_string(), head_id.to_string());
                session
                    .query(ADD, &[&self.pipeline, &id_text, &head_text, &head_bytes, &name, &stamped])
                    .await
                    .map(|_| id)
            })
            .await?;
        let key = PartitionKey { topic_id: id, partition: 0 };
        let name = name.to_owned();
        Ok(Some(BackfillInput { key, name, first_read: now, produced: None, written: None, read: None }))
    }

    /// Notes where a file is, how its records are read, and what was read of it.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn note_read(
        &self,
        key: PartitionKey,
        name: &str,
        written: &str,
        read: ReadBytes,
    ) -> Result<(), StoreError> {
        const NOTE: &str = "UPDATE backfill_inputs
            SET name = $4, written = $5, read_bytes = $6, read_hash = $7::text::uuid
            WHERE pipeline = $1 AND input_id = $2::text::uuid AND partition = $3";
        let (id, hash) = (key.topic_id.to_string(), TopicId(read.hash.to_be_bytes()).to_string());
        let bytes = i64::try_from(read.bytes).unwrap_or(i64::MAX);
        let call = self.lane(Lane::Progress, "note what is read");
        let note = async |session: &Session| {
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
                [&self.pipeline, &id, &key.partition, &name, &written, &bytes, &hash];
            session.query(NOTE, &values).await.map(drop)
        };
        call.run(note).await
    }

    /// What an unfinished backfill has produced of a topic's partition; one that is new is stored.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn identify_partition(
        &self,
        key: PartitionKey,
        topic: &str,
        now: RecordTime,
    ) -> Result<Option<Produced>, StoreError> {
        let call = self.lane(Lane::Progress, "identify an input");
        call.run(async |session| identify(session, &self.pipeline, key, topic, now).await).await
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

async fn alike(session: &Session, pipeline: &str, head: &[u8]) -> Result<Vec<BackfillInput>, Error> {
    const LENGTHS: &str = "SELECT DISTINCT head_bytes FROM backfill_inputs
        WHERE pipeline = $1 AND head_bytes <= $2 ORDER BY head_bytes DESC";
    let Some(head_bytes) = length(head) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for row in session.query(LENGTHS, &[&pipeline, &i32::from(head_bytes)]).await? {
        let length: i32 = row.get(0);
        let Some(beginning) = usize::try_from(length).ok().and_then(|length| head.get(..length)) else { continue };
        found.extend(known(session, pipeline, id_of(beginning), length).await?);
    }
    Ok(found)
}

/// The files with this hash of so many first bytes, newest first.
async fn known(
    session: &Session,
    pipeline: &str,
    head_id: TopicId,
    head_bytes: i32,
) -> Result<Vec<BackfillInput>, Error> {
    const KNOWN: &str = "SELECT first_read, backfill_topic_id::text, began, next_offset, input_id::text, name, written,
            read_bytes, read_hash::text
        FROM backfill_inputs WHERE pipeline = $1 AND head_id = $2::text::uuid AND head_bytes = $3
        ORDER BY first_read DESC";
    let rows = session.query(KNOWN, &[&pipeline, &head_id.to_string(), &head_bytes]).await?;
    Ok(rows.iter().filter_map(input).collect())
}

fn input(row: &Row) -> Option<BackfillInput> {
    let key = PartitionKey { topic_id: topic_id(row.get(4))?, partition: 0 };
    let first_read = RecordTime(time(row.get::<_, SystemTime>(0)).0);
    let (bytes, hash): (Option<i64>, Option<&str>) = (row.get(7), row.get(8));
    let read = bytes
        .zip(hash.and_then(topic_id))
        .map(|(bytes, hash)| ReadBytes { bytes: bytes.max(0).unsigned_abs(), hash: u128::from_be_bytes(hash.0) });
    Some(BackfillInput { key, name: row.get(5), first_read, produced: produced(row), written: row.get(6), read })
}

async fn identify(
    session: &Session,
    pipeline: &str,
    key: PartitionKey,
    name: &str,
    now: RecordTime,
) -> Result<Option<Produced>, Error> {
    const IDENTIFY: &str = "INSERT INTO backfill_inputs (pipeline, input_id, partition, name, first_read)
        VALUES ($1, $2::text::uuid, $3, $4, $5)
        ON CONFLICT (pipeline, input_id, partition) DO UPDATE SET name = excluded.name
        RETURNING first_read, backfill_topic_id::text, began, next_offset";
    let (id, now) = (key.topic_id.to_string(), stamp(EventTime(now.0)));
    // Postgres holds no NUL, which no path or topic has.
    let rows = session.query(IDENTIFY, &[&pipeline, &id, &key.partition, &name, &now]).await?;
    Ok(rows.first().and_then(produced))
}

fn produced(row: &Row) -> Option<Produced> {
    let id: Option<&str> = row.get(1);
    let (began, next_offset) = (row.get::<_, Option<i64>>(2)?, row.get::<_, Option<i64>>(3)?);
    Some(Produced { topic_id: topic_id(id?)?, began, next_offset })
}
