//! What a seed stands for: settings, and all that happens to one process after another.

use super::random::Random;
use floodmark_model::Rule;
use serde_json::{Value, json};

/// A run. It is the same for every driver; what a driver cannot do at a moment it passes over, so that any part of a run
/// is a run as well.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) happenings: Vec<Happening>,
}

/// What holds for a whole run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// One or two, which count the same.
    pub(super) rules: Vec<Rule>,
    pub(super) partitions: i32,
    /// Of the first process.
    pub(super) workers: usize,
    pub(super) max_panes: Option<usize>,
    pub(super) max_fingerprints: Option<u32>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    /// A record is sent: a step of a scenario.
    Send(Value),
    /// A reading thread takes in at most so many records of a partition.
    Read { partition: i32, records: usize },
    /// It is given so many of the last ones again (I-1).
    ReadAgain { partition: i32, records: usize },
    /// A partition that is read to its end is idle (T-4).
    BeIdle { partition: i32 },
    /// A reading thread hands its batch over.
    HandOver { worker: usize },
    /// The clock moves on.
    Tick { ms: i64 },
    /// A source enters the epoch of the clock.
    EnterEpoch { worker: usize },
    /// A judge takes in at most so many messages of each source, and answers.
    Judge { worker: usize, messages: usize },
    /// A delivery of rows is inserted, whichever it is.
    InsertRows { delivery: usize, call: Call },
    /// The first deliveries of incidents are written.
    WriteIncidents { deliveries: usize, call: Call },
    /// The totals that the first closings want are read.
    ReadTotals { closings: usize },
    /// What was read last is written.
    WriteTotals { call: Call },
    /// The first question is looked up.
    LookUp,
    /// The first answer reaches its judge.
    Reply,
    /// Progress is committed.
    Commit { call: Call },
    /// The retry filter forgets what it may.
    ForgetRetries,
    /// An insert of a process that is dead already arrives.
    ArriveLate,
    /// `kill -9`, and a start; `survivors` draws what of the writes under way was applied.
    Crash { workers: usize, survivors: u64 },
    /// An orderly end, and a start.
    Stop { workers: usize },
}

/// How a call to a store ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Succeeds,
    /// It is applied and reported as failed, so it will be repeated.
    SeemsToFail,
}

/// Fingerprints by label: those that a scenario has messages for.
const LABELS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const TENANTS: [&str; 3] = ["acme", "globex", "initech"];
/// T-3, the default.
const LATENESS_MS: i64 = 60_000;
/// Records of a run, at most.
const RECORDS_MAX: usize = 160;

impl Run {
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let settings = Settings::draw(&mut random);
        let records = Records::new(&mut random, &settings).draw();
        let happenings = Happenings::new(&mut random, &settings).draw(records);
        Self { seed, settings, happenings }
    }
}

impl Settings {
    /// Whether keys may have no pane.
    pub(super) fn panes_are_short(&self) -> bool {
        self.max_panes.is_some() || self.max_fingerprints.is_some()
    }

    fn draw(random: &mut Random) -> Self {
        let mut rules = vec![rule(random, "default")];
        if random.percent(20) {
            rules.push(rule(random, "other"));
        }
        Self {
            rules,
            partitions: random.between(1, 4) as i32,
            workers: workers(random),
            // A window weighs eight panes.
            max_panes: random.percent(30).then(|| random.between(0, 30) as usize),
            max_fingerprints: random.percent(15).then(|| random.between(1, 3) as u32),
        }
    }
}

fn rule(random: &mut Random, name: &str) -> Rule {
    Rule {
        name: name.into(),
        window_ms: random.pick(&[60_000, 60_000, 120_000, 300_000]),
        threshold: random.between(2, 12) as u32,
        straddle: random.percent(85),
        // Those that divide a minute into whole milliseconds.
        buckets: random.pick(&[1, 2, 3, 4, 5, 6, 8, 10, 10, 10]),
        ..Rule::default()
    }
}

