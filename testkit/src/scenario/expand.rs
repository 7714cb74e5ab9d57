//! From written steps to steps for a runner: coordinates, record times and copies.

use super::file::Step as Written;
use super::payload::{Style, payload};
use super::{FingerprintLabels, Scenario};
use anyhow::{Context, Result, bail, ensure};
use floodmark_model::{Coordinates, EventTime, RawRecord, RecordTime, TopicId};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One step of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A record is sent.
    Record(Record),
    /// A record that was sent is delivered again (I-1). With Kafka: met by seeking back at a restart, or skipped.
    Redeliver(Record),
    /// A batch ends here. With Kafka: a flush, and a wait.
    Cut,
    /// Time has passed this: windows close. With Kafka it may be skipped.
    Watermark(EventTime),
    /// A start on what is stored, after no goodbye or an orderly one.
    Restart(Restart),
    /// The topic is deleted and created again.
    RecreateTopic,
    /// Alerts: a human resolves the open incident of a key.
    UserResolve {
        /// Tenant of the key; `None` is absent.
        tenant: Option<String>,
        /// Object of the key; `None` is absent.
        obj: Option<String>,
        /// Metric of the key; `None` is absent.
        metric: Option<String>,
        /// When.
        at: EventTime,
    },
}

/// How a run ends before it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// As `kill -9` does.
    Kill,
    /// In order.
    Stop,
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub at: Coordinates,
    /// The time the log holds for it.
    pub record_time: RecordTime,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// The label of its fingerprint, where it has one.
    pub label: Option<String>,
}

impl Record {
    /// The record as decoders take it.
    #[must_use]
    pub fn as_raw(&self) -> RawRecord<'_> {
        RawRecord { at: self.at, record_time: self.record_time, payload: Some(&self.payload) }
    }
}

impl Scenario {
    pub(super) fn expand(&self, labels: FingerprintLabels) -> Result<Vec<Step>> {
        let mut expansion = Expansion {
            base_ms: self.base_ms,
            style: Style { kind: self.kind, labels },
            incarnation: 1,
            next_offsets: BTreeMap::new(),
            greatest: 0,
            named: BTreeMap::new(),
            steps: Vec::new(),
        };
        for (index, written) in self.steps.iter().enumerate() {
            expansion.add(written).with_context(|| format!("step {} of {}", index + 1, self.id))?;
        }
        Ok(expansion.steps)
    }
}

struct Expansion {
    base_ms: i64,
    style: Style,
    /// Which topic of the name this is.
    incarnation: u8,
    next_offsets: BTreeMap<i32, i64>,
    /// The greatest event or record time so far, relative to the base and at least that.
    greatest: i64,
    named: BTreeMap<String, Record>,
    steps: Vec<Step>,
}

impl Expansion {
    fn add(&mut self, written: &Written) -> Result<()> {
        let only = |allowed: Written| {
            ensure!(*written == allowed, "a step does one thing: {allowed:?} has further fields");
            Ok(())
        };
        let none = Written::default;
        let absolute = |t: i64| EventTime(self.base_ms + t);
        let step = match written {
            Written { same_record_as: Some(name), .. } => {
                only(Written { same_record_as: Some(name.clone()), ..none() })?;
                Step::Redeliver(self.named.get(name).with_context(|| format!("no record is named {name:?}"))?.clone())
            }
            Written { cut: Some(true), .. } => {
                only(Written { cut: Some(true), ..none() })?;
                Step::Cut
            }
            Written { watermark: Some(t), .. } => {
                only(Written { watermark: Some(*t), ..none() })?;
                Step::Watermark(absolute(*t))
            }
            Written { restart: Some(how), .. } => {
                only(Written { restart: Some(*how), ..none() })?;
                Step::Restart(*how)
            }
            Written { recreate_topic: Some(true), .. } => {
                only(Written { recreate_topic: Some(true), ..none() })?;
                self.incarnation = self.incarnation.checked_add(1).context("too many topics")?;
                self.next_offsets.clear();
                Step::RecreateTopic
            }
            Written { user_resolve: Some(t), tenant, obj, metric, .. } => {
                let (tenant, obj, metric) = (tenant.clone(), obj.clone(), metric.clone());
                let key = Written { tenant: tenant.clone(), obj: obj.clone(), metric: metric.clone(), ..none() };
                only(Written { user_resolve: Some(*t), ..key })?;
                Step::UserResolve { tenant, obj, metric, at: absolute(*t) }
            }
            Written { cut: Some(false), .. } | Written { recreate_topic: Some(false), .. } => {
                bail!("leave `cut` and `recreate_topic` out, or say true")
            }
            _ => return self.add_records(written),
        };
        self.steps.push(step);
        Ok(())
    }

    fn add_records(&mut self, written: &Written) -> Result<()> {
        let copies = written.n.unwrap_or(1);
        ensure!(copies >= 1, "n is 0");
        for copy in 0..copies {
            let record = self.record(written, copy)?;
            if let Some(name) = &written.id {
                ensure!(self.named.insert(name.clone(), record.clone()).is_none(), "two records are named {name:?}");
            }
            self.steps.push(Step::Record(record));
        }
        Ok(())
    }

    /// The copy with this number of a record.
    fn record(&mut self, written: &Written, copy: u32) -> Result<Record> {
        let later = i64::from(copy) * written.step.unwrap_or(0);
        let event_time = written.t.map(|t| t + later);
        let record_time = written.rt.map(|rt| rt + later);
        self.greatest = self.greatest.max(event_time.unwrap_or(0)).max(record_time.unwrap_or(0));

        let mut bytes_of = written.clone();
        if let (Some(id), 1..) = (&mut bytes_of.event_id, copy) {
            // An empty id is no id (Q34), and so are its copies.
            if !id.is_empty() {
                *id = format!("{id}.{copy}");
            }
        }
        let partition = written.partition.unwrap_or(0);
        let next_offset = self.next_offsets.entry(partition).or_default();
        let offset = *next_offset;
        *next_offset += 1;
        Ok(Record {
            at: Coordinates { topic_id: TopicId([self.incarnation; 16]), partition, offset },
            record_time: RecordTime(self.base_ms + record_time.unwrap_or(self.greatest)),
            payload: payload(&self.style, &bytes_of, event_time.map(|t| self.base_ms + t))?,
            label: written.fp.clone(),
        })
    }
}
