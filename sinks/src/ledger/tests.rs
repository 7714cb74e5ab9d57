//! The invariants of the rows, whatever calls come in whatever order.

use super::*;
use floodmark_model::incident::WindowFacts;
use floodmark_model::{Detection, Fingerprint, IncidentKind};
use proptest::prelude::*;

const WINDOWS: i64 = 6;

fn key(n: i64) -> IncidentKey {
    IncidentKey {
        kind: IncidentKind::Burst,
        rule: "default".into(),
        tenant: "acme".into(),
        fingerprint: Fingerprint::from_bits(1),
        window: Window { start: EventTime(n * 10), size_ms: 10 },
    }
}

/// A call of a store.
#[derive(Clone, Debug)]
enum Call {
    Write(Vec<JudgedIncident>),
    Close(Vec<ClosedWindow>, bool),
}

/// The rows of one key by window, as a store keeps them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rows(BTreeMap<i64, Standing>);

impl Rows {
    /// Does what a store does in one transaction.
    fn call(&mut self, call: &Call) {
        let mut ledger = match call {
            Call::Write(rows) => Ledger::of(rows.iter().map(|row| &row.key)),
            Call::Close(windows, _) => Ledger::of(windows.iter().map(|window| &window.facts.key)),
        };
        for (named, _) in ledger.named() {
            let (n, after) = (named.window.start.0 / 10, next(&named).id());
            self.find(&mut ledger, &named, |at, row| at == n || at == n - 1 || row.episode == after);
        }
        match call {
            Call::Write(rows) => ledger.write(rows),
            Call::Close(windows, settled) => ledger.close(windows, *settled),
        }
        for (left, episode) in ledger.left() {
            self.find(&mut ledger, &left, |at, row| at > left.window.start.0 / 10 && row.episode == episode);
        }
        ledger.link();
        for change in ledger.changes() {
            self.0.insert(change.key.window.start.0 / 10, change.now);
        }
    }

    fn find(&self, ledger: &mut Ledger<'_>, key: &IncidentKey, is_meant: impl Fn(i64, &Standing) -> bool) {
        for (&n, &standing) in self.0.iter().filter(|(n, row)| is_meant(**n, row)) {
            let row = self::key(n);
            ledger.found(key, Found { id: row.id(), window_start: row.window.start, standing });
        }
    }

    fn check(&self) {
        for (&n, row) in &self.0 {
            let before = self.0.get(&(n - 1)).filter(|before| before.is_live());
            let episode = if row.is_live() { before.map(|before| before.episode) } else { None };
            assert_eq!(row.episode, episode.unwrap_or(key(n).id()), "W-11, window {n} of {self:?}");
            assert_eq!(row.status == Status::Superseded, row.superseded_by == Some(key(n - 1).id()), "W-7, {row:?}");
            assert!(!row.is_live() || (row.status == Status::Closed) == row.is_closed, "{row:?}");
        }
    }
}

fn write() -> impl Strategy<Value = Call> {
    let verdict = prop_oneof![Just(Verdict::Own), Just(Verdict::Bridge), Just(Verdict::Blocked)];
    let row = (0..WINDOWS, verdict, 1u64..20).prop_map(|(n, verdict, count)| {
        let (key, opened_at) = (key(n), EventTime(n * 10));
        JudgedIncident { key, verdict, detection: Detection::Window, count, opened_at, message: None }
    });
    proptest::collection::vec(row, 1..4).prop_map(Call::Write)
}

fn close() -> impl Strategy<Value = Call> {
    let reach = prop_oneof![Just(Reach::Below), Just(Reach::Run), Just(Reach::Own)];
    let window = (0..WINDOWS, reach, 0u64..20).prop_map(|(n, reach, total)| {
        let (first_ts, last_ts) = (EventTime(n * 10), EventTime(n * 10));
        ClosedWindow { facts: WindowFacts { key: key(n), total, first_ts, last_ts, samples: Vec::new() }, reach }
    });
    (proptest::collection::vec(window, 1..4), any::<bool>())
        .prop_map(|(windows, settled)| Call::Close(windows, settled))
}

proptest! {
    /// A store that reads only what the ledger asks for keeps every episode right, and a call that is repeated, since its
    /// answer was lost, changes nothing.
    #[test]
    fn w11_episodes_are_right_after_every_call_and_a_repeated_call_changes_nothing(
        calls in proptest::collection::vec(prop_oneof![write(), close()], 1..20),
    ) {
        let mut rows = Rows::default();
        for call in &calls {
            rows.call(call);
            rows.check();
            let before = rows.clone();
            rows.call(call);
            prop_assert_eq!(&rows, &before, "{:?}", call);
        }
    }
}
