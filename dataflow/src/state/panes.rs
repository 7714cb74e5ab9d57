//! The panes of one window: per key B small counters, in a few bytes each and without a long stop to grow.
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
//! | 1 | hint: what a run from the window before can hold at most; 255 is "so much or more" |
//! | B times 1, 2 or 4 | saturating counters, of whichever width holds the threshold |
//!
//! With ten buckets and a threshold below 256 these are 32 bytes, and 4.6 to 9.2 of table with them. Panes lie in one slab, and from 4,096 panes on in one of 64,
//! chosen by hash: chunks of 4,096 panes under an open-addressed table of 32-bit entries (eight bits of hash, 24 bits of
//! index). Growing touches one slab's table at a time, and never moves a full chunk.
//!
//! # Invariants
//!
//! - A counter saturates at its width's maximum, which is at least the threshold, so what [`Reach`](floodmark_model::Reach)
//!   says of them is exact.
//! - A pane is never removed; the whole window is dropped at once.

use floodmark_model::{Detection, Fingerprint, Verdict};
use serde::{Deserialize, Serialize};

const SLABS: usize = 64;
const CHUNK_PANES: usize = 4_096;
/// An entry of a table: index + 1 in the low 24 bits, hash in the high eight; 0 is free.
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const TABLE_MIN: usize = 16;

const TENANT_AT: usize = 16;
const FLAGS_AT: usize = 20;
const HINT_AT: usize = 21;
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
    stride: usize,
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

/// All panes of one window of one rule that one worker owns.
pub struct Panes {
    layout: PaneLayout,
    seed: u64,
    slabs: Vec<Slab>,
    len: usize,
}

#[derive(Clone, Default)]
struct Slab {
    table: Vec<u32>,
    chunks: Vec<Vec<u8>>,
    len: usize,
}

impl Panes {
    /// No panes yet. `seed` keeps strangers from choosing fingerprints that collide.
    #[must_use]
    pub fn new(layout: PaneLayout, seed: u64) -> Self {
        Self { layout, seed, slabs: vec![Slab::default()], len: 0 }
    }

    /// How many panes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the heap that the panes and their tables take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let slab = |slab: &Slab| slab.table.capacity() * 4 + slab.chunks.iter().map(Vec::capacity).sum::<usize>();
        self.slabs.iter().map(slab).sum()
    }

    /// The pane of this key, if there is one.
    pub fn get(&mut self, key: &PaneKey) -> Option<PaneMut<'_>> {
        let hash = key.hash(self.seed);
        let place = self.slab_of(hash);
        let slab = &mut self.slabs[place];
        let index = slab.find(self.layout, hash, key)?;
        Some(slab.pane(self.layout, index))
    }

    /// The pane of this key, created empty where there is none and `may_create` says so; whether it is new.
    pub fn entry(&mut self, key: &PaneKey, may_create: bool) -> Option<(PaneMut<'_>, bool)> {
        if self.len == CHUNK_PANES && self.slabs.len() == 1 {
            self.spread();
        }
        let hash = key.hash(self.seed);
        let place = self.slab_of(hash);
        let slab = &mut self.slabs[place];
        let (index, is_new) = match slab.find(self.layout, hash, key) {
            Some(index) => (index, false),
            None if may_create && slab.len < INDEX_MASK as usize => {
                self.len += 1;
                (slab.insert(self.layout, self.seed, hash, key), true)
            }
            None => return None,
        };
        Some((slab.pane(self.layout, index), is_new))
    }

    /// Reads what a search for this key will read first, and gives some of it, so that the processor has it at hand: the
    /// loads of many keys overlap, where searches one after the other wait for each. `None`: there is no pane.
    #[must_use]
    pub fn warm(&self, key: &PaneKey) -> Option<u8> {
        let hash = key.hash(self.seed);
        let slab = &self.slabs[self.slab_of(hash)];
        if slab.table.is_empty() {
            return None;
        }
        let index = (slab.table[hash as usize & (slab.table.len() - 1)] & INDEX_MASK) as usize;
        let index = index.checked_sub(1)?;
        Some(slab.chunks[index / CHUNK_PANES][index % CHUNK_PANES * self.layout.stride])
    }

    fn slab_of(&self, hash: u64) -> usize {
        if self.slabs.len() == 1 { 0 } else { (hash >> 58) as usize }
    }

    /// Moves the panes of the one small slab to [`SLABS`] of them.
    fn spread(&mut self) {
        let mut small = std::mem::take(&mut self.slabs);
        self.slabs.resize_with(SLABS, Slab::default);
        for index in 0..self.len {
            let pane = small[0].pane(self.layout, index);
            let hash = pane.key().hash(self.seed);
            let place = self.slab_of(hash);
            self.slabs[place].append(self.layout, self.seed, hash, pane.bytes);
        }
    }

    /// Calls `each` for every pane.
    pub fn for_each(&mut self, mut each: impl FnMut(PaneMut<'_>)) {
        let layout = self.layout;
        for slab in &mut self.slabs {
            for index in 0..slab.len {
                each(slab.pane(layout, index));
            }
        }
    }
}

