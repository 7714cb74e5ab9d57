use super::*;
use crate::message::TenantId;
use crate::state::rule_windows::WINDOW_PANES;
use floodmark_model::{Fingerprint, Rule};

const WINDOW: i64 = 300_000;

fn settings(rule: &Rule) -> JudgeSettings {
    JudgeSettings {
        rules: vec![rule.into()],
        max_panes: 100,
        max_fingerprints: 1_000,
        seed: 1,
        worker: 0,
        peers: 1,
        start: None,
        closed: None,
    }
}

fn judge(max_panes: usize) -> Judge {
    Judge::new(&JudgeSettings { max_panes, ..settings(&Rule::default()) })
}

const STORED: EventKind = EventKind::Stored { verdict: Verdict::Own, detection: Detection::Window };

/// The rows of what is due.
fn rows(due: Due) -> Vec<JudgedRow> {
    match due {
        Due::Rows(rows) => rows,
        Due::Mark { .. } | Due::Crowd { .. } => Vec::new(),
    }
}

fn event(kind: EventKind, fingerprint: u128, ts: i64, n: u32) -> Event {
    Event {
        fingerprint: Fingerprint::from_bits(fingerprint),
        ts: EventTime(ts),
        tenant: TenantId(0),
        n,
        rule: RuleIndex(0),
        kind,
    }
}

/// Applies occurrences of one fingerprint, once all is loaded; gives the windows that became due.
fn occur(judge: &mut Judge, fingerprint: u128, times: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let mut due = Vec::new();
    judge.advance(None, 0, &mut |_| ());
    for ts in times {
        let event = event(EventKind::Occurrence, fingerprint, ts, 1);
        judge.apply(&event, 0, &mut |new| due.extend(rows(new).iter().map(|row| row.key.window_start.0)));
    }
    due
}

fn advance(judge: &mut Judge, watermark: i64, epoch: u64) -> Vec<JudgedRow> {
    let mut due = Vec::new();
    judge.advance(Some(EventTime(watermark)), epoch, &mut |new| due.extend(rows(new)));
    due
}

fn released(judge: &mut Judge, acknowledged: u64) -> Vec<Closing> {
    let mut sent = Vec::new();
    judge.release(|epoch| epoch <= acknowledged, &mut |_| (), &mut |closing| sent.push(closing));
    sent.retain(|closing| !matches!(closing, Closing::After { .. }));
    sent
}

#[test]
fn w5_w6_the_nth_occurrence_makes_it_due_at_once_and_once() {
    let mut judge = judge(100);
    assert!(occur(&mut judge, 1, 0..9).is_empty());
    assert_eq!(occur(&mut judge, 1, [9]), [0]);
    assert!(occur(&mut judge, 1, 10..500).is_empty());
}

#[test]
fn w13_a_time_at_the_end_counts_in_the_next_window() {
    let mut judge = judge(100);
    assert!(occur(&mut judge, 1, (0..9).chain([WINDOW])).is_empty());
    assert_eq!(occur(&mut judge, 1, WINDOW..WINDOW + 9), [WINDOW]);
}

#[test]
fn closing_waits_for_the_acknowledgement_of_all_that_was_seen() {
    let mut judge = judge(100);
    advance(&mut judge, -1, 0);
    released(&mut judge, 0);
    occur(&mut judge, 1, 0..10);
    advance(&mut judge, WINDOW, 7);
    let refresh = released(&mut judge, 0);
    assert!(matches!(refresh[..], [Closing::Refresh(_)]), "{refresh:?}");
    assert!(released(&mut judge, 6).is_empty(), "epoch 7 is not acknowledged");
    let closings = released(&mut judge, 7);
    assert!(
        matches!(closings[..], [Closing::Close(key), Closing::ClosedTo { time: EventTime(WINDOW), .. }]
            if key.window_start == EventTime(0)),
        "{closings:?}"
    );
}

#[test]
fn w12_q47_panes_are_freed_when_the_window_after_has_closed() {
    let mut judge = judge(100);
    occur(&mut judge, 1, [0, WINDOW, 2 * WINDOW]);
    advance(&mut judge, WINDOW, 1);
    released(&mut judge, 1);
    let figures = judge.figures();
    assert_eq!((figures.open_panes, figures.retained_panes), (2, 1));
    advance(&mut judge, 2 * WINDOW, 2);
    assert_eq!(judge.figures().retained_panes, 2, "not before the closing is released");
    released(&mut judge, 2);
    assert_eq!((judge.figures().open_panes, judge.figures().retained_panes), (1, 1));
    advance(&mut judge, 4 * WINDOW, 3);
    released(&mut judge, 3);
    assert_eq!(judge.figures().bytes, 0);
}

