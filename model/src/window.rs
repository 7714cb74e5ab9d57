//! Windows and buckets: half-open intervals aligned to the epoch (`semantics.md`, section 1).

use crate::EventTime;
use serde::{Deserialize, Serialize};

/// A half-open event-time interval `[start, start + size)`, aligned to 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// First instant inside.
    pub start: EventTime,
    /// Length in milliseconds, positive.
    pub size_ms: i64,
}

impl Window {
    /// The window of length `size_ms` that holds `time`: `floor_div(ts, size) * size`, flooring toward minus
    /// infinity. A time exactly at a window's end belongs to the next window (W-13).
    #[must_use]
    pub fn containing(time: EventTime, size_ms: i64) -> Self {
        debug_assert!(size_ms > 0);
        let start = time.0.div_euclid(size_ms).saturating_mul(size_ms);
        Self { start: EventTime(start), size_ms }
    }

    /// First instant after the window.
    #[must_use]
    pub fn end(self) -> EventTime {
        self.start.plus(self.size_ms)
    }

    /// The window before.
    #[must_use]
    pub fn previous(self) -> Self {
        Self { start: self.start.minus(self.size_ms), size_ms: self.size_ms }
    }

    /// The window after.
    #[must_use]
    pub fn next(self) -> Self {
        Self { start: self.end(), size_ms: self.size_ms }
    }

    /// Whether the window is closed at `watermark` (Q50): its end is not after it.
    #[must_use]
    pub fn is_closed_at(self, watermark: EventTime) -> bool {
        watermark >= self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_floors_toward_minus_infinity() {
        let window = Window::containing(EventTime(-1), 300_000);
        assert_eq!(window.start, EventTime(-300_000));
        assert_eq!(window.end(), EventTime(0));
    }

    #[test]
    fn w13_a_time_at_the_end_belongs_to_the_next_window() {
        let window = Window::containing(EventTime(299_999), 300_000);
        assert_eq!(window.start, EventTime(0));
        assert_eq!(Window::containing(window.end(), 300_000), window.next());
        assert_eq!(window.next().previous(), window);
    }

    #[test]
    fn q50_a_window_is_closed_when_the_watermark_reaches_its_end() {
        let window = Window::containing(EventTime(0), 300_000);
        assert!(!window.is_closed_at(EventTime(299_999)));
        assert!(window.is_closed_at(EventTime(300_000)));
    }
}
