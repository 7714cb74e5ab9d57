//! One pane: a key's counts in one window of one rule, in a few bytes.
//!
//! # Shape
//!
//! A pane is `layout.stride` bytes:
//!
//! | bytes | |
//! | --- | --- |
//! | 16 | fingerprint |
//! | 4 | tenant |
//! | 1 | verdict (two bits), and how its row first became due (two bits) |
//! | 1 | slack: how many occurrences may come until it is judged again; 255 is "so many or more" |
//! | B times 1, 2 or 4 | saturating counters, of whichever width holds the threshold |
//!
//! With ten buckets and a threshold below 256 these are 32 bytes.
//!
//! # Invariant
//!
//! - A counter saturates at its width's maximum, which is at least the threshold, so what [`Reach`](floodmark_model::Reach)
//!   says of them is exact.

use floodmark_model::{Detection, Fingerprint, Verdict};
use serde::{Deserialize, Serialize};

const TENANT_AT: usize = 16;
const FLAGS_AT: usize = 20;
const SLACK_AT: usize = 21;
const COUNTS_AT: usize = 22;

/// Index of a tenant's name in the directory of this run. Never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TenantId(pub u32);

/// The key of a pane inside one rule's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaneKey {
    /// The bug.
    pub fingerprint: Fingerprint,
    /// The tenant.
    pub tenant: TenantId,
}

impl PaneKey {
    /// A seeded hash: the low bits choose slab and place; [`PaneKey::route`] uses another seed, so that the keys of
    /// one worker still spread over its slabs.
    #[must_use]
    pub fn hash(&self, seed: u64) -> u64 {
        let bits = self.fingerprint.bits();
        let low = (bits as u64) ^ seed;
        let high = ((bits >> 64) as u64) ^ (u64::from(self.tenant.0)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        folded_multiply(folded_multiply(low, 0xA076_1D64_78BD_642F) ^ high, 0xE703_7ED1_A0B4_28DB)
    }

    /// Which worker owns the key, modulo the number of workers.
    #[must_use]
    pub fn route(&self) -> u64 {
        self.hash(0x5851_F42D_4C95_7F2D) >> 32
    }
}

fn folded_multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

/// How wide a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterWidth {
    One,
    Two,
    Four,
}

/// The shape of a rule's panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaneLayout {
    buckets: usize,
    width: CounterWidth,
    /// Bytes of one pane.
    pub(super) stride: usize,
}

impl PaneLayout {
    /// The layout for a rule with this many buckets and this threshold.
    #[must_use]
    pub fn new(buckets: usize, threshold: u32) -> Self {
        let (width, bytes) = match threshold {
            0..=0xff => (CounterWidth::One, 1),
            0x100..=0xffff => (CounterWidth::Two, 2),
            _ => (CounterWidth::Four, 4),
        };
        Self { buckets, width, stride: COUNTS_AT + buckets * bytes }
    }
}

/// One pane. In bytes that are all zero it is empty and of no key.
pub struct PaneMut<'a> {
    pub(super) layout: PaneLayout,
    pub(super) bytes: &'a mut [u8],
}

/// What a pane remembers of how its row first became due, from the flags' value on.
const DETECTIONS: [Option<Detection>; 4] =
    [None, Some(Detection::Window), Some(Detection::Bridge), Some(Detection::Late)];
const VERDICTS: [Verdict; 4] = [Verdict::Below, Verdict::Own, Verdict::Bridge, Verdict::Blocked];