#[test]
fn w12_beyond_max_panes_a_window_is_swept_and_nothing_is_silent() {
    let mut judge = judge(2 + WINDOW_PANES);
    for fingerprint in 0..5 {
        occur(&mut judge, fingerprint, 0..10);
    }
    assert_eq!(judge.figures().open_panes, 2);
    assert_eq!(judge.figures().refused, 30);
    advance(&mut judge, WINDOW, 1);
    let is_refresh = |closing: &Closing| matches!(closing, Closing::Refresh(_));
    assert!(released(&mut judge, 1).iter().all(is_refresh), "the window has to be looked through first");
    let question = judge.ask(|epoch| epoch <= 1);
    assert_eq!(question, Some(Question::Window { rule: RuleIndex(0), window_start: EventTime(0) }));
    occur(&mut judge, 9, [WINDOW]);
    assert_eq!(judge.figures().open_panes, 1, "closed windows make room");
}

#[test]
fn t7_late_is_what_arrives_for_a_closed_window() {
    let mut judge = judge(100);
    occur(&mut judge, 1, 0..9);
    advance(&mut judge, WINDOW - 1, 1);
    assert!(occur(&mut judge, 2, [5]).is_empty());
    assert_eq!(judge.figures().late, 0);
    advance(&mut judge, WINDOW, 1);
    released(&mut judge, 1);
    assert_eq!(occur(&mut judge, 1, [9]), [0], "own of a retained window is emitted at once");
    assert_eq!(judge.figures().late, 1);
    assert!(matches!(released(&mut judge, 1)[..], [Closing::Close(_)]), "and its total is read again");
    judge.ask(|_| true).expect("the window before it is not known");
    judge.answer(Answer::Keys(vec![Vec::new()]), &mut |_| ());
    advance(&mut judge, 5 * WINDOW, 2);
    released(&mut judge, 2);
    assert!(occur(&mut judge, 1, 0..20).is_empty(), "the store has to be asked");
    assert_eq!(judge.figures().late, 21);
    assert_eq!(judge.figures().open_panes + judge.figures().retained_panes, 0, "no pane for a window that is gone");
}

#[test]
fn a_start_judges_what_it_has_loaded_and_emits_the_difference() {
    let mut judge = judge(100);
    let mut none = |due: Due| panic!("not before all is loaded: {due:?}");
    for fingerprint in [1, 2] {
        judge.apply(&event(EventKind::Loaded, fingerprint, 0, 6), 0, &mut none);
        judge.apply(&event(EventKind::Loaded, fingerprint, 30_000, 4), 0, &mut none);
    }
    judge.apply(&event(STORED, 1, 0, 0), 0, &mut none);
    judge.apply(&event(STORED, 3, 0, 0), 0, &mut none);
    let due = advance(&mut judge, 1, 0);
    let fingerprints: Vec<_> = due.iter().map(|due| due.key.pane.fingerprint.bits()).collect();
    assert_eq!(fingerprints, [2], "1 is stored already");
    assert_eq!(occur(&mut judge, 3, 0..20), [] as [i64; 0], "stored, though its counts were cut off");
    advance(&mut judge, WINDOW, 1);
    let closed = released(&mut judge, 1).iter().filter(|closing| matches!(closing, Closing::Close(_))).count();
    assert_eq!(closed, 3, "a crash may have cut their closing off");
}

#[test]
fn w7_what_comes_before_all_is_loaded_is_judged_with_it_and_in_one_write() {
    let bridge = EventKind::Stored { verdict: Verdict::Bridge, detection: Detection::Bridge };
    let mut judge = judge(100);
    let mut none = |due: Due| panic!("not before all is loaded: {due:?}");
    // Another source is faster than what is loaded: ten over the second boundary, of which the first one's row is known
    // only later.
    for ts in [2 * WINDOW - 1, 2 * WINDOW] {
        (0..5).for_each(|_| judge.apply(&event(EventKind::Occurrence, 1, ts, 1), 0, &mut none));
    }
    judge.apply(&event(bridge, 1, WINDOW, 0), 0, &mut none);
    assert_eq!(advance(&mut judge, 1, 0), [], "the row that is there stands for it");
    let mut due = Vec::new();
    let mut judge = Judge::new(&settings(&Rule::default()));
    (0..10).for_each(|ts| judge.apply(&event(EventKind::Occurrence, 1, ts, 1), 0, &mut none));
    judge.apply(&event(EventKind::Loaded, 1, WINDOW - 1, 1), 0, &mut none);
    judge.apply(&event(bridge, 1, WINDOW, 0), 0, &mut none);
    judge.advance(None, 0, &mut |new| due.push(new));
    let [Due::Rows(rows)] = &due[..] else { panic!("one write: {due:?}") };
    let verdicts: Vec<_> = rows.iter().map(|row| (row.verdict, row.opened_at.0)).collect();
    assert_eq!(verdicts, [(Verdict::Own, 9), (Verdict::Blocked, WINDOW)]);
}

