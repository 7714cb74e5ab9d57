//! A believable flood of error events, for `floodmark demo`: six services of an online shop, in three tenants.
//!
//! There are three kinds of records. *Stories* are what people on call know: a connection pool that runs dry after a
//! deploy, a payment provider that times out, a certificate that expired. Each has an onset, a shape and an end, and
//! makes one incident or a few. *Noise* is what no one should be paged for: fewer than ten of one bug in any five
//! minutes, and oddities of which each is seen once. *Traffic* is below `warn`.
//!
//! Invariants: the same seed, start and span give the same flood, on every machine (no clock, no system randomness, and
//! of floating point only what IEEE 754 defines exactly); records come in order of `ts`; each is valid JSON and no dead
//! letter; a repeated record (I-2) has the same `ts` as its original and follows it at once; memory does not grow with
//! the span.

mod pace;
mod random;
mod stories;
mod text;

use floodmark_model::EventTime;
use pace::Pace;
use random::Random;
use serde::Serialize;
use stories::Line;

/// Of the records with an `event_id`, one in this many is sent twice (I-2).
const SENT_TWICE_ONE_IN: u64 = 100;

/// A believable flood: several services in several tenants, steady noise below any threshold, and bursts.
#[derive(Clone, Debug)]
pub struct Flood {
    start: EventTime,
    span_us: i64,
    random: Random,
    feeds: Vec<Feed>,
    oddities: text::Oddities,
    /// The record that comes next, since its client sends it a second time.
    retry: Option<Generated>,
}

/// One occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// When it happened, which is also when it is sent.
    pub ts: EventTime,
    /// The record: JSON as floodmark reads it, on one line without a line break.
    pub json: String,
}

/// Lines of one kind, and when the next of them comes.
#[derive(Clone, Debug)]
struct Feed {
    lines: &'static [Line],
    tenants: &'static [&'static str],
    /// How many pods of the service write them.
    pods: u64,
    pace: Pace,
    /// When it began, in microseconds from the flood's start.
    onset_us: i64,
    /// The time of its next line, in microseconds from the flood's start; `None` when it has ended.
    next_us: Option<i64>,
}

impl Flood {
    /// A flood that begins at `start`, lasts `span_ms`; the same seed gives the same flood.
    ///
    /// Onset and length of each story are shares of the span; rates do not depend on it. A span of zero or less is an
    /// empty flood.
    #[must_use]
    pub fn new(seed: u64, start: EventTime, span_ms: i64) -> Self {
        let span_us = span_ms.max(0).saturating_mul(1_000);
        let mut random = Random::new(seed);
        let oddities = text::Oddities::new(&mut random);
        let feeds = feeds(span_us, &mut random);
        Self { start, span_us, random, feeds, oddities, retry: None }
    }

    /// The feed whose line comes next, and when. Of two at the same time it is the first.
    fn next_feed(&self) -> Option<(usize, i64)> {
        let pending = self.feeds.iter().enumerate().filter_map(|(index, feed)| Some((index, feed.next_us?)));
        pending.min_by_key(|&(_, next_us)| next_us).filter(|&(_, next_us)| next_us < self.span_us)
    }

    fn at(&self, offset_us: i64) -> EventTime {
        self.start.plus(offset_us / 1_000)
    }

    /// Writes one line of a feed as a record, and whether the record has an `event_id`.
    fn record(&mut self, index: usize, ts: EventTime) -> (Generated, bool) {
        let feed = &self.feeds[index];
        let random = &mut self.random;
        let line = stories::pick(feed.lines, random);
        let tenant = random.pick(feed.tenants);
        let host = text::pod(line.service, tenant, random.below(feed.pods));
        let scene = text::Scene { now: ts, onset: self.start.plus(feed.onset_us / 1_000), host: &host };
        let message = text::fill(line.message, &scene, &mut self.oddities, random);
        let record = Record {
            ts: text::rfc3339(ts),
            tenant,
            level: line.level,
            service: line.service.name,
            host: &host,
            source: line.service.logger,
            message: &message,
            event_id: line.service.gives_event_ids.then(|| text::uuid(random)),
            fingerprint: line.fingerprint,
            exception: line.exception.map(|exception| Exception {
                kind: exception.kind,
                message: &message,
                stack: exception.stack,
            }),
            attributes: Attributes { release: line.service.release },
        };
        let json = serde_json::to_string(&record).expect("texts alone can always be written as JSON");
        (Generated { ts, json }, record.event_id.is_some())
    }
}

impl Iterator for Flood {
    type Item = Generated;

    fn next(&mut self) -> Option<Generated> {
        if let Some(retry) = self.retry.take() {
            return Some(retry);
        }
        let (index, now_us) = self.next_feed()?;
        let (generated, has_event_id) = self.record(index, self.at(now_us));
        if has_event_id && self.random.below(SENT_TWICE_ONE_IN) == 0 {
            self.retry = Some(generated.clone());
        }
        let feed = &mut self.feeds[index];
        feed.next_us = feed.pace.next_us(now_us, &mut self.random);
        Some(generated)
    }
}

/// Everything that happens in a span.
fn feeds(span_us: i64, random: &mut Random) -> Vec<Feed> {
    let mut feeds = Vec::new();
    let everywhere = &stories::TENANTS;
    for steady in &stories::STEADY {
        let pace = Pace::Steady { per_second: steady.per_second };
        feeds.push(Feed::new(steady.lines, everywhere, 4, pace, 0));
    }
    for line in &stories::NOISE {
        let onset_us = random.up_to(span_us.min(pace::NOISE_PAUSE_US));
        feeds.push(Feed::new(std::slice::from_ref(line), everywhere, 4, Pace::noise(random), onset_us));
    }
    for notice in &stories::NOTICES {
        let onset_us = pace::share(span_us, notice.at_permille);
        feeds.push(Feed::new(std::slice::from_ref(&notice.line), everywhere, 1, Pace::Once, onset_us));
    }
    for story in &stories::STORIES {
        let burst = pace::Burst::new(story, span_us);
        feeds.push(Feed::new(story.lines, story.tenants, story.pods, Pace::Burst(burst), burst.from_us));
    }
    feeds
}

impl Feed {
    fn new(lines: &'static [Line], tenants: &'static [&'static str], pods: u64, pace: Pace, onset_us: i64) -> Self {
        Self { lines, tenants, pods, pace, onset_us, next_us: Some(onset_us) }
    }
}

/// A record on the wire; absent fields are left out.
#[derive(Serialize)]
struct Record<'a> {
    ts: String,
    tenant: &'a str,
    level: &'a str,
    service: &'a str,
    host: &'a str,
    source: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<Exception<'a>>,
    attributes: Attributes<'a>,
}

#[derive(Serialize)]
struct Exception<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
    stack: &'a str,
}

#[derive(Serialize)]
struct Attributes<'a> {
    release: &'a str,
}

#[cfg(test)]
mod tests;
