use super::*;

const GRID: Grid = Grid { window_ms: 30, buckets: 3 };

/// Judges late occurrences at `late` among `times`, knowing `margin` windows around them; four are an incident.
fn judge(late: &[i64], times: &[i64], memory: i64, margin: i64) -> Option<Judged> {
    judge_above(4, late, times, memory, margin)
}

fn judge_above(threshold: u32, late: &[i64], times: &[i64], memory: i64, margin: i64) -> Option<Judged> {
    let window = |ts: &i64| EventTime(ts.div_euclid(30) * 30);
    let late: BTreeSet<_> = late.iter().map(window).collect();
    let spans = spans(&late, GRID, EventTime(memory), margin);
    let mut counts = BTreeMap::new();
    for ts in times.iter().filter(|ts| spans.iter().any(|(from, until)| (from.0..until.0).contains(ts))) {
        *counts.entry(EventTime(ts.div_euclid(10) * 10)).or_insert(0) += 1;
    }
    Stretch { grid: GRID, late: &late, spans: &spans, counts, memory: EventTime(memory) }
        .judge(|_| Terms { threshold, straddle: true })
}

fn windows(judged: &Judged) -> Vec<(i64, Verdict)> {
    judged.windows.iter().map(|window| (window.start.0, window.verdict)).collect()
}

#[test]
fn w8_a_late_occurrence_makes_its_window_due() {
    let judged = judge(&[5], &[1, 2, 3, 5], 900, 2).expect("nothing else depends on it");
    assert_eq!(windows(&judged), [(0, Verdict::Own)]);
    assert_eq!(judged.windows[0].count, 4);
    assert_eq!(judged.before_memory, None, "memory begins far to the right");
}

#[test]
fn q43_the_window_to_its_right_is_judged_as_well() {
    let judged = judge(&[29], &[28, 29, 31, 32], 900, 2).expect("clear");
    assert_eq!(windows(&judged), [(30, Verdict::Bridge)]);
}

#[test]
fn q40_a_chain_is_judged_to_its_end_or_asked_for_wider() {
    // As in scenario O28: an incident in 0 blocks 30, which frees 60, which blocks 90. The threshold is ten.
    let of = |counts: &[(i64, usize)]| counts.iter().flat_map(|(ts, n)| vec![*ts; *n]).collect::<Vec<_>>();
    let late = of(&[(1, 4)]);
    let chain = of(&[(25, 6), (31, 4), (55, 5), (61, 5), (85, 4), (91, 6)]);
    let all: Vec<i64> = late.iter().chain(&chain).copied().collect();
    assert_eq!(judge_above(10, &late, &all, 900, 2), None, "the chain goes on beyond");
    let judged = judge_above(10, &late, &all, 900, 8).expect("all of it");
    let verdicts = [(0, Verdict::Own), (30, Verdict::Blocked), (60, Verdict::Bridge), (90, Verdict::Blocked)];
    assert_eq!(windows(&judged), verdicts);
}

#[test]
fn what_depends_on_the_left_is_asked_for_wider() {
    // The late one lies in 90, which a run over 90 may reach; whether that counts depends on 60, and that on 30.
    let times = [29, 29, 31, 31, 59, 61, 61, 61, 89, 91, 91, 91];
    let narrow = judge(&[91], &times, 900, 1);
    let wide = judge(&[91], &times, 900, 9).expect("clear");
    assert_eq!(narrow, None);
    assert!(!wide.windows.is_empty());
}

#[test]
fn memory_learns_what_lies_before_it() {
    let judged = judge(&[25], &[21, 22, 23, 25], 30, 2).expect("clear");
    assert_eq!(windows(&judged), [(0, Verdict::Own)]);
    assert_eq!(judged.before_memory, Some(Before { is_incident: true, counts: vec![0, 0, 4] }));
    let first = judge(&[31], &[21, 22, 23], 30, 2).expect("clear");
    assert_eq!(first.before_memory, Some(Before { is_incident: false, counts: vec![0, 0, 3] }));
    assert!(first.windows.is_empty());
}

#[test]
fn spans_touch_no_memory_and_join() {
    let late = [0, 30, 300, 900].map(EventTime).into();
    let spans = spans(&late, GRID, EventTime(900), 2);
    let expected = [(-60, 120), (240, 390), (840, 900)];
    assert_eq!(spans, expected.map(|(from, until)| (EventTime(from), EventTime(until))));
}