#[test]
fn what_is_late_before_all_is_loaded_closes_its_window_all_the_same() {
    let start = Some(EventTime(3 * WINDOW));
    let mut judge = Judge::new(&JudgeSettings { start, ..settings(&Rule::default()) });
    judge.apply(&event(EventKind::Occurrence, 2, 2 * WINDOW, 1), 0, &mut |_| ());
    judge.apply(&event(STORED, 1, 2 * WINDOW, 0), 0, &mut |_| ());
    advance(&mut judge, 3 * WINDOW, 1);
    let closings = released(&mut judge, 1);
    let is_wanted = |closing: &&Closing| matches!(closing, Closing::Close(key) if key.pane.fingerprint.bits() == 1);
    assert_eq!(closings.iter().filter(is_wanted).count(), 1);
}

#[test]
fn w9_what_is_late_before_all_is_loaded_has_its_row_closed_again() {
    let closed = Some(EventTime(3 * WINDOW));
    for late in [1, 10] {
        let mut judge = Judge::new(&JudgeSettings { start: closed, closed, ..settings(&Rule::default()) });
        (0..late).for_each(|n| {
            judge.apply(&event(EventKind::Occurrence, 1, 2 * WINDOW + n, 1), 7, &mut |_| ());
        });
        if late == 1 {
            judge.apply(&event(STORED, 1, 2 * WINDOW, 0), 7, &mut |_| ());
        }
        assert_eq!(judge.oldest_epoch(), Some(7));
        let rows = advance(&mut judge, 3 * WINDOW, 8);
        assert!(rows.iter().all(|row| row.detection == Detection::Late), "{rows:?}");
        let closings = released(&mut judge, 8);
        assert!(closings.iter().any(|closing| matches!(closing, Closing::Close(_))), "{late} late: {closings:?}");
    }
}

#[test]
fn what_was_closed_before_the_start_is_not_closed_again() {
    let closed = Some(EventTime(WINDOW));
    let mut judge = Judge::new(&JudgeSettings { start: closed, closed, ..settings(&Rule::default()) });
    judge.apply(&event(STORED, 1, 0, 0), 0, &mut |_| ());
    judge.apply(&event(STORED, 1, WINDOW, 0), 0, &mut |_| ());
    advance(&mut judge, 2 * WINDOW, 1);
    let starts: Vec<_> = released(&mut judge, 1)
        .iter()
        .filter_map(|closing| match closing {
            Closing::Close(key) => Some(key.window_start.0),
            _ => None,
        })
        .collect();
    assert_eq!(starts, [WINDOW]);
}

#[test]
fn times_before_1970_have_windows_too() {
    let mut judge = judge(100);
    assert_eq!(occur(&mut judge, 1, -10..0), [-WINDOW]);
}

#[test]
fn t6_after_a_start_what_lies_before_the_watermark_is_late_from_the_first_record_on() {
    let start = Some(EventTime(3 * WINDOW));
    let mut judge = Judge::new(&JudgeSettings { start, ..settings(&Rule::default()) });
    judge.apply(&event(STORED, 1, 2 * WINDOW, 0), 0, &mut |_| ());
    assert_eq!(occur(&mut judge, 2, 0..9), [] as [i64; 0]);
    assert_eq!(judge.figures().late, 9);
    advance(&mut judge, 3 * WINDOW, 1);
    let closings = released(&mut judge, 1);
    let of = |wanted: fn(&Closing) -> bool| closings.iter().filter(|closing| wanted(closing)).count();
    assert_eq!(of(|closing| matches!(closing, Closing::Close(key) if key.window_start.0 == 2 * WINDOW)), 1);
    assert_eq!(of(|closing| matches!(closing, Closing::ClosedTo { .. })), 1);
}
