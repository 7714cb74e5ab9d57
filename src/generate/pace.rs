//! When lines come. Times and lengths are microseconds from the start of the flood.

use super::random::Random;
use super::stories::Story;

pub(super) const SECOND_US: i64 = 1_000_000;

/// Noise of one bug comes in small groups, and is silent for at least this long between two of them: as long as the
/// longest window that is common, so that no window sees two groups.
pub(super) const NOISE_PAUSE_US: i64 = 300 * SECOND_US;

/// The least and the most lines of a group of noise: below the default threshold of ten.
const NOISE_GROUP: (u64, u64) = (2, 7);

/// How lines follow each other.
#[derive(Clone, Debug)]
pub(super) enum Pace {
    /// The same rate for ever.
    Steady {
        /// Lines a second.
        per_second: f64,
    },
    /// Groups of fewer than ten, far apart.
    Noise {
        /// Lines that are still to come in this group.
        left: u64,
    },
    /// A single line.
    Once,
    /// Onset, course and end.
    Burst(Burst),
}

impl Pace {
    /// Noise that begins with a group.
    pub(super) fn noise(random: &mut Random) -> Self {
        Self::Noise { left: random.between(NOISE_GROUP.0, NOISE_GROUP.1) - 1 }
    }

    /// The time of the line after the one at `now_us`; `None` when that was the last.
    pub(super) fn next_us(&mut self, now_us: i64, random: &mut Random) -> Option<i64> {
        match self {
            Self::Steady { per_second } => Some(now_us.saturating_add(gap_us(*per_second, random))),
            Self::Noise { left: left @ 0 } => {
                *left = random.between(NOISE_GROUP.0, NOISE_GROUP.1) - 1;
                Some(now_us.saturating_add(NOISE_PAUSE_US + random.up_to(NOISE_PAUSE_US / 4)))
            }
            Self::Noise { left } => {
                *left -= 1;
                Some(now_us.saturating_add(SECOND_US / 4 + random.up_to(4 * SECOND_US)))
            }
            Self::Once => None,
            Self::Burst(burst) => burst.next_us(now_us, random),
        }
    }
}

/// A random time whose mean is that between two lines.
fn gap_us(per_second: f64, random: &mut Random) -> i64 {
    (2.0 * random.fraction() * SECOND_US as f64 / per_second) as i64
}

/// This many thousandths of a span.
pub(super) fn share(span_us: i64, permille: i64) -> i64 {
    (i128::from(span_us) * i128::from(permille) / 1_000) as i64
}

/// How a burst runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Nearly full at once, then dying away: what a deploy breaks and its rollback mends.
    Spike,
    /// Climbs, stays and falls.
    Plateau,
    /// Three crests, the second the highest: what fails, seems to recover, and fails again.
    Waves,
    /// The same low rate throughout.
    Smoulder,
}

impl Shape {
    /// The share of the peak's rate when `progress` (0 to 1) of the burst has passed.
    pub(super) fn intensity(self, progress: f64) -> f64 {
        let left = 1.0 - progress;
        match self {
            Self::Spike => (progress / 0.05).min(left * left * left / (0.95 * 0.95 * 0.95)),
            Self::Plateau => (progress / 0.15).min(left / 0.25).min(1.0),
            Self::Waves => {
                let wave = (progress * 3.0) as usize;
                let in_wave = progress * 3.0 - wave as f64;
                [0.6, 1.0, 0.4][wave.min(2)] * 4.0 * in_wave * (1.0 - in_wave)
            }
            Self::Smoulder => 1.0,
        }
    }
}

/// One burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Its first line.
    pub(super) from_us: i64,
    /// Its end, which is not in it.
    pub(super) until_us: i64,
    peak_per_second: f64,
    shape: Shape,
}

impl Burst {
    /// The burst that a story makes in a span.
    pub(super) fn new(story: &Story, span_us: i64) -> Self {
        Self {
            from_us: share(span_us, story.onset_permille),
            until_us: share(span_us, story.onset_permille + story.length_permille),
            peak_per_second: story.peak_per_second,
            shape: story.shape,
        }
    }

    /// Thinning (Lewis and Shedler, 1979): lines at the peak's rate, of which the course of the burst lets some pass.
    fn next_us(&self, now_us: i64, random: &mut Random) -> Option<i64> {
        let length_us = (self.until_us - self.from_us) as f64;
        let mut next_us = now_us;
        loop {
            next_us = next_us.saturating_add(gap_us(self.peak_per_second, random));
            if next_us >= self.until_us {
                return None;
            }
            let progress = (next_us - self.from_us) as f64 / length_us;
            if random.fraction() < self.shape.intensity(progress) {
                return Some(next_us);
            }
        }
    }
}
