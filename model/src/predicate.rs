//! When an incident is due: one pure function over bucket counts, for live, late and replayed data alike (design,
//! decision 4).

/// W-2: `own(w)` holds when `count(w) >= N`. `buckets` are the counts of the window's buckets; they may saturate at
/// N or above without changing the answer.
#[must_use]
pub fn own(buckets: impl IntoIterator<Item = u32>, threshold: u32) -> bool {
    let mut count = 0u32;
    for bucket in buckets {
        count = count.saturating_add(bucket);
        if count >= threshold {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn w2_the_nth_occurrence_makes_it_due() {
        assert!(!own([4, 0, 5], 10));
        assert!(own([4, 1, 5], 10));
        assert!(own([u32::MAX, 5], 10), "saturated buckets do not overflow");
        assert!(!own([], 1));
    }
}