fn workers(random: &mut Random) -> usize {
    random.pick(&[1, 2, 3, 4])
}

/// Draws the records of a run.
struct Records<'a> {
    random: &'a mut Random,
    settings: &'a Settings,
    /// Windows in which something happens.
    windows: i64,
    tenants: usize,
    labels: usize,
    late_percent: i64,
    retry_percent: i64,
    /// Step of each record, by the time at which it is sent.
    drawn: Vec<(i64, Value)>,
}

impl<'a> Records<'a> {
    fn new(random: &'a mut Random, settings: &'a Settings) -> Self {
        let windows = random.between(2, 12);
        let (tenants, labels) = (random.between(1, 3) as usize, random.between(1, 4) as usize);
        let (late_percent, retry_percent) = (random.pick(&[0, 5, 20, 50]), random.pick(&[0, 0, 10, 40]));
        Self { random, settings, windows, tenants, labels, late_percent, retry_percent, drawn: Vec::new() }
    }

    fn draw(mut self) -> Vec<Value> {
        for _ in 0..self.random.between(1, 6) {
            match self.random.weighted(&[4, 3, 2]) {
                0 => self.burst(),
                1 => self.chain(),
                _ => self.noise(),
            }
        }
        self.drawn.truncate(RECORDS_MAX);
        self.drawn.sort_by_key(|(at, _)| *at);
        self.drawn.into_iter().map(|(_, step)| step).collect()
    }

    fn rule(&mut self) -> Rule {
        self.random.pick(&self.settings.rules)
    }

    fn key(&mut self) -> (&'static str, &'static str) {
        (TENANTS[self.random.below(self.tenants)], LABELS[self.random.below(self.labels)])
    }

    /// Occurrences of one key around a boundary of windows.
    fn burst(&mut self) {
        let (rule, key) = (self.rule(), self.key());
        let boundary = self.random.between(0, self.windows) * rule.window_ms;
        let reach = self.random.pick(&[rule.bucket_ms(), rule.window_ms / 2, rule.window_ms]);
        let behind = self.behind();
        for _ in 0..self.random.between(1, 2 * i64::from(rule.threshold)) {
            let t = boundary + self.random.between(-reach, reach);
            self.record(key, t, behind);
        }
    }

    /// A burst over each of some boundaries in a row, none of which fills a window by itself: they block one another.
    fn chain(&mut self) {
        let (rule, key) = (self.rule(), self.key());
        let first = self.random.between(0, self.windows);
        let threshold = i64::from(rule.threshold);
        let behind = self.behind();
        for boundary in first..first + self.random.between(2, 4) {
            let before = self.random.between(1, (threshold - 1).max(1));
            let near = rule.bucket_ms().min(rule.window_ms / 8);
            for side in [(-near, -1, before), (0, near - 1, threshold - before)] {
                let (from, until, count) = side;
                for _ in 0..count {
                    let t = boundary * rule.window_ms + self.random.between(from, until);
                    // Some of the bursts are whole only when the last record has come.
                    let behind = if self.random.percent(10) { self.behind() } else { behind };
                    self.record(key, t, behind);
                }
            }
        }
    }

    /// Anything at any time, and what is no occurrence.
    fn noise(&mut self) {
        for _ in 0..self.random.between(1, 20) {
            let (rule, key) = (self.rule(), self.key());
            let t = self.random.between(0, (self.windows + 1) * rule.window_ms);
            match self.random.weighted(&[6, 1, 1, 1, 1]) {
                0 => self.record(key, t, 0),
                1 => self.send(t, json!({"raw": "{not json", "rt": t})),
                2 => self.send(t, json!({"t": t, "rt": t, "tenant": key.0, "fp": key.1, "level": "debug"})),
                // Its time is its record's.
                3 => self.send(t, json!({"rt": t, "tenant": key.0, "fp": key.1})),
                // Too far ahead: likewise (T-2).
                _ => self.send(t, json!({"t": t + 600_000, "rt": t, "tenant": key.0, "fp": key.1})),
            }
        }
    }

