//! A topic of its own for each test, and waiting with a deadline.

use floodmark_kafka::{
    Admin, Event, KafkaSettings, LostRange, Outgoing, PartitionReader, Producer, Start, Topic, Topics, start,
};
use floodmark_model::RecordTime;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn settings() -> KafkaSettings {
    let brokers = std::env::var("FLOODMARK_TEST_KAFKA")
        .expect("FLOODMARK_TEST_KAFKA is not set: run `dev/services up`, then eval \"$(dev/services env)\"");
    KafkaSettings::new(brokers, "floodmark-test", BTreeMap::new()).unwrap()
}

pub(crate) fn topics() -> Topics {
    Topics::new(&settings(), Duration::from_secs(10)).unwrap()
}

pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Tries until it succeeds; the calls themselves wait.
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::yield_now();
    }
}

/// A topic that is deleted at the end.
pub(crate) struct ScratchTopic {
    pub(crate) name: String,
    pub(crate) admin: Admin,
}

impl ScratchTopic {
    pub(crate) fn new(partitions: i32) -> Self {
        Self::with(partitions, &[])
    }

    pub(crate) fn with(partitions: i32, config: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-kafka-{}-{}-{number}", std::process::id(), now_ms());
        let admin = Admin::new(&settings()).unwrap();
        admin.create_topic(&name, partitions, config).unwrap();
        let topic = Self { name, admin };
        topic.wait_for_leaders(partitions);
        topic
    }

    /// A topic exists a moment before it can be written.
    pub(crate) fn wait_for_leaders(&self, partitions: i32) -> Topic {
        let topics = topics();
        eventually("all partitions have a leader", || {
            let description = topics.describe(&self.name).ok()?;
            (description.leaders == vec![true; partitions as usize]).then_some(description.topic)
        })
    }

    pub(crate) fn topic(&self) -> Topic {
        topics().describe(&self.name).unwrap().topic
    }

    /// Writes `numbers` to one partition; the record time of each is its number in milliseconds, plus one.
    pub(crate) fn write(&self, partition: i32, numbers: std::ops::Range<i64>) {
        let records = numbers.map(|n| Outgoing::new(n.to_string().into_bytes()).to(partition).at(RecordTime(n + 1)));
        Producer::new(&settings()).unwrap().send_all(&self.name, records).unwrap();
    }

    pub(crate) fn starts(&self, wanted: &[(i32, Option<i64>)]) -> Vec<Start> {
        start::starts(&topics(), &self.topic().name, wanted.iter().copied()).unwrap()
    }

    pub(crate) fn reader(&self) -> PartitionReader {
        PartitionReader::new(&settings(), "floodmark-test", self.topic()).unwrap()
    }
}

impl Drop for ScratchTopic {
    fn drop(&mut self) {
        let _gone_already = self.admin.delete_topic(&self.name);
    }
}

/// What a reader has handed over.
#[derive(Default)]
pub(crate) struct Seen {
    /// (partition, offset, value).
    pub(crate) records: Vec<(i32, i64, String)>,
    /// (partition, next offset), and how many records had come before.
    pub(crate) ends: Vec<(i32, i64, usize)>,
    pub(crate) lost: Vec<LostRange>,
}

impl Seen {
    /// Polls once.
    pub(crate) fn poll(&mut self, reader: &mut PartitionReader) {
        let mut sink = |event: Event<'_>| match event {
            Event::Record(record) => {
                let value = String::from_utf8(record.payload.unwrap_or_default().to_vec()).unwrap();
                self.records.push((record.at.partition, record.at.offset, value));
            }
            Event::EndOfPartition { partition, next_offset } => {
                self.ends.push((partition, next_offset, self.records.len()));
            }
            Event::Lost(lost) => self.lost.push(lost),
            Event::Trouble(_) => {}
        };
        reader.poll(now_ms(), Duration::from_millis(100), &mut sink).unwrap();
    }

    pub(crate) fn poll_until(&mut self, what: &str, reader: &mut PartitionReader, is_done: impl Fn(&Self) -> bool) {
        eventually(what, || {
            self.poll(reader);
            is_done(self).then_some(())
        });
    }

    pub(crate) fn offsets(&self, partition: i32) -> Vec<i64> {
        self.records.iter().filter(|record| record.0 == partition).map(|record| record.1).collect()
    }
}
