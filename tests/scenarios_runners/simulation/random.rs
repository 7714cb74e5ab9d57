//! Randomness from a seed.

/// splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Another seed.
    pub(super) fn seed(&mut self) -> u64 {
        self.bits()
    }

    /// A number from `first` to `last`.
    pub(super) fn between(&mut self, first: i64, last: i64) -> i64 {
        let numbers = (last - first + 1).max(1) as u128;
        first + ((u128::from(self.bits()) * numbers) >> 64) as i64
    }

    /// A number from 0 to below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.between(0, end as i64 - 1) as usize
    }

    /// Whether something with this chance happens.
    pub(super) fn percent(&mut self, chance: i64) -> bool {
        self.between(0, 99) < chance
    }

    /// One of several; there is at least one.
    pub(super) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// The index of one of several, as often as its weight says.
    pub(super) fn weighted(&mut self, weights: &[i64]) -> usize {
        let mut left = self.between(0, weights.iter().sum::<i64>() - 1);
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0
        });
        chosen.expect("one of them has a weight")
    }
}
