//! The merged watermark: the minimum over the sources that are not idle (T-3, T-4, T-6).

use crate::message::{Control, SourceWatermark};
use floodmark_model::EventTime;

/// What one worker knows of all sources.
///
/// # Invariants
///
/// - It never goes back.
/// - Nothing advances before every source's first control record.
/// - When every source is idle it advances as the clock does, from where it stood: never a jump to today.
/// - When every source is finished it stands at the greatest of their watermarks, as if the last one had been read
///   alone: the end of the input is not the end of time (T-5).
pub struct MergedWatermark {
    sources: Vec<Option<Said>>,
    merged: Option<EventTime>,
    /// The least clock over the sources when all were found idle last; `None` when they were not.
    idle_clock_ms: Option<i64>,
}

#[derive(Clone, Copy)]
struct Said {
    watermark: SourceWatermark,
    clock_ms: i64,
    /// A watermark that it gave since the last [`MergedWatermark::advance`]: it counts also when the source was idle
    /// or finished before anybody asked, so that every worker comes to the same.
    unmerged: Option<EventTime>,
}

impl MergedWatermark {
    /// For this many sources; `start` is T-6's beginning.
    #[must_use]
    pub fn new(sources: usize, start: Option<EventTime>) -> Self {
        Self { sources: vec![None; sources], merged: start, idle_clock_ms: None }
    }

    /// Takes in what a source says.
    pub fn update(&mut self, control: &Control) {
        let place = &mut self.sources[control.source as usize];
        let unmerged = match control.watermark {
            SourceWatermark::At(time) => Some(time),
            _ => place.and_then(|before| before.unmerged),
        };
        *place = Some(Said { watermark: control.watermark, clock_ms: control.clock_ms, unmerged });
    }

