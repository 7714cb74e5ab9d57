//! Backfilled records on their way: gathered until they are worth an insert, and handed on sorted by day.
//!
//! The occurrence store keeps each day in a partition of its own, and every insert makes a part in each that it touches.
//! Records of years that come shuffled would make a part each; gathered and sorted they make one for each day and
//! gathering.
//!
//! # Promises
//!
//! - What is held is bounded in bytes and records.
//! - The next offset of a partition follows when everything below it was handed on.

use std::collections::{BTreeMap, BTreeSet};

/// The most records of one gathering.
const RECORDS_MAX: usize = 200_000;
/// What each record costs beside its value, in bytes.
const OVERHEAD_BYTES: usize = 160;
/// Days that one insert takes in any case.
const DAYS_FEW: usize = 50;
/// How long records of few days are gathered, in milliseconds.
const FEW_DAYS_MS: i64 = 200;
/// How long records of many days are.
const MANY_DAYS_MS: i64 = 5_000;

/// Gathers records of one reading thread.
pub(super) struct Gathered<T> {
    items: Vec<(i32, T)>,
    bytes: usize,
    bytes_max: usize,
    since_ms: Option<i64>,
    days: BTreeSet<i32>,
    /// By partition: below it all is in `items` or was handed on.
    next_offsets: BTreeMap<i32, i64>,
    /// What is being handed on: nothing is gathered meanwhile.
    handing_on: Option<std::vec::IntoIter<(i32, T)>>,
}

/// What is handed on next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    /// A record.
    Record(T),
    /// All records: the next offset of each partition that has moved.
    End(BTreeMap<i32, i64>),
}

impl<T> Gathered<T> {
    /// Gathers up to this many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let (items, days, next_offsets) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        Self { items, bytes: 0, bytes_max, since_ms: None, days, next_offsets, handing_on: None }
    }

    /// Whether nothing waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.next_offsets.is_empty()
    }

    /// Takes in a record of `bytes` that belongs to `day`, when `now_ms` is the clock.
    pub(super) fn push(&mut self, day: i32, bytes: usize, item: T, now_ms: i64) {
        self.bytes += bytes + OVERHEAD_BYTES;
        self.days.insert(day);
        self.items.push((day, item));
        self.since_ms.get_or_insert(now_ms);
    }

    /// A partition is read up to here.
    pub(super) fn reached(&mut self, partition: i32, next_offset: i64, now_ms: i64) {
        let reached = self.next_offsets.entry(partition).or_insert(next_offset);
        *reached = (*reached).max(next_offset);
        self.since_ms.get_or_insert(now_ms);
    }

    /// Whether more may be taken in.
    pub(super) fn has_room(&self) -> bool {
        self.handing_on.is_none() && self.bytes < self.bytes_max && self.items.len() < RECORDS_MAX
    }

    /// Whether it is time to hand on what is here. `is_quiet`: there was nothing more to read just now.
    pub(super) fn is_due(&self, is_quiet: bool, now_ms: i64) -> bool {
        let Some(since_ms) = self.since_ms else { return false };
        let is_old = |ms: i64| now_ms - since_ms >= ms;
        let has_waited = if self.days.len() <= DAYS_FEW { is_quiet && is_old(FEW_DAYS_MS) } else { false };
        self.handing_on.is_some() || !self.has_room() || has_waited || is_old(MANY_DAYS_MS)
    }

    /// Hands on the next record, in the order of days, or says that it was the last one.
    pub(super) fn next(&mut self) -> Next<T> {
        let handing_on = self.handing_on.get_or_insert_with(|| {
            let mut items = std::mem::take(&mut self.items);
            items.sort_by_key(|(day, _)| *day);
            items.into_iter()
        });
        if let Some((_, item)) = handing_on.next() {
            return Next::Record(item);
        }
        self.handing_on = None;
        (self.bytes, self.since_ms) = (0, None);
        self.days.clear();
        Next::End(std::mem::take(&mut self.next_offsets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(gathered: &mut Gathered<&'static str>) -> (Vec<&'static str>, Vec<(i32, i64)>) {
        let mut items = Vec::new();
        loop {
            match gathered.next() {
                Next::Record(item) => items.push(item),
                Next::End(next_offsets) => return (items, next_offsets.into_iter().collect()),
            }
        }
    }

    #[test]
    fn records_leave_by_day_and_their_offsets_after_them() {
        let mut gathered = Gathered::new(1 << 20);
        for (offset, (day, name)) in (10..).zip([(3, "c"), (1, "a"), (3, "d"), (2, "b")]) {
            gathered.push(day, 1, name, 0);
            gathered.reached(0, offset + 1, 0);
        }
        gathered.reached(5, 7, 0);
        assert_eq!(drained(&mut gathered), (vec!["a", "b", "c", "d"], vec![(0, 14), (5, 7)]));
        assert!(gathered.is_empty());
        assert!(!gathered.is_due(true, i64::MAX), "nothing waits");
    }

    #[test]
    fn many_days_wait_longer_for_company_than_few() {
        let mut gathered = Gathered::new(1 << 20);
        gathered.push(0, 1, "x", 1_000);
        assert!(!gathered.is_due(true, 1_000 + FEW_DAYS_MS - 1));
        assert!(gathered.is_due(true, 1_000 + FEW_DAYS_MS));
        assert!(!gathered.is_due(false, 1_000 + FEW_DAYS_MS), "more is coming");
        (0..100).for_each(|day| gathered.push(day, 1, "x", 1_000));
        assert!(!gathered.is_due(true, 1_000 + MANY_DAYS_MS - 1));
        assert!(gathered.is_due(false, 1_000 + MANY_DAYS_MS));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut gathered = Gathered::new(10 * (90 + OVERHEAD_BYTES));
        let mut pushed = 0;
        while gathered.has_room() {
            gathered.push(0, 90, "x", 0);
            pushed += 1;
        }
        assert_eq!(pushed, 10);
        assert!(gathered.is_due(false, 0), "a full one leaves at once");
        gathered.next();
        assert!(!gathered.has_room(), "nothing comes in between");
        drained(&mut gathered);
        assert!(gathered.has_room());
    }
}
