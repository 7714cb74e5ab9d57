//! When an incident is due: one pure predicate over bucket counts, for live, late, replayed and imagined data alike
//! (design, decision 4).
//!
//! What a window's counts show is its [`Reach`], which only grows. Whether that makes an incident depends on the window
//! before as well: that is its [`Verdict`], which may go back and forth (Q40).

use serde::{Deserialize, Serialize};

/// What the counts of a window, and of the one before it, show. It only grows as occurrences arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Fewer than N, wherever one looks.
    #[default]
    Below,
    /// A run of B buckets over the window's start holds N (W-3).
    Run,
    /// The window itself holds N (W-2).
    Own,
}

impl Reach {
    /// The reach of a window from the counts of its buckets and of those of the window before. Counts may saturate at N
    /// or above without changing the answer.
    #[must_use]
    pub fn of(
        before: impl ExactSizeIterator<Item = u32> + Clone,
        during: impl ExactSizeIterator<Item = u32> + Clone,
        threshold: u32,
        straddle: bool,
    ) -> Self {
        if own(during.clone(), threshold) {
            Self::Own
        } else if straddle && reaches_over(before, during, threshold) {
            Self::Run
        } else {
            Self::Below
        }
    }

    /// The stored name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Below => "below",
            Self::Run => "run",
            Self::Own => "own",
        }
    }

    /// The reach with this stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Below, Self::Run, Self::Own].into_iter().find(|reach| reach.name() == name)
    }
}

/// What W-4 says of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No incident, and never one.
    #[default]
    Below,
    /// An incident by the window's own count (W-2).
    Own,
    /// An incident by a run over its start (W-3).
    Bridge,
    /// There is such a run, but the window before has an incident, which stands for it: a row that was written earlier
    /// is superseded (W-7).
    Blocked,
}

impl Verdict {
    /// W-4: `before` says whether the window before has an incident.
    #[must_use]
    pub fn new(reach: Reach, before: bool) -> Self {
        match (reach, before) {
            (Reach::Below, _) => Self::Below,
            (Reach::Own, _) => Self::Own,
            (Reach::Run, false) => Self::Bridge,
            (Reach::Run, true) => Self::Blocked,
        }
    }

    /// What the window's counts show.
    #[must_use]
    pub fn reach(self) -> Reach {
        match self {
            Self::Below => Reach::Below,
            Self::Own => Reach::Own,
            Self::Bridge | Self::Blocked => Reach::Run,
        }
    }

    /// Whether the window has an incident.
    #[must_use]
    pub fn is_incident(self) -> bool {
        matches!(self, Self::Own | Self::Bridge)
    }
}

/// W-2: `own(w)` holds when `count(w) >= N`. `buckets` are the counts of the window's buckets.
#[must_use]
pub fn own(buckets: impl IntoIterator<Item = u32>, threshold: u32) -> bool {
    let mut count = 0u32;
    for bucket in buckets {
        count = count.saturating_add(bucket);
        if count >= threshold {
            return true;
        }
    }
    false
}

/// W-3: whether some run of B buckets that begins inside the window before, though not at its start, holds N. Such a run
/// ends inside this window, though not at its end.
///
/// That one of the N lies in this window is not looked at: N in the window before alone is its own incident, which
/// blocks the bridge (Q49).
#[must_use]
pub fn reaches_over(
    before: impl ExactSizeIterator<Item = u32> + Clone,
    during: impl ExactSizeIterator<Item = u32>,
    threshold: u32,
) -> bool {
    runs_over(before, during).any(|run| run >= u64::from(threshold))
}

/// What each run of B buckets over the start of a window holds, from the left.
fn runs_over(
    before: impl ExactSizeIterator<Item = u32> + Clone,
    during: impl ExactSizeIterator<Item = u32>,
) -> impl Iterator<Item = u64> {
    debug_assert_eq!(before.len(), during.len(), "both windows have B buckets");
    let mut run: u64 = before.clone().map(u64::from).sum();
    let runs = before.len().saturating_sub(1);
    // The run moves by a bucket: one leaves on its left, one enters on its right.
    before.zip(during).take(runs).map(move |(left, entered)| {
        run = run - u64::from(left) + u64::from(entered);
        run
    })
}

/// How many occurrences must come at least, in the window or the one before, until the window reaches more than `reach`,
/// which it has reached: until then it need not be looked at.
#[must_use]
pub fn missing(
    reach: Reach,
    before: impl ExactSizeIterator<Item = u32> + Clone,
    during: impl ExactSizeIterator<Item = u32> + Clone,
    threshold: u32,
    straddle: bool,
) -> u32 {
    let own = during.clone().map(u64::from).sum();
    let greatest = match reach {
        Reach::Below if straddle => runs_over(before, during).fold(own, u64::max),
        _ => own,
    };
    u64::from(threshold).saturating_sub(greatest) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over<const B: usize>(before: [u32; B], during: [u32; B], threshold: u32) -> bool {
        reaches_over(before.into_iter(), during.into_iter(), threshold)
    }

    #[test]
    fn w2_the_nth_occurrence_makes_it_due() {
        assert!(!own([4, 0, 5], 10));
        assert!(own([4, 1, 5], 10));
        assert!(own([u32::MAX, 5], 10), "saturated buckets do not overflow");
        assert!(!own([], 1));
    }

    #[test]
    fn w3_a_run_begins_and_ends_inside_the_two_windows() {
        assert!(over([0, 0, 9], [1, 0, 0], 10));
        assert!(over([0, 5, 0], [5, 0, 0], 10));
        assert!(!over([9, 0, 0], [1, 0, 0], 10), "a run of three buckets does not hold both");
        assert!(!over([0, 5, 0], [0, 5, 0], 10), "four buckets apart");
        assert!(!over([0, 0, 0], [0, 0, 10], 10), "the last bucket is in no run from before");
        assert!(!over([10], [10], 10), "one bucket leaves no run between");
        assert!(over([0, u32::MAX], [u32::MAX, 0], 10));
    }

    #[test]
    fn what_is_missing_is_what_the_fullest_run_lacks() {
        let missing = |reach, before: [u32; 3], during: [u32; 3], straddle| {
            missing(reach, before.into_iter(), during.into_iter(), 10, straddle)
        };
        assert_eq!(missing(Reach::Below, [9, 3, 4], [1, 0, 0], true), 2, "the first bucket before is in no run");
        assert_eq!(missing(Reach::Below, [9, 3, 4], [1, 0, 0], false), 9);
        assert_eq!(missing(Reach::Below, [0, 0, 1], [0, 0, 7], true), 3, "the window itself is fuller");
        assert_eq!(missing(Reach::Run, [0, 9, 4], [3, 0, 0], true), 7, "only its own count can say more");
        assert_eq!(missing(Reach::Own, [0, 0, 0], [10, 5, 0], true), 0);
    }

    #[test]
    fn w4_a_bridge_needs_a_window_before_without_an_incident() {
        assert_eq!(Verdict::new(Reach::Run, false), Verdict::Bridge);
        assert_eq!(Verdict::new(Reach::Run, true), Verdict::Blocked);
        for before in [false, true] {
            assert!(Verdict::new(Reach::Own, before).is_incident());
            assert!(!Verdict::new(Reach::Below, before).is_incident());
        }
        assert!(Reach::Below < Reach::Run && Reach::Run < Reach::Own);
    }
}
