use crate::fixture::{Database, T0, at_place, block, key};
use floodmark_model::incident::Sample;
use floodmark_model::{EventTime, Fingerprint, Level, Occurrence, Rule};
use floodmark_sinks::{FACTS_MAX, OccurrenceStore, Selection, TotalRow};

const WINDOW_MS: i64 = 300_000;

fn saying(message: impl Into<String>, ts: i64, offset: i64) -> Occurrence<'static> {
    let mut occurrence = at_place(ts, 0, offset);
    occurrence.message = message.into().into();
    occurrence
}

fn sample(message: &str, count: u64) -> Sample {
    Sample { message: message.into(), count }
}

#[tokio::test]
async fn w10_samples_are_the_most_frequent_messages_first() {
    let database = Database::migrated("samples").await;
    let mut records = Vec::new();
    for message in 0..14 {
        for _ in 0..=message {
            records.push(saying(format!("message {message:02}"), T0 + records.len() as i64, records.len() as i64));
        }
    }
    records.push(saying("the next window", T0 + WINDOW_MS, 1_000));
    let block = block(&records);
    database.store.insert(std::slice::from_ref(&block)).await.unwrap();
    database.store.insert(&[block]).await.unwrap();
    let rule = Rule::default();
    let facts = database.store.window_facts(&rule, &[key(&rule, 1, T0)]).await.unwrap().remove(0);
    assert_eq!(facts.total, 105);
    assert_eq!((facts.first_ts, facts.last_ts), (EventTime(T0), EventTime(T0 + 104)));
    let expected: Vec<_> = (4..14).rev().map(|n| sample(&format!("message {n:02}"), n + 1)).collect();
    assert_eq!(facts.samples, expected);
    database.drop().await;
}

#[tokio::test]
async fn samples_show_no_nul_and_end_between_characters() {
    let database = Database::migrated("sample_text").await;
    let long = "🔥".repeat(3_000);
    let records = [
        saying("nul \0 here", T0, 0),
        saying("nul \0 here", T0 + 1, 1),
        saying(long.clone() + "a", T0 + 2, 2),
        saying(long.clone() + "b", T0 + 3, 3),
        saying("", T0 + 4, 4),
    ];
    database.store.insert(&[block(&records)]).await.unwrap();
    let rule = Rule::default();
    let facts = database.store.window_facts(&rule, &[key(&rule, 1, T0)]).await.unwrap().remove(0);
    let cut = "🔥".repeat(1_024);
    assert_eq!(facts.samples, [sample("nul \u{2400} here", 2), sample(&cut, 2), sample("", 1)]);
    database.drop().await;
}

#[tokio::test]
async fn facts_come_in_the_order_of_the_keys_with_zero_for_the_unknown() {
    let database = Database::migrated("facts").await;
    let mut records = Vec::new();
    for (fingerprint, ts) in [(1, T0), (1, T0 + WINDOW_MS), (2, T0), (2, T0 + 1), (3, -1)] {
        let mut occurrence = at_place(ts, 0, records.len() as i64);
        occurrence.fingerprint = Fingerprint::from_bits(fingerprint);
        records.push(occurrence);
    }
    let mut other_tenant = at_place(T0, 0, 50);
    other_tenant.tenant = "acme|".into();
    let mut too_low = at_place(T0, 0, 51);
    too_low.level = Level::Info;
    records.extend([other_tenant, too_low]);
    database.store.insert(&[block(&records)]).await.unwrap();

    let rule = Rule::default();
    let asked = [(2, T0), (9, T0), (3, -1), (1, T0 + WINDOW_MS), (1, T0), (2, T0 + WINDOW_MS)];
    let keys: Vec<_> = asked.iter().map(|(fingerprint, ts)| key(&rule, *fingerprint, *ts)).collect();
    let facts = database.store.window_facts(&rule, &keys).await.unwrap();
    assert!(facts.iter().map(|facts| &facts.key).eq(&keys));
    assert_eq!(facts.iter().map(|facts| facts.total).collect::<Vec<_>>(), [2, 0, 1, 1, 1, 0]);
    assert_eq!(facts[2].first_ts, EventTime(-1));
    assert_eq!(
        (facts[1].first_ts, facts[1].samples.len()),
        (EventTime(T0), 0),
        "an unknown key has its window's start"
    );
    assert!(database.store.window_facts(&rule, &[]).await.unwrap().is_empty());
    database.drop().await;
}