    /// How long something is held back before it is sent.
    fn behind(&mut self) -> i64 {
        if !self.random.percent(self.late_percent) {
            return 0;
        }
        let windows = self.random.pick(&[1, 2, 3, self.windows]);
        self.random.between(0, windows * self.settings.rules[0].window_ms)
    }

    fn record(&mut self, (tenant, label): (&str, &str), t: i64, behind: i64) {
        let at = t + behind + self.random.between(0, LATENESS_MS / 2) + self.behind();
        let mut step = json!({"t": t, "rt": at, "tenant": tenant, "fp": label});
        if self.random.percent(self.retry_percent) {
            step["event_id"] = format!("e{}", self.drawn.len()).into();
            if self.random.percent(50) {
                let later = at + self.random.between(0, 3 * self.settings.rules[0].window_ms);
                self.send(later, step.clone());
            }
        }
        self.send(at, step);
    }

    fn send(&mut self, at: i64, mut step: Value) {
        step["partition"] = self.random.between(0, i64::from(self.settings.partitions) - 1).into();
        self.drawn.push((at, step));
    }
}

/// Draws what happens between the records.
struct Happenings<'a> {
    random: &'a mut Random,
    settings: &'a Settings,
    /// How often each kind happens: a slow store, a thread that is behind, a quiet run, all differ from run to run.
    weights: Vec<i64>,
    failing_percent: i64,
}

impl<'a> Happenings<'a> {
    fn new(random: &'a mut Random, settings: &'a Settings) -> Self {
        let mut weights: Vec<i64> = (0..14).map(|_| random.pick(&[1, 3, 9, 9])).collect();
        weights.extend([random.pick(&[0, 0, 1]), random.pick(&[0, 1, 1]), random.pick(&[0, 0, 1])]);
        let failing_percent = random.pick(&[0, 0, 10, 40]);
        Self { random, settings, weights, failing_percent }
    }

    fn draw(mut self, records: Vec<Value>) -> Vec<Happening> {
        let most = self.random.pick(&[1, 4, 8, 12]);
        let mut happenings = Vec::new();
        for step in records {
            happenings.push(Happening::Send(step));
            for _ in 0..self.random.between(0, most) {
                happenings.push(self.happening());
            }
        }
        for _ in 0..self.random.between(0, 100) {
            happenings.push(self.happening());
        }
        happenings
    }

    fn happening(&mut self) -> Happening {
        let kind = self.random.weighted(&self.weights);
        let (partition, worker) = (self.random.below(self.settings.partitions as usize) as i32, self.random.below(4));
        let some = self.random.pick(&[1, 2, 5, usize::MAX]);
        let call = if self.random.percent(self.failing_percent) { Call::SeemsToFail } else { Call::Succeeds };
        match kind {
            0 => Happening::Read { partition, records: some },
            1 => Happening::HandOver { worker },
            2 => Happening::Tick { ms: self.random.pick(&[100, 100, 100, 5_000, 40_000]) },
            3 => Happening::EnterEpoch { worker },
            4 | 5 => Happening::Judge { worker, messages: some },
            6 => Happening::InsertRows { delivery: self.random.below(8), call },
            7 => Happening::WriteIncidents { deliveries: some, call },
            8 => Happening::ReadTotals { closings: some },
            9 => Happening::WriteTotals { call },
            10 => Happening::LookUp,
            11 => Happening::Reply,
            12 => Happening::Commit { call },
            13 => self.pick_rare(partition, some),
            14 => Happening::ForgetRetries,
            15 => Happening::Crash { workers: workers(self.random), survivors: self.random.seed() },
            _ => Happening::Stop { workers: workers(self.random) },
        }
    }

    fn pick_rare(&mut self, partition: i32, records: usize) -> Happening {
        match self.random.weighted(&[4, 1, 1]) {
            0 => Happening::BeIdle { partition },
            1 => Happening::ReadAgain { partition, records: records.min(5) },
            _ => Happening::ArriveLate,
        }
    }
}
