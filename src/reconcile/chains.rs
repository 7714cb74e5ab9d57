//! What W-4 demands, beside an engine that runs.

use crate::chain::Chain;
use floodmark_model::Window;
use floodmark_model::predicate::Verdict;

/// The counts of one key: all that is stored, and what progress covers.
pub(super) struct Chains<'a> {
    pub(super) all: Chain<'a>,
    pub(super) covered: Chain<'a>,
}

impl Chains<'_> {
    /// `None`: it depends on what was not read. `Some(None)`: records are on their way that change it.
    pub(super) fn verdict(&self, window: Window) -> Option<Option<Verdict>> {
        let (all, covered) = (self.all.verdict(window)?, self.covered.verdict(window)?);
        Some((all == covered).then_some(all))
    }
}

/// What W-4 says of a window, in words.
pub(super) fn why(chain: &Chain<'_>, window: Window, verdict: Verdict) -> String {
    let (count, threshold) = (chain.count(window), chain.threshold(window));
    let run = chain.best_run(window).map_or(0, |run| run.count);
    match verdict {
        Verdict::Own => format!("an incident: the window has {count} of {threshold}"),
        Verdict::Bridge => format!("an incident: a run over its start holds {run} of {threshold}"),
        Verdict::Blocked => "no incident: that of the window before stands for it".to_owned(),
        Verdict::Below if chain.straddles(window) => format!(
            "no incident: the window has {count} of {threshold}, the best run over its start {run} of {threshold}"
        ),
        Verdict::Below => format!("no incident: the window has {count} of {threshold}"),
    }
}
