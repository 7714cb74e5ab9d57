//! The `cardinality` incidents whose window is open (W-12, Q46): closed with the number of bugs that there were.

use floodmark_dataflow::message::CrowdKey;
use floodmark_model::incident::{ClosedWindow, JudgedIncident, Sample, WindowFacts};
use floodmark_model::{Detection, EventTime, Fingerprint, IncidentKey, IncidentKind, Reach, Rule, Verdict, Window};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Those that are not closed.
#[derive(Default)]
pub struct OpenCrowds(Mutex<BTreeSet<IncidentKey>>);

impl OpenCrowds {
    /// One more.
    pub fn add(&self, key: IncidentKey) {
        self.lock().insert(key);
    }

    /// Takes out those whose window is closed at `watermark`.
    pub fn take_closed(&self, watermark: EventTime) -> Vec<IncidentKey> {
        let mut open = self.lock();
        let closed: Vec<_> = open.iter().filter(|key| key.window.is_closed_at(watermark)).cloned().collect();
        closed.iter().for_each(|key| _ = open.remove(key));
        closed
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<IncidentKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The incident of a tenant with too many bugs in a window.
#[must_use]
pub fn crowd_incident(rule: &Rule, tenant: Arc<str>, crowd: &CrowdKey, panes: u64) -> JudgedIncident {
    let key = IncidentKey {
        kind: IncidentKind::Cardinality,
        rule: rule.name.as_str().into(),
        tenant,
        fingerprint: Fingerprint::NONE,
        window: Window { start: crowd.window_start, size_ms: rule.window_ms },
    };
    JudgedIncident {
        key,
        verdict: Verdict::Own,
        detection: Detection::Window,
        count: panes,
        opened_at: crowd.window_start,
        message: Some(MESSAGE.into()),
    }
}

/// What people see of it.
const MESSAGE: &str = "more distinct fingerprints than limits.max_fingerprints or limits.max_panes allow: those beyond are \
                       stored, counted in totals, and judged when the window closes";

/// Its row once the window is closed: `fingerprints` is how many bugs there were.
#[must_use]
pub fn closed_crowd(key: IncidentKey, fingerprints: u64) -> ClosedWindow {
    let samples = vec![Sample { message: MESSAGE.to_owned(), count: fingerprints }];
    let (first_ts, last_ts) = (key.window.start, key.window.end().minus(1));
    ClosedWindow { facts: WindowFacts { key, total: fingerprints, first_ts, last_ts, samples }, reach: Reach::Own }
}
