//! The panes of one window: found by key, and without a long stop to grow.
//!
//! # Shape
//!
//! Panes lie in one slab, and from 4,096 panes on in one of 64, chosen by hash: chunks of 4,096 panes under an
//! open-addressed table of 32-bit entries (eight bits of hash, 24 bits of index), 4.6 to 9.2 bytes a pane. Growing touches
//! one slab's table at a time, and never moves a full chunk.
//!
//! # Invariant
//!
//! - A pane is never removed; the whole window is dropped at once.

use super::pane::{PaneKey, PaneLayout, PaneMut};
use crate::prefetch::prefetch;

const SLABS: usize = 64;
const CHUNK_PANES: usize = 4_096;
/// An entry of a table: index + 1 in the low 24 bits, hash in the high eight; 0 is free.
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const TABLE_MIN: usize = 16;

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
                (slab.append(self.layout, self.seed, hash), true)
            }
            None => return None,
        };
        let mut pane = slab.pane(self.layout, index);
        if is_new {
            pane.set_key(key);
        }
        Some((pane, is_new))
    }

    /// Has the entry at hand with which a search for this hash begins.
    pub fn prefetch_entry(&self, hash: u64) {
        let slab = &self.slabs[self.slab_of(hash)];
        if !slab.table.is_empty() {
            prefetch(&slab.table[hash as usize & (slab.table.len() - 1)]);
        }
    }

    /// Has the pane at hand that a search for this hash looks at first; whether there is one.
    pub fn prefetch_pane(&self, hash: u64) -> bool {
        let slab = &self.slabs[self.slab_of(hash)];
        let index = slab.search(hash, |_| true);
        if let Some(index) = index {
            prefetch(&slab.chunks[index / CHUNK_PANES][index % CHUNK_PANES * self.layout.stride]);
        }
        index.is_some()
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
            let index = self.slabs[place].append(self.layout, self.seed, hash);
            self.slabs[place].pane(self.layout, index).bytes.copy_from_slice(pane.bytes);
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
        self.search(hash, |index| self.holds(layout, index, key))
    }

    /// The first pane with this hash's tag of which `is_it` says so.
    #[inline]
    fn search(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.table.len().checked_sub(1)?;
        let mut place = hash as usize & mask;
        loop {
            let entry = self.table[place];
            if entry == 0 {
                return None;
            }
            let index = (entry & INDEX_MASK) as usize;
            if entry & !INDEX_MASK == tag_of(hash) && is_it(index - 1) {
                return Some(index - 1);
            }
            place = (place + 1) & mask;
        }
    }

    fn holds(&self, layout: PaneLayout, index: usize, key: &PaneKey) -> bool {
        let at = (index % CHUNK_PANES) * layout.stride;
        PaneMut::is_of(&self.chunks[index / CHUNK_PANES][at..at + layout.stride], key)
    }

    /// Appends an empty pane.
    fn append(&mut self, layout: PaneLayout, seed: u64, hash: u64) -> usize {
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
        chunk.resize(chunk.len() + layout.stride, 0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TenantId;
    use floodmark_model::Fingerprint;

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
}
