//! Cuts history into pages that fit into memory.

use super::question::{DAY_MS, Question, least_common_multiple};
use floodmark_dataflow::state::candidate::Page;
use floodmark_model::EventTime;
use floodmark_sinks::HistoryDay;

/// Stored rows of one page, unless a page of the least length has more.
pub const ROWS_PER_PAGE: u64 = 2_000_000;

/// A page, and how much is stored of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedPage {
    /// What is judged; what is read are its occurrences.
    pub(super) page: Page,
    /// Rows stored, at most.
    pub(super) rows: u64,
}

/// Pages without a gap from where reading begins to the end of the range. None when nothing is stored of it.
///
/// A page ends where a day and a window of every candidate end together; windows that never do so within the range make
/// one page.
pub(super) fn pages(question: &Question, days: &[HistoryDay], rows_max: u64) -> Vec<PlannedPage> {
    let step = question.common_window_ms().and_then(|ms| least_common_multiple(ms, DAY_MS)).unwrap_or(i64::MAX);
    let page = |from: EventTime| Page {
        from,
        until: question.until,
        told_from: question.since,
        today_ms: question.rule.window_ms,
    };
    let mut pages: Vec<PlannedPage> = Vec::new();
    for days in days.chunk_by(|a, b| a.start.0.div_euclid(step) == b.start.0.div_euclid(step)) {
        let start = EventTime(days[0].start.0.div_euclid(step).saturating_mul(step));
        let rows = days.iter().map(|day| day.rows).sum();
        match pages.last_mut() {
            Some(last) if last.rows + rows <= rows_max => last.rows += rows,
            Some(last) => {
                last.page.until = start;
                pages.push(PlannedPage { page: page(start), rows });
            }
            None => pages.push(PlannedPage { page: page(question.read_from()), rows }),
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::question::Choices;
    use super::*;
    use floodmark_model::Rule;

    const MINUTE: i64 = 60_000;

    /// From day 10 to day 30.
    fn planned(windows_ms: &[i64], rows_of_days: &[(i64, u64)]) -> Vec<(i64, i64, u64)> {
        let choices = Choices { windows_ms: windows_ms.to_vec(), straddles: vec![false], ..Choices::default() };
        let (since, until) = (EventTime(10 * DAY_MS), EventTime(30 * DAY_MS));
        let question = Question::new(Rule::default(), &choices, since, until, None).unwrap();
        let day = |&(day, rows): &(i64, u64)| HistoryDay {
            start: EventTime(day * DAY_MS),
            rows,
            first_ts: EventTime(day * DAY_MS),
            last_ts: EventTime(day * DAY_MS),
        };
        let days: Vec<_> = rows_of_days.iter().map(day).collect();
        pages(&question, &days, 100)
            .iter()
            .map(|planned| (planned.page.from.0, planned.page.until.0, planned.rows))
            .collect()
    }

    #[test]
    fn days_are_put_together_until_they_are_too_many() {
        let rows = [(10, 40), (11, 50), (13, 20), (14, 500), (20, 1)];
        let (from, end) = (10 * DAY_MS - 20 * MINUTE, 30 * DAY_MS);
        let expected = [
            (from, 13 * DAY_MS, 90),
            (13 * DAY_MS, 14 * DAY_MS, 20),
            (14 * DAY_MS, 20 * DAY_MS, 500),
            (20 * DAY_MS, end, 1),
        ];
        assert_eq!(planned(&[MINUTE], &rows), expected);
        assert_eq!(planned(&[MINUTE], &rows[..2]), [(from, end, 90)]);
        assert_eq!(planned(&[MINUTE], &[]), []);
    }

    #[test]
    fn pages_end_where_the_windows_of_all_end() {
        let rows: Vec<_> = (10..30).map(|day| (day, 60)).collect();
        let pages = planned(&[7 * MINUTE], &rows);
        let ends: Vec<_> = pages.iter().map(|(_, until, _)| until / DAY_MS).collect();
        assert_eq!(ends, [14, 21, 28, 30], "weeks");
        // 366 days and 365 days end together once in 366 years.
        assert_eq!(planned(&[366 * DAY_MS, 365 * DAY_MS], &rows).len(), 1);
    }
}