fn tag_of(hash: u64) -> u32 {
    ((hash >> 50) as u32 & 0xff) << INDEX_BITS
}

impl Slab {
    fn find(&self, layout: PaneLayout, hash: u64, key: &PaneKey) -> Option<usize> {
        if self.table.is_empty() {
            return None;
        }
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let entry = self.table[place];
            if entry == 0 {
                return None;
            }
            if entry & !INDEX_MASK == tag_of(hash) {
                let index = (entry & INDEX_MASK) as usize - 1;
                if self.holds(layout, index, key) {
                    return Some(index);
                }
            }
            place = (place + 1) & mask;
        }
    }

    fn holds(&self, layout: PaneLayout, index: usize, key: &PaneKey) -> bool {
        let at = (index % CHUNK_PANES) * layout.stride;
        let pane = &self.chunks[index / CHUNK_PANES][at..at + COUNTS_AT];
        pane[..TENANT_AT] == key.fingerprint.0 && pane[TENANT_AT..FLAGS_AT] == key.tenant.0.to_le_bytes()
    }

    fn insert(&mut self, layout: PaneLayout, seed: u64, hash: u64, key: &PaneKey) -> usize {
        let mut head = [0; COUNTS_AT];
        head[..TENANT_AT].copy_from_slice(&key.fingerprint.0);
        head[TENANT_AT..FLAGS_AT].copy_from_slice(&key.tenant.0.to_le_bytes());
        self.append(layout, seed, hash, &head)
    }

    /// Appends a pane that begins with `head`; its remaining counters are zero.
    fn append(&mut self, layout: PaneLayout, seed: u64, hash: u64, head: &[u8]) -> usize {
        // At most seven of eight places are taken, so that a search ends soon.
        if (self.len + 1) * 8 > self.table.len() * 7 {
            self.grow(layout, seed);
        }
        let index = self.len;
        if index.is_multiple_of(CHUNK_PANES) {
            self.chunks.push(Vec::new());
        }
        let chunk = self.chunks.last_mut().expect("a chunk was pushed for the first pane");
        reserve_pane(chunk, layout.stride);
        chunk.extend_from_slice(head);
        chunk.resize(chunk.len() + layout.stride - head.len(), 0);
        self.len += 1;
        self.place(hash, index);
        index
    }

    fn place(&mut self, hash: u64, index: usize) {
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        while self.table[place] != 0 {
            place = (place + 1) & mask;
        }
        self.table[place] = tag_of(hash) | (index as u32 + 1);
    }

    fn grow(&mut self, layout: PaneLayout, seed: u64) {
        let places = (self.table.len() * 2).max(TABLE_MIN);
        self.table = vec![0; places];
        for index in 0..self.len {
            let hash = self.pane(layout, index).key().hash(seed);
            self.place(hash, index);
        }
    }

    fn pane(&mut self, layout: PaneLayout, index: usize) -> PaneMut<'_> {
        let at = (index % CHUNK_PANES) * layout.stride;
        PaneMut { layout, bytes: &mut self.chunks[index / CHUNK_PANES][at..at + layout.stride] }
    }
}

