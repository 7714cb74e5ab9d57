use crate::fingerprint::masked;

/// Each text masked; the second column is what becomes of it.
const TABLE: &[(&str, &str)] = &[
    // Numbers, signs, units.
    ("took 35ms, 1.5s or -12", "took <*> or <*>"),
    ("lag -1", "lag <*>"),
    ("in .5 s", "in <*> s"),
    ("disk 93.5% full", "disk <*>% full"),
    ("reset offset to 5.", "reset offset to <*>."),
    ("state-change of read-only re-sync", "state-change of read-only re-sync"),
    // Ids.
    ("span 4e3f58bf", "span <*>"),
    ("at 0xDEADbeef", "at <*>"),
    ("the facade is a decade old", "the facade is a decade old"),
    ("id 550e8400-e29b-41d4-a716-446655440000 gone", "id <*> gone"),
    ("token Lx8fK2jd93 expired", "token <*> expired"),
    ("Base64ToUtf8Converter failed", "Base<*>ToUtf<*>Converter failed"),
    ("ERR_HTTP2_PROTOCOL_ERROR", "ERR_HTTP<*>_PROTOCOL_ERROR"),
    ("shard_12 user_1_2", "shard_<*> user_<*>"),
    ("pod checkout-7d9f8b6c5d-abcde evicted", "pod <*> evicted"),
    // Threads.
    ("[ReplicaFetcherThread-0-1], Error", "[<*>], Error"),
    ("pool-3-thread-7 and http-nio-8080-exec-12 died", "<*> and <*> died"),
    // Hosts and addresses.
    ("to kafka1:9092 (id: 1 rack: null)", "to kafka<*> (id: <*> rack: null)"),
    ("from 10.0.0.1:52814 refused", "from <*> refused"),
    ("from fe80::abcd:1 or ::1 refused", "from <*> or <*> refused"),
    ("from [2001:db8::beef]:443 refused", "from [<*>]:<*> refused"),
    ("mac aa:bb:cc:dd:ee:ff seen", "mac <*> seen"),
    ("std::bad_alloc in Face::feed", "std::bad_alloc in Face::feed"),
    // Around an at sign.
    ("mail to jane.doe+x@example.co.uk bounced", "mail to <*> bounced"),
    ("<bob@example.com>, 5", "<<*>>, <*>"),
    ("fetch kafka.Fetcher$Request@7bfde3 failed", "fetch kafka.Fetcher$Request@<*> failed"),
    ("Request@abcdef", "Request@<*>"),
    ("Request@26408511", "Request@<*>"),
    ("cc @oncall now", "cc @oncall now"),
    // Quotes.
    ("column 'name' in \"orders\" missing", "column <*> in <*> missing"),
    ("don't touch broker's 'x'", "don't touch broker's <*>"),
    ("Controller 0's users' data", "Controller <*>'s users' data"),
    ("the 'open one", "the 'open one"),
    ("open 'a\nb' then", "open 'a\nb' then"),
    (r#"say "a \" b" now"#, "say <*> now"),
    (r#"{"user":"bob","tries":3}"#, r#"{"user":<*>,"tries":<*>}"#),
    (r#"open "a.txt": denied"#, "open <*>: denied"),
    (
        r#"Cannot invoke "Cart.total()" because "<local1>" is null"#,
        r#"Cannot invoke "Cart.total()" because <*> is null"#,
    ),
    // Lists.
    ("ISR = List(1, 2)", "ISR = List(<*>)"),
    ("ISR = List(0)", "ISR = List(<*>)"),
    ("ids [1, 2, 3]", "ids [<*>]"),
    ("names 'a', 'b', 'c'", "names <*>"),
    // Kafka's partitions, and keys that name an instance.
    ("partition [__consumer_offsets,12] of", "partition [<*>] of"),
    ("partition [test,3] of", "partition [<*>] of"),
    ("partition test-4 reset", "partition <*> reset"),
    ("{topic=test,partition=3}", "{topic=<*>,partition=<*>}"),
    ("orderId=abc state=TIMEOUT", "orderId=<*> state=TIMEOUT"),
    ("valid=no user=bob.", "valid=no user=<*>."),
    // Paths and URLs.
    ("/tmp/kafka-logs/test-0/0012.index.deleted", "/tmp/kafka-logs/<*>.index.deleted"),
    ("GET /users/42/orders/ab12?page=2&q=x failed", "GET /users/<*>/orders/<*> failed"),
    ("https://api.example.com/v1/x?token=s3cret#top", "https://api.example.com/v<*>/x"),
    ("really? yes=no", "really? yes=no"),
    // Times.
    ("at 2016-12-19 16:12:33,123 down", "at <*> down"),
    ("at 2016-12-19T16:12:33.123+01:00 down", "at <*> down"),
    ("at [19/Dec/2016:16:12:33 +0000]", "at [<*>]"),
    ("on Mon, 19 Dec 2016 16:12:33 GMT", "on <*> GMT"),
    ("on Mon Dec 19 16:12:33 CET 2016", "on <*> CET <*>"),
    ("Mar the record; Sun sets", "Mar the record; Sun sets"),
    // Other scripts.
    ("连接超时5秒后重试", "连接超时<*>秒后重试"),
    ("Überlauf bei café1 – 7 Stück", "Überlauf bei café<*> – <*> Stück"),
    ("", ""),
    ("<*>", "<*>"),
];

#[test]
fn what_varies_is_masked_and_words_stay() {
    let wrong: Vec<_> = TABLE
        .iter()
        .filter(|(text, want)| masked(text) != *want)
        .map(|(text, want)| (text, masked(text), want))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn m4_the_work_is_linear_in_the_length() {
    // Each of these would take minutes if a rule looked ahead to the end from every place where it begins.
    for unit in ["\"x( ", "'a ", "a:", ":", "a@", "[a", "x?a", "Mon ", "1-", "{\"a\" : ", "\" (", "a.b@", "a+"] {
        let text = unit.repeat(1_000_000 / unit.len());
        assert!(masked(&text).len() <= 4 * text.len(), "{unit}");
        assert!(masked(&format!("{text})\" g")).len() <= 4 * text.len(), "{unit}");
    }
}