#[tokio::test]
async fn as_many_keys_as_a_call_may_have_fit_with_long_names_and_far_apart() {
    let database = Database::migrated("many_keys").await;
    let rule = Rule::default();
    let (mut records, mut keys) = (Vec::new(), Vec::new());
    for n in 0..FACTS_MAX {
        let ts = T0 + (n as i64 % 40) * 7 * WINDOW_MS;
        let mut occurrence = at_place(ts, 0, n as i64);
        occurrence.tenant = format!("{n:04}{}", "'\\".repeat(120)).into();
        occurrence.fingerprint = Fingerprint::from_bits(u128::MAX - n as u128);
        let mut key = key(&rule, u128::MAX - n as u128, ts);
        key.tenant = (&*occurrence.tenant).into();
        records.push(occurrence);
        keys.push(key);
    }
    database.store.insert(&[block(&records)]).await.unwrap();
    let facts = database.store.window_facts(&rule, &keys).await.unwrap();
    assert_eq!(facts.iter().filter(|facts| facts.total == 1).count(), FACTS_MAX);
    assert!(facts.iter().map(|facts| &facts.key).eq(&keys));
    // Windows so long that their five-minute numbers are too many to list.
    let rule = Rule { window_ms: 30 * 86_400_000, ..rule };
    let keys: Vec<_> = (0..40).map(|n| key(&rule, 1, T0 + n * rule.window_ms)).collect();
    assert!(database.store.window_facts(&rule, &keys).await.unwrap().iter().all(|facts| facts.total == 0));
    database.drop().await;
}

async fn totals(database: &Database, selection: Selection) -> Vec<TotalRow> {
    database.store.totals(&Rule::default(), &selection).await.unwrap()
}

#[tokio::test]
async fn the_views_agree_with_totals() {
    let database = Database::migrated("views").await;
    let mut records = Vec::new();
    for n in 0..500i64 {
        let mut occurrence = at_place((n - 250) * 7_919, (n % 3) as i32, n);
        occurrence.tenant = ["acme", "", "z'"][(n % 3) as usize].into();
        occurrence.fingerprint = Fingerprint::from_bits([1, 255, u128::MAX][(n % 2) as usize]);
        records.push(occurrence);
    }
    for chunk in records.chunks(90) {
        database.store.insert(&[block(chunk)]).await.unwrap();
        database.store.insert(&[block(chunk)]).await.unwrap();
    }
    let ours = totals(&database, Selection::default()).await;
    let mut sorted = ours.iter().map(|row| (&row.tenant, &row.fingerprint, row.window_start)).collect::<Vec<_>>();
    assert_eq!(ours.iter().map(|row| row.total).sum::<u64>(), 500);
    sorted.sort();
    assert!(ours.iter().map(|row| (&row.tenant, &row.fingerprint, row.window_start)).eq(sorted), "sorted");

    for (view, start) in [("totals", "window_start"), ("totals_by_minute", "minute_start")] {
        let sql = format!(
            "SELECT tenant, fingerprint, intDiv(toUnixTimestamp64Milli({start}) + 300000000000, 300000) * 300000 \
             - 300000000000 AS five_minutes, sum(total) FROM {view} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        );
        let rows: Vec<(String, String, i64, u64)> = database.client().query_raw(&sql).fetch_all().await.unwrap();
        let expected: Vec<_> = ours
            .iter()
            .map(|row| (row.tenant.clone(), row.fingerprint.clone(), row.window_start.0, row.total))
            .collect();
        assert_eq!(rows, expected, "{view}");
    }
    database.drop().await;
}

#[tokio::test]
async fn totals_select_windows_by_their_start() {
    let database = Database::migrated("selection").await;
    let mut records: Vec<_> = (0..4).map(|n| at_place(T0 + n * WINDOW_MS + 17, 0, n)).collect();
    records[2].tenant = "other".into();
    database.store.insert(&[block(&records)]).await.unwrap();
    let starts = async |tenant: Option<&str>, since: Option<i64>, until: Option<i64>| {
        let selection =
            Selection { tenant: tenant.map(String::from), since: since.map(EventTime), until: until.map(EventTime) };
        let rows = totals(&database, selection).await;
        rows.into_iter().map(|row| (row.window_start.0 - T0) / WINDOW_MS).collect::<Vec<_>>()
    };
    assert_eq!(starts(None, None, None).await, [0, 1, 3, 2], "sorted by tenant first");
    assert_eq!(starts(Some("acme"), None, None).await, [0, 1, 3]);
    assert_eq!(starts(None, Some(T0 + WINDOW_MS), Some(T0 + 2 * WINDOW_MS)).await, [1]);
    assert_eq!(starts(None, Some(T0 + 1), Some(T0 + WINDOW_MS + 1)).await, [1], "a window is in whole or not at all");
    database.drop().await;
}