/// A chunk grows by doubling up to its full size, so that a window of few keys stays small and a full one wastes
/// nothing.
fn reserve_pane(chunk: &mut Vec<u8>, stride: usize) {
    if chunk.capacity() - chunk.len() < stride {
        let panes = (chunk.len() / stride).clamp(1, CHUNK_PANES / 2);
        chunk.reserve_exact(panes * stride);
    }
}

/// One pane.
pub struct PaneMut<'a> {
    layout: PaneLayout,
    bytes: &'a mut [u8],
}

/// What a pane remembers of how its row first became due, from the flags' value on.
const DETECTIONS: [Option<Detection>; 4] =
    [None, Some(Detection::Window), Some(Detection::Bridge), Some(Detection::Late)];
const VERDICTS: [Verdict; 4] = [Verdict::Below, Verdict::Own, Verdict::Bridge, Verdict::Blocked];

impl PaneMut<'_> {
    const VERDICT_MASK: u8 = 0b0011;
    const DETECTION_SHIFT: u32 = 2;

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

    /// What a run from the window before can hold at most.
    #[must_use]
    pub fn hint(&self) -> Hint {
        Hint(self.bytes[HINT_AT])
    }

    /// Notes what a run from the window before can hold.
    pub fn set_hint(&mut self, hint: Hint) {
        self.bytes[HINT_AT] = hint.0;
    }

    /// What the window after can get from this one: all but the first bucket, in which no run begins.
    #[must_use]
    pub fn hint_for_next(&self) -> Hint {
        Hint::of(self.counts().skip(1).fold(0, u32::saturating_add))
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
        match self.layout.width {
            CounterWidth::One => self.bytes[COUNTS_AT..].iter().map(|count| u32::from(*count)).sum(),
            CounterWidth::Two | CounterWidth::Four => self.counts().fold(0, u32::saturating_add),
        }
    }
}

/// The most that a run over a window's start can hold of the window before, in one byte: a pane whose own count and
/// hint stay below the threshold need not look at the window before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint(u8);

impl Hint {
    /// The hint of this many.
    #[must_use]
    pub fn of(count: u32) -> Self {
        Self(u8::try_from(count).unwrap_or(u8::MAX))
    }

    /// The hint of `n` more.
    #[must_use]
    pub fn plus(self, n: u32) -> Self {
        Self::of(u32::from(self.0).saturating_add(n))
    }

