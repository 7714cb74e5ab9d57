//! A date and a time of day, and the instant it names.

use super::Zone;
use crate::EventTime;

/// A date and a time of day without a zone. Its parts are checked by [`Civil::instant`] and [`Civil::instant_in`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    /// 60 is the first second of the next minute (Q31).
    pub(super) second: i64,
    pub(super) millisecond: i64,
}

impl Civil {
    /// The instant at which a clock `offset_seconds` east of UTC shows this; `None` for what is no date or time.
    pub(super) fn instant(self, offset_seconds: i64) -> Option<EventTime> {
        let minutes = (self.days()? * 24 + self.hour) * 60 + self.minute;
        let seconds = minutes * 60 + self.second - offset_seconds;
        Some(EventTime(seconds * 1_000 + self.millisecond))
    }

    /// The instant at which a clock of the zone shows this. A time that a change of the clocks skips counts as if the
    /// clocks had not changed yet; of two instants with the same time the earlier one counts.
    pub(super) fn instant_in(self, zone: &Zone) -> Option<EventTime> {
        if let Ok(offset) = zone.to_fixed_offset() {
            return self.instant(i64::from(offset.seconds()));
        }
        self.days()?;
        let small = |part: i64| i8::try_from(part).ok();
        let minute = jiff::civil::DateTime::new(
            i16::try_from(self.year).ok()?,
            small(self.month)?,
            small(self.day)?,
            small(self.hour)?,
            small(self.minute)?,
            0,
            0,
        )
        .ok()?;
        let minute = zone.to_timestamp(minute).ok()?.as_millisecond();
        Some(EventTime(minute + self.second * 1_000 + self.millisecond))
    }

    /// Days since 1970-01-01 in the Gregorian calendar; `None` when any part is out of its range.
    fn days(self) -> Option<i64> {
        let in_range = (1..=12).contains(&self.month)
            && (1..=days_of_month(self.year, self.month)).contains(&self.day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second);
        if !in_range {
            return None;
        }
        // Years that begin in March end with the leap day, so the days before a month follow one line
        // (Howard Hinnant, "chrono-compatible low-level date algorithms").
        let year = self.year - i64::from(self.month < 3);
        let month_from_march = (self.month + 9) % 12;
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        Some(year * 365 + leap_days + (month_from_march * 153 + 2) / 5 + self.day - 1 - DAYS_TO_1970)
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn civil(year: i64, month: i64, day: i64, hour: i64, minute: i64) -> Civil {
        Civil { year, month, day, hour, minute, second: 0, millisecond: 0 }
    }

    #[test]
    fn what_is_no_date_or_time_has_no_instant() {
        assert!(civil(2024, 2, 29, 0, 0).instant(0).is_some());
        assert!(civil(2000, 2, 29, 0, 0).instant(0).is_some());
        let berlin = Zone::get("Europe/Berlin").unwrap();
        for wrong in [
            civil(2023, 2, 29, 0, 0),
            civil(1900, 2, 29, 0, 0),
            civil(2024, 4, 31, 0, 0),
            civil(2024, 0, 1, 0, 0),
            civil(2024, 13, 1, 0, 0),
            civil(2024, 1, 0, 0, 0),
            civil(2024, 1, 32, 0, 0),
            civil(2024, 1, 1, 24, 0),
            civil(2024, 1, 1, 0, 60),
        ] {
            assert_eq!(wrong.instant(0), None, "{wrong:?}");
            assert_eq!(wrong.instant_in(&berlin), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_zone_decides_and_its_gaps_and_overlaps_have_one_answer() {
        let berlin = Zone::get("Europe/Berlin").unwrap();
        let hours = |civil: Civil| civil.instant_in(&berlin).unwrap().0 / 3_600_000 % 24;
        assert_eq!(hours(civil(2026, 1, 1, 12, 0)), 11);
        assert_eq!(hours(civil(2026, 7, 1, 12, 0)), 10);
        assert_eq!(hours(civil(2026, 3, 29, 2, 0)), 1, "skipped: as 02:00+01:00");
        assert_eq!(hours(civil(2026, 10, 25, 2, 0)), 0, "twice: the earlier, 02:00+02:00");
    }

    proptest! {
        #[test]
        fn agrees_with_a_calendar_library(
            (year, month, day) in (0_i16..10_000, 1_i8..13, 1_i8..32),
            second in 0_i8..60,
            offset in -86_000_i64..86_000,
        ) {
            let [wide_month, wide_day, wide_second] = [month, day, second].map(i64::from);
            let at = Civil { second: wide_second, ..civil(i64::from(year), wide_month, wide_day, 23, 59) };
            let expected = jiff::civil::DateTime::new(year, month, day, 23, 59, second, 0)
                .ok()
                .map(|at| EventTime((Zone::UTC.to_timestamp(at).unwrap().as_second() - offset) * 1_000));
            prop_assert_eq!(at.instant(offset), expected);
        }
    }
}