impl PaneMut<'_> {
    const VERDICT_MASK: u8 = 0b0011;
    const DETECTION_SHIFT: u32 = 2;

    /// Whether a pane's bytes are those of this key.
    pub(super) fn is_of(bytes: &[u8], key: &PaneKey) -> bool {
        bytes[..TENANT_AT] == key.fingerprint.0 && bytes[TENANT_AT..FLAGS_AT] == key.tenant.0.to_le_bytes()
    }

    /// Gives an empty pane its key.
    pub(super) fn set_key(&mut self, key: &PaneKey) {
        self.bytes[..TENANT_AT].copy_from_slice(&key.fingerprint.0);
        self.bytes[TENANT_AT..FLAGS_AT].copy_from_slice(&key.tenant.0.to_le_bytes());
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> PaneKey {
        let fingerprint = self.bytes[..TENANT_AT].try_into().expect("16 bytes");
        let tenant = self.bytes[TENANT_AT..FLAGS_AT].try_into().expect("4 bytes");
        PaneKey { fingerprint: Fingerprint(fingerprint), tenant: TenantId(u32::from_le_bytes(tenant)) }
    }

    /// The window's verdict, as last judged.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        VERDICTS[usize::from(self.bytes[FLAGS_AT] & Self::VERDICT_MASK)]
    }

    /// Notes the window's verdict.
    pub fn set_verdict(&mut self, verdict: Verdict) {
        let number = VERDICTS.iter().position(|known| *known == verdict).expect("all are listed") as u8;
        self.bytes[FLAGS_AT] = (self.bytes[FLAGS_AT] & !Self::VERDICT_MASK) | number;
    }

    /// How the window's row first became due; `None` while there is no row.
    #[must_use]
    pub fn detection(&self) -> Option<Detection> {
        DETECTIONS[usize::from((self.bytes[FLAGS_AT] >> Self::DETECTION_SHIFT) & 0b11)]
    }

    /// Notes how the window's row first became due.
    pub fn set_detection(&mut self, detection: Detection) {
        let number = DETECTIONS.iter().position(|known| *known == Some(detection)).expect("all are listed") as u8;
        self.bytes[FLAGS_AT] = (self.bytes[FLAGS_AT] & Self::VERDICT_MASK) | (number << Self::DETECTION_SHIFT);
    }

    /// Notes how many occurrences may come until it must be judged again.
    pub fn set_slack(&mut self, missing: u32) {
        self.bytes[SLACK_AT] = u8::try_from(missing).unwrap_or(u8::MAX);
    }

    /// Takes `n` occurrences from the slack; whether it is used up.
    pub fn use_slack(&mut self, n: u32) -> bool {
        let slack = &mut self.bytes[SLACK_AT];
        *slack = slack.saturating_sub(u8::try_from(n).unwrap_or(u8::MAX));
        *slack == 0
    }

    /// What a run over the start of the window after can hold of this one: all but the first bucket.
    #[must_use]
    pub fn count_for_next(&self) -> u32 {
        self.counts().skip(1).fold(0, u32::saturating_add)
    }

    /// Adds `n` occurrences to a bucket; saturates.
    pub fn add(&mut self, bucket: usize, n: u32) {
        debug_assert!(bucket < self.layout.buckets);
        let counts = &mut self.bytes[COUNTS_AT..];
        match self.layout.width {
            CounterWidth::One => counts[bucket] = counts[bucket].saturating_add(u8::try_from(n).unwrap_or(u8::MAX)),
            CounterWidth::Two => {
                let place = &mut counts[bucket * 2..bucket * 2 + 2];
                let count =
                    u16::from_le_bytes([place[0], place[1]]).saturating_add(u16::try_from(n).unwrap_or(u16::MAX));
                place.copy_from_slice(&count.to_le_bytes());
            }
            CounterWidth::Four => {
                let place = &mut counts[bucket * 4..bucket * 4 + 4];
                let count = u32::from_le_bytes([place[0], place[1], place[2], place[3]]).saturating_add(n);
                place.copy_from_slice(&count.to_le_bytes());
            }
        }
    }

    /// The counts of its buckets.
    #[must_use]
    pub fn counts(&self) -> impl ExactSizeIterator<Item = u32> + Clone {
        let (counts, width) = (&self.bytes[COUNTS_AT..], self.layout.width);
        (0..self.layout.buckets).map(move |bucket| match width {
            CounterWidth::One => u32::from(counts[bucket]),
            CounterWidth::Two => u32::from(u16::from_le_bytes([counts[bucket * 2], counts[bucket * 2 + 1]])),
            CounterWidth::Four => {
                let place = &counts[bucket * 4..bucket * 4 + 4];
                u32::from_le_bytes([place[0], place[1], place[2], place[3]])
            }
        })
    }

    /// The sum of its counts; exact below the threshold.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.counts().fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flags_are_kept_apart() {
        let layout = PaneLayout::new(2, 10);
        let mut pane = PaneMut { layout, bytes: &mut vec![0; layout.stride] };
        assert_eq!((pane.verdict(), pane.detection()), (Verdict::Below, None));
        for verdict in VERDICTS {
            for detection in [Detection::Window, Detection::Bridge, Detection::Late] {
                pane.set_verdict(verdict);
                pane.set_detection(detection);
                assert_eq!((pane.verdict(), pane.detection()), (verdict, Some(detection)));
            }
        }
        pane.add(1, 4);
        pane.set_slack(7);
        assert_eq!((pane.count(), pane.count_for_next()), (4, 4));
        assert_eq!((pane.verdict(), pane.detection()), (VERDICTS[3], Some(Detection::Late)));
    }

    #[test]
    fn slack_is_used_up_at_the_latest_when_as_many_have_come() {
        let layout = PaneLayout::new(2, 1_000);
        let mut pane = PaneMut { layout, bytes: &mut vec![0; layout.stride] };
        pane.set_slack(3);
        assert_eq!([1, 1, 1].map(|n| pane.use_slack(n)), [false, false, true]);
        pane.set_slack(3);
        assert!(pane.use_slack(1_000));
        pane.set_slack(1_000);
        assert!(!pane.use_slack(254));
        assert!(pane.use_slack(1), "255 is so many or more");
    }

    proptest! {
        /// Counters of every width are exact below the threshold, against plain sums.
        #[test]
        fn counts_are_exact_below_the_threshold(
            threshold in prop_oneof![1u32..300, 65_000u32..66_000, 70_000u32..71_000],
            adds in proptest::collection::vec((0usize..5, 1u32..40_000), 0..20),
        ) {
            let layout = PaneLayout::new(5, threshold);
            let mut pane = PaneMut { layout, bytes: &mut vec![0; layout.stride] };
            let mut counts = [0; 5];
            for (bucket, add) in adds {
                pane.add(bucket, add);
                counts[bucket] += u64::from(add);
            }
            let capped = |count: u64| count.min(u64::from(threshold));
            prop_assert_eq!(capped(pane.count().into()), capped(counts.iter().sum()));
            let exact = pane.counts().zip(counts).all(|(is, was)| capped(is.into()) == capped(was));
            prop_assert!(exact);
        }
    }
}
