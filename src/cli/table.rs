//! Tables for people.

pub(super) use crate::shown_time::shown_time as time;
use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use floodmark_model::EventTime;
use std::fmt;

/// A line under the headings, and no other.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table that fits the terminal.
pub(super) struct Rows(Table);

/// A table with these headings.
pub(super) fn table(headings: &[&str]) -> Rows {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_header(headings);
    Rows(table)
}

impl Rows {
    /// Adds a row, each cell on one line and without control characters: what a record holds must not move the cursor.
    pub(super) fn add_row(&mut self, cells: impl IntoIterator<Item: AsRef<str>>) {
        self.0.add_row(cells.into_iter().map(|cell| one_line(cell.as_ref(), usize::MAX)));
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The time of day, to the millisecond.
pub(super) fn clock(time: EventTime) -> String {
    jiff::Timestamp::from_millisecond(time.0)
        .map_or_else(|_| format!("{} ms", time.0), |stamp| stamp.strftime("%H:%M:%S%.3f").to_string())
}

/// Text on one line, cut to a width, without control characters: what a message holds must not move the cursor.
pub(super) fn one_line(text: &str, width: usize) -> String {
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut line: String = clean.clone().take(width).collect();
    if clean.count() > width {
        line.pop();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_on_its_line() {
        assert_eq!(one_line("a\nb\u{1b}[31m", 20), "a b [31m");
        assert_eq!(one_line("abcdef", 4), "abc…");
        let mut rows = table(&["tenant"]);
        rows.add_row(["a\n\u{1b}[2Jb".to_owned()]);
        assert!(rows.to_string().contains("a  [2Jb"), "{rows}");
        assert_eq!(time(EventTime(0)), "1970-01-01T00:00:00Z");
    }
}
