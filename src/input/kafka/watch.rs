//! What is known of the topics, refreshed every second.

use super::watch_backfill::BackfillWatch;
use super::{BackfillLog, KafkaInput};
use crate::metrics::Log;
use floodmark_kafka::{Observation, TopicMonitor};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often the brokers are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The latest answer, for the readers.
pub(super) struct Watch {
    version: AtomicU64,
    latest: Mutex<Latest>,
}

/// What the brokers said.
#[derive(Clone, Debug)]
pub(super) struct Latest {
    /// Whether each partition, from 0, has a leader.
    pub(super) leaders: Vec<bool>,
    /// When they were asked.
    pub(super) asked_ms: i64,
    /// The backfill topic, once there is one.
    pub(super) backfill: Option<BackfillLog>,
}

/// Who is asked.
pub(super) struct Monitors {
    pub(super) live: TopicMonitor,
    pub(super) backfill: BackfillWatch,
}

impl Watch {
    pub(super) fn new(latest: Latest) -> Self {
        Self { version: AtomicU64::new(1), latest: Mutex::new(latest) }
    }

    /// The latest answer, where it is newer than the version that the caller knows; 0 knows nothing.
    pub(super) fn newer_than(&self, version: &mut u64) -> Option<Latest> {
        let now = self.version.load(Ordering::Acquire);
        if now == *version {
            return None;
        }
        *version = now;
        Some(self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn set(&self, latest: Latest) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Asks every second until the pipeline ends.
    pub(super) fn keep(&self, monitors: &mut Monitors, input: &KafkaInput) {
        let Monitors { live: monitor, backfill } = monitors;
        let topic = &input.config.kafka.topic;
        while input.pause(ASK_EVERY).is_ok() {
            let asked_ms = input.clock.now_ms();
            // An error says that the pipeline has ended.
            let Ok(backfill_is_same) = backfill.ask(input) else { return };
            match monitor.ask() {
                Observation::Same { leaders, .. } => {
                    if backfill_is_same {
                        input.same_log.confirm(asked_ms);
                    }
                    match leaders.iter().position(|has_leader| !has_leader) {
                        None if backfill_is_same => input.health.well("kafka"),
                        None => {}
                        Some(partition) => {
                            input.health.trouble("kafka", format!("partition {partition} has no leader"));
                        }
                    }
                    self.set(Latest { leaders, asked_ms, backfill: backfill.log().cloned() });
                    for (partition, end) in (0..).zip(monitor.ends()) {
                        end.into_iter().for_each(|end| input.metrics.partition_ends(Log::Live, partition, end));
                    }
                }
                Observation::Recreated { old, new } => input.start_anew(topic, old, new),
                Observation::Gone => {
                    let what = format!("topic {topic} is gone: nothing is committed until it is back");
                    input.health.trouble("kafka", what);
                }
                Observation::Unreachable(why) => input.health.trouble("kafka", why),
            }
        }
    }
}