    /// Whether a run may hold the threshold, with `count` in the window itself.
    #[must_use]
    pub fn may_reach(self, count: u32, threshold: u32) -> bool {
        self.0 > 0 && (self.0 == u8::MAX || u32::from(self.0) + count >= threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(n: u32) -> PaneKey {
        PaneKey { fingerprint: Fingerprint::from_bits(u128::from(n) << 40), tenant: TenantId(n % 3) }
    }

    #[test]
    fn a_pane_is_found_again_through_every_growth() {
        let mut panes = Panes::new(PaneLayout::new(10, 10), 7);
        for n in 0..300_000 {
            panes.entry(&key(n), true).expect("created").0.add((n % 10) as usize, 1);
        }
        assert_eq!(panes.len(), 300_000);
        for n in 0..300_000 {
            let pane = panes.get(&key(n)).expect("stored");
            assert_eq!(pane.key(), key(n));
            assert_eq!(pane.count(), 1);
        }
        assert!(panes.get(&key(300_001)).is_none());
    }

    #[test]
    fn tenants_with_one_fingerprint_have_panes_of_their_own() {
        let mut panes = Panes::new(PaneLayout::new(10, 10), 7);
        let of = |tenant| PaneKey { fingerprint: Fingerprint::from_bits(5), tenant: TenantId(tenant) };
        panes.entry(&of(1), true).expect("created").0.add(0, 10);
        assert_eq!(panes.entry(&of(2), true).expect("created").0.count(), 0);
        assert_eq!(panes.get(&of(1)).expect("stored").count(), 10);
    }

    #[test]
    fn no_pane_is_created_where_none_may_be() {
        let mut panes = Panes::new(PaneLayout::new(10, 10), 7);
        assert!(panes.entry(&key(1), false).is_none());
        assert!(panes.is_empty());
    }

    #[test]
    fn a_pane_takes_at_most_56_bytes() {
        for count in [65_536, 400_000] {
            let mut panes = Panes::new(PaneLayout::new(10, 255), 7);
            for n in 0..count {
                panes.entry(&key(n), true).expect("created").0.add(0, 1);
            }
            assert!(panes.bytes() / panes.len() <= 56, "{} bytes a pane", panes.bytes() / panes.len());
        }
    }

    #[test]
    fn an_empty_window_takes_next_to_nothing() {
        let mut panes = Panes::new(PaneLayout::new(10, 10), 7);
        panes.entry(&key(1), true).expect("created").0.add(0, 1);
        assert!(panes.bytes() < 1_000, "{}", panes.bytes());
    }

    #[test]
    fn flags_are_kept_apart() {
        let mut panes = Panes::new(PaneLayout::new(2, 10), 7);
        let (mut pane, is_new) = panes.entry(&key(1), true).expect("created");
        assert!(is_new);
        assert_eq!((pane.verdict(), pane.detection(), pane.hint()), (Verdict::Below, None, Hint::of(0)));
        for verdict in VERDICTS {
            for detection in [Detection::Window, Detection::Bridge, Detection::Late] {
                pane.set_verdict(verdict);
                pane.set_detection(detection);
                assert_eq!((pane.verdict(), pane.detection()), (verdict, Some(detection)));
            }
        }
        pane.add(1, 4);
        pane.set_hint(Hint::of(7));
        assert_eq!((pane.count(), pane.hint(), pane.hint_for_next()), (4, Hint::of(7), Hint::of(4)));
    }

    #[test]
    fn a_hint_says_no_only_when_it_is_sure() {
        assert!(!Hint::of(0).may_reach(100, 10), "nothing lies in the window before");
        assert!(!Hint::of(4).may_reach(5, 10));
        assert!(Hint::of(5).may_reach(5, 10));
        assert!(Hint::of(254).plus(1).may_reach(1, 1_000_000), "255 is so much or more");
    }

    proptest! {
        /// Counters of every width are exact below the threshold, against a plain map.
        #[test]
        fn counts_are_exact_below_the_threshold(
            threshold in prop_oneof![1u32..300, 65_000u32..66_000, 70_000u32..71_000],
            adds in proptest::collection::vec((0u32..4, 0usize..5, 1u32..40_000), 0..60),
        ) {
            let mut panes = Panes::new(PaneLayout::new(5, threshold), 3);
            let mut counts = BTreeMap::<u32, [u64; 5]>::new();
            for (n, bucket, add) in adds {
                panes.entry(&key(n), true).expect("created").0.add(bucket, add);
                counts.entry(n).or_default()[bucket] += u64::from(add);
            }
            let capped = |count: u64| count.min(u64::from(threshold));
            for (n, counts) in counts {
                let pane = panes.get(&key(n)).expect("stored");
                prop_assert_eq!(capped(pane.count().into()), capped(counts.iter().sum()));
                let exact = pane.counts().zip(counts).all(|(is, was)| capped(is.into()) == capped(was));
                prop_assert!(exact);
            }
        }
    }
}