    /// Whether every source has spoken.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.sources.iter().all(Option::is_some)
    }

    /// The merged watermark; `None` before any is known. To be asked once the input is drained.
    pub fn advance(&mut self) -> Option<EventTime> {
        if !self.is_live() {
            return self.merged;
        }
        let holds = |source: &Said| matches!(source.watermark, SourceWatermark::Holding | SourceWatermark::At(_));
        let is_held = self.said().any(holds);
        let mut unmerged = None;
        // Until there is any, what sources gave is where it begins once nobody holds it.
        if !is_held || self.merged.max(self.least()).is_some() {
            unmerged = self.sources.iter_mut().flatten().filter_map(|source| source.unmerged.take()).min();
        }
        if is_held {
            self.idle_clock_ms = None;
            self.merged = self.merged.max(self.least());
            return self.merged;
        }
        self.merged = self.merged.max(unmerged);
        match self.greatest_finished() {
            None => self.pass_time(),
            finished => {
                self.idle_clock_ms = None;
                self.merged = self.merged.max(finished);
            }
        }
        self.merged
    }

    fn said(&self) -> impl Iterator<Item = &Said> {
        self.sources.iter().flatten()
    }

    /// The least over the sources that are neither idle nor finished; `None` while one of them holds.
    fn least(&self) -> Option<EventTime> {
        let least = self.said().filter_map(|source| match source.watermark {
            SourceWatermark::Idle | SourceWatermark::Finished(_) => None,
            SourceWatermark::Holding => Some(EventTime::MIN),
            SourceWatermark::At(time) => Some(time),
        });
        least.min().filter(|least| *least > EventTime::MIN)
    }

    fn greatest_finished(&self) -> Option<EventTime> {
        let finished = self.said().filter_map(|source| match source.watermark {
            SourceWatermark::Finished(watermark) => Some(watermark),
            _ => None,
        });
        finished.max()
    }

    /// All are idle: moves as the slowest clock has since the last call.
    fn pass_time(&mut self) {
        let clock_ms = self.said().map(|source| source.clock_ms).min().unwrap_or(0);
        let passed_ms = self.idle_clock_ms.map_or(0, |before| (clock_ms - before).max(0));
        self.idle_clock_ms = Some(self.idle_clock_ms.map_or(clock_ms, |before| before.max(clock_ms)));
        self.merged = self.merged.map(|merged| merged.plus(passed_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::SourceWatermark::{At, Finished, Holding, Idle};
    use super::*;

    fn say(merged: &mut MergedWatermark, source: u32, watermark: SourceWatermark, clock_ms: i64) -> Option<i64> {
        merged.update(&Control { source, to: 0, watermark, clock_ms });
        merged.advance().map(|time| time.0)
    }

    #[test]
    fn t3_it_is_the_minimum_and_never_goes_back() {
        let mut merged = MergedWatermark::new(2, None);
        say(&mut merged, 0, At(EventTime(500)), 0);
        assert_eq!(say(&mut merged, 1, At(EventTime(300)), 0), Some(300));
        assert_eq!(say(&mut merged, 1, At(EventTime(900)), 0), Some(500));
        assert_eq!(say(&mut merged, 0, At(EventTime(100)), 0), Some(500));
    }

    #[test]
    fn nothing_advances_before_every_source_has_spoken() {
        let mut merged = MergedWatermark::new(2, Some(EventTime(10)));
        assert_eq!(say(&mut merged, 0, At(EventTime(500)), 0), Some(10));
        assert!(!merged.is_live());
        assert_eq!(say(&mut merged, 1, Idle, 0), Some(500));
    }

    #[test]
    fn t4_a_partition_without_a_first_record_holds() {
        let mut merged = MergedWatermark::new(2, Some(EventTime(10)));
        say(&mut merged, 0, At(EventTime(500)), 0);
        assert_eq!(say(&mut merged, 1, Holding, 0), Some(10));
        assert_eq!(say(&mut merged, 1, At(EventTime(400)), 0), Some(400));
    }

    #[test]
    fn t4_an_idle_source_does_not_hold_the_others() {
        let mut merged = MergedWatermark::new(2, None);
        say(&mut merged, 0, Idle, 0);
        assert_eq!(say(&mut merged, 1, At(EventTime(300)), 0), Some(300));
    }

    #[test]
    fn t4_when_all_are_idle_it_moves_as_the_clock_does_from_where_it_stood() {
        let mut merged = MergedWatermark::new(2, None);
        say(&mut merged, 0, At(EventTime(500)), 1_000_000);
        say(&mut merged, 1, At(EventTime(500)), 1_000_000);
        say(&mut merged, 0, Idle, 1_000_000);
        assert_eq!(say(&mut merged, 1, Idle, 1_000_100), Some(500), "no jump to today");
        say(&mut merged, 0, Idle, 1_000_200);
        assert_eq!(say(&mut merged, 1, Idle, 1_000_200), Some(700));
        assert_eq!(say(&mut merged, 1, Idle, 1_000_250), Some(700), "the slower clock decides");
        assert_eq!(say(&mut merged, 0, At(EventTime(650)), 1_000_300), Some(700), "and it never goes back");
    }

    #[test]
    fn t4_a_watermark_counts_although_its_source_is_idle_when_it_is_asked_for() {
        let mut merged = MergedWatermark::new(2, None);
        say(&mut merged, 0, At(EventTime(500)), 0);
        say(&mut merged, 0, Idle, 0);
        assert_eq!(say(&mut merged, 1, Idle, 0), Some(500), "nobody was live before");
        merged.update(&Control { source: 0, to: 0, watermark: At(EventTime(700)), clock_ms: 0 });
        assert_eq!(say(&mut merged, 0, Idle, 0), Some(700), "between two looks");
        say(&mut merged, 1, At(EventTime(800)), 0);
        merged.update(&Control { source: 0, to: 0, watermark: At(EventTime(900)), clock_ms: 0 });
        assert_eq!(say(&mut merged, 0, Idle, 0), Some(800), "what is idle lifts nothing while another one holds");
        assert_eq!(say(&mut merged, 1, Idle, 0), Some(800), "nor later");
    }

    #[test]
    fn t4_all_idle_without_any_watermark_stays_without() {
        let mut merged = MergedWatermark::new(1, None);
        assert_eq!(say(&mut merged, 0, Idle, 0), None);
        assert_eq!(say(&mut merged, 0, Idle, 5_000), None);
    }

    #[test]
    fn t4_a_partition_that_never_had_a_time_does_not_keep_it_from_beginning() {
        let mut merged = MergedWatermark::new(2, None);
        say(&mut merged, 0, At(EventTime(500)), 0);
        assert_eq!(say(&mut merged, 1, Holding, 0), None);
        assert_eq!(say(&mut merged, 0, Idle, 0), None);
        assert_eq!(say(&mut merged, 1, Idle, 0), Some(500), "it holds nothing but what cannot be read");
    }

    #[test]
    fn q53_when_all_is_read_it_stands_at_the_greatest_and_ignores_the_clock() {
        let mut merged = MergedWatermark::new(3, None);
        say(&mut merged, 0, Idle, 0);
        say(&mut merged, 1, Finished(EventTime(900)), 0);
        assert_eq!(
            say(&mut merged, 2, At(EventTime(300)), 0),
            Some(300),
            "what is finished holds nothing, and lifts nothing"
        );
        assert_eq!(say(&mut merged, 2, Finished(EventTime(400)), 0), Some(900));
        assert_eq!(say(&mut merged, 0, Idle, 5_000), Some(900));
        assert_eq!(say(&mut merged, 2, Finished(EventTime(400)), 5_000), Some(900));
    }
}
