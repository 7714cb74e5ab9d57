//! Waiting for the engine: what was produced counts when it is durable, with all that it caused (G-3).

use super::BackfillError;
use floodmark_kafka::{Topic, Topics};
use floodmark_model::progress::{PartitionKey, Progress};
use floodmark_sinks::IncidentStore;
use floodmark_sinks::postgres::PostgresStore;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// An engine beats every 500 ms; one that was silent for so long is away.
const SILENT: Duration = Duration::from_secs(5);

/// Where the engine must come: the end of each partition of the backfill topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    ends: BTreeMap<PartitionKey, i64>,
}

/// Whether somebody counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// One is alive.
    Alive,
    /// None has ever run on this pipeline.
    Never,
    /// None has said so for this long.
    Silent(Duration),
}

impl Goal {
    /// The ends as they are now.
    ///
    /// # Errors
    ///
    /// Kafka does not answer.
    pub fn now(topics: &Topics, topic: &Topic, partitions: i32) -> Result<Self, BackfillError> {
        let mut ends = BTreeMap::new();
        for partition in 0..partitions {
            let (low, high) = topics.watermarks(&topic.name, partition)?;
            if low < high {
                ends.insert(PartitionKey { topic_id: topic.id, partition }, high);
            }
        }
        Ok(Self { ends })
    }

    /// Records that are not durable yet.
    #[must_use]
    pub fn missing(&self, progress: &Progress) -> u64 {
        let reached = |key| progress.partitions.get(key).map_or(0, |partition| partition.next_offset);
        self.ends.iter().map(|(key, end)| (end - reached(key)).max(0).unsigned_abs()).sum()
    }
}

/// Waits until the goal is reached. `look` is told how many records are missing, and whether there is an engine.
///
/// # Errors
///
/// The store does not answer, or the wait takes longer than `timeout`.
pub async fn until_durable(
    store: &PostgresStore,
    goal: &Goal,
    timeout: Option<Duration>,
    mut look: impl FnMut(u64, Engine),
) -> Result<(), BackfillError> {
    let started = Instant::now();
    loop {
        let missing = goal.missing(&store.progress().await?);
        if missing == 0 {
            return Ok(());
        }
        let engine = match store.heartbeat_age().await? {
            None => Engine::Never,
            Some(age) if age > SILENT => Engine::Silent(age),
            Some(_) => Engine::Alive,
        };
        look(missing, engine);
        if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            return Err(BackfillError::NotCounted(format!(
                "{missing} records are not counted yet at the end of --wait-timeout: everything is in the backfill \
                 topic, and is counted as soon as `floodmark run` runs; give the same command again for the verdict"
            )));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
