//! What happens in the shop: services, lines and stories. Words are chosen as the libraries in question write them.

use super::pace::Shape;
use super::random::Random;

/// The shop's three countries.
pub(super) const TENANTS: [&str; 3] = ["shop-de", "shop-fr", "shop-uk"];

/// One release of a service.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: &'static str,
    pub(super) release: &'static str,
    /// What the names of its pods have in common.
    pub(super) replica_set: &'static str,
    /// Who writes: the record's `source`.
    pub(super) logger: &'static str,
    /// Its client library gives each record an `event_id`, and sends again what was not acknowledged in time.
    pub(super) gives_event_ids: bool,
}

const CATALOG: Service = service("catalog", "2026.48.3", "5f6c9d7b88", "shop.catalog.OfferService", false);
const CATALOG_NEW: Service = service("catalog", "2026.49.0", "6b8d4f9c55", "shop.catalog.OfferService", false);
const CHECKOUT: Service = service("checkout", "4.17.2", "7d9f8b6c44", "shop.checkout.OrderService", false);
const CHECKOUT_NEW: Service = service("checkout", "4.18.0", "84c7b5d9f6", "shop.checkout.OrderService", false);
const PAYMENTS: Service = service("payments", "1.96.1", "b7c5d8f494", "payments/provider", true);
const INVENTORY: Service = service("inventory", "0.41.7", "c9d6b8f752", "inventory/store", false);
const IDENTITY: Service = service("identity", "3.5.0", "d4f8c6b975", "identity/sso", true);
const MAIL: Service = service("mail", "2.2.9", "f8b9c7d546", "mail.worker", true);

const fn service(
    name: &'static str,
    release: &'static str,
    replica_set: &'static str,
    logger: &'static str,
    gives_event_ids: bool,
) -> Service {
    Service { name, release, replica_set, logger, gives_event_ids }
}

/// A line that a service writes: one bug, one fingerprint.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) service: &'static Service,
    pub(super) level: &'static str,
    /// A template for [`super::text::fill`].
    pub(super) message: &'static str,
    pub(super) exception: Option<Exception>,
    /// A fingerprint that the client gives itself: 32 hex digits.
    pub(super) fingerprint: Option<&'static str>,
    /// How often it comes, against the other lines beside it.
    weight: u64,
}

/// What was thrown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exception {
    pub(super) kind: &'static str,
    pub(super) stack: &'static str,
}

const fn line(service: &'static Service, level: &'static str, message: &'static str) -> Line {
    Line { service, level, message, exception: None, fingerprint: None, weight: 1 }
}

impl Line {
    const fn throws(self, kind: &'static str, stack: &'static str) -> Self {
        Self { exception: Some(Exception { kind, stack }), ..self }
    }

    const fn times(self, weight: u64) -> Self {
        Self { weight, ..self }
    }

    const fn under(self, fingerprint: &'static str) -> Self {
        Self { fingerprint: Some(fingerprint), ..self }
    }
}

/// One of several lines, by weight.
pub(super) fn pick(lines: &'static [Line], random: &mut Random) -> &'static Line {
    let mut left = random.below(lines.iter().map(|line| line.weight).sum());
    for line in lines {
        match left.checked_sub(line.weight) {
            None => return line,
            Some(rest) => left = rest,
        }
    }
    unreachable!("the number drawn is below the sum of the weights")
}

/// Something that breaks, runs its course and ends. Times are thousandths of the span.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) lines: &'static [Line],
    /// Who is struck.
    pub(super) tenants: &'static [&'static str],
    /// How many pods write its lines.
    pub(super) pods: u64,
    pub(super) onset_permille: i64,
    pub(super) length_permille: i64,
    /// Lines a second at the peak, of all tenants together.
    pub(super) peak_per_second: f64,
    pub(super) shape: Shape,
}

/// In order of onset. The last ends before the span does, so that the flood ends calmly.
pub(super) static STORIES: [Story; 9] = [
    // A release that leaks connections, until it is rolled back.
    Story {
        lines: &[
            line(
                &CHECKOUT_NEW,
                "error",
                "HikariPool-1 - Connection is not available, request timed out after {ms}ms (total=10, active=10, idle=0, waiting={n})",
            )
            .throws(
                "java.sql.SQLTransientConnectionException",
                "at com.zaxxer.hikari.pool.HikariPool.createTimeoutException(HikariPool.java:696)\n\tat shop.checkout.OrderService.place(OrderService.java:118)",
            )
            .times(3),
            line(&CHECKOUT_NEW, "error", "POST /api/carts/{uuid}/checkout failed with 503 after {ms}ms"),
        ],
        tenants: &TENANTS,
        pods: 4,
        onset_permille: 35,
        length_permille: 330,
        peak_per_second: 620.0,
        shape: Shape::Spike,
    },
    // Stock that goes below zero: slow, and just enough to be an incident.
    Story {
        lines: &[line(&INVENTORY, "error", "stock of {sku} would be -{n}: reservation {hex} refused")],
        tenants: &["shop-uk"],
        pods: 2,
        onset_permille: 90,
        length_permille: 640,
        peak_per_second: 1.2,
        shape: Shape::Smoulder,
    },
    // A null pointer in the one release of the catalogue that some pods run.
    Story {
        lines: &[line(
            &CATALOG_NEW,
            "error",
            "Cannot invoke \"shop.catalog.Price.amount()\" because the return value of \"shop.catalog.Offer.price()\" is null",
        )
        .throws(
            "java.lang.NullPointerException",
            "at shop.catalog.OfferService.render(OfferService.java:204)\n\tat shop.catalog.OfferResource.get(OfferResource.java:61)",
        )],
        tenants: &["shop-de", "shop-fr"],
        pods: 2,
        onset_permille: 150,
        length_permille: 760,
        peak_per_second: 14.0,
        shape: Shape::Smoulder,
    },
    // The payment provider times out, recovers and fails again; the last try of each order is fatal.
    Story {
        lines: &[
            line(
                &PAYMENTS,
                "error",
                "POST https://api.paywell.example/v2/charges?order={order}: timed out after {ms}ms (attempt {attempt} of 5)",
            )
            .throws("requests.exceptions.ReadTimeout", "File \"payments/provider.py\", line 88, in charge")
            .times(9),
            line(
                &PAYMENTS,
                "fatal",
                "POST https://api.paywell.example/v2/charges?order={order}: timed out after {ms}ms (attempt 5 of 5)",
            )
            .throws("requests.exceptions.ReadTimeout", "File \"payments/provider.py\", line 88, in charge"),
            line(&PAYMENTS, "warn", "circuit breaker for paywell is open, {n} charges queued").times(2),
            line(&CHECKOUT, "error", "Payment of order {order} is unconfirmed after {ms}ms, customer {user} was sent away")
                .times(3),
        ],
        tenants: &["shop-de", "shop-uk"],
        pods: 4,
        onset_permille: 270,
        length_permille: 480,
        peak_per_second: 1_350.0,
        shape: Shape::Waves,
    },
    // Two jobs that lock rows in another order.
    Story {
        lines: &[line(
            &INVENTORY,
            "error",
            "deadlock detected: process {pid} waits for ShareLock on transaction {order}; blocked by process {pid}",
        )],
        tenants: &["shop-fr"],
        pods: 3,
        onset_permille: 330,
        length_permille: 120,
        peak_per_second: 45.0,
        shape: Shape::Spike,
    },
    // A process that needs more memory than it has.
    Story {
        lines: &[line(&MAIL, "fatal", "worker {host} was killed: out of memory at {n}MiB while rendering order {order}")],
        tenants: &["shop-de"],
        pods: 3,
        onset_permille: 430,
        length_permille: 300,
        peak_per_second: 2.5,
        shape: Shape::Smoulder,
    },
    // A certificate that nobody renewed, until somebody does.
    Story {
        lines: &[
            line(
                &IDENTITY,
                "error",
                "Get \"https://sso.shop.example/keys\": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time {now} is after {onset}",
            )
            .times(2),
            line(&IDENTITY, "warn", "sign-in of {user} from {ip} refused: no valid signing key"),
        ],
        tenants: &["shop-fr"],
        pods: 4,
        onset_permille: 520,
        length_permille: 290,
        peak_per_second: 240.0,
        shape: Shape::Plateau,
    },
    // One volume that runs full.
    Story {
        lines: &[
            line(&INVENTORY, "error", "write /var/lib/inventory/wal/{segment}.log: no space left on device").times(6),
            line(&INVENTORY, "fatal", "checkpoint {hex} on {host} failed: no space left on device"),
        ],
        tenants: &["shop-uk"],
        pods: 1,
        onset_permille: 620,
        length_permille: 280,
        peak_per_second: 130.0,
        shape: Shape::Plateau,
    },
    // The words vary from product to product: this client groups them itself.
    Story {
        lines: &[line(&MAIL, "error", "no picture of {product} for the order confirmation to {user}")
            .throws("mail.templates.MissingAsset", "File \"mail/templates.py\", line 41, in picture")
            .under("6d61696c2e6d697373696e672e706963")],
        tenants: &TENANTS,
        pods: 2,
        onset_permille: 680,
        length_permille: 220,
        peak_per_second: 12.0,
        shape: Shape::Smoulder,
    },
];

/// A single line at its time, in thousandths of the span.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) line: Line,
    pub(super) at_permille: i64,
}

/// What people on call look for first: who changed what.
pub(super) static NOTICES: [Notice; 4] = [
    Notice { line: line(&CHECKOUT_NEW, "info", "release 4.18.0 is live, replacing 4.17.2"), at_permille: 25 },
    Notice { line: line(&CATALOG_NEW, "info", "release 2026.49.0 is live on half of the pods"), at_permille: 140 },
    Notice { line: line(&CHECKOUT, "info", "rolled back to release 4.17.2"), at_permille: 200 },
    Notice { line: line(&IDENTITY, "info", "certificate of sso.shop.example renewed"), at_permille: 750 },
];

/// Lines at a steady rate.
#[derive(Debug)]
pub(super) struct Steady {
    pub(super) lines: &'static [Line],
    pub(super) per_second: f64,
}

/// Traffic, and oddities of which each is seen once: in five minutes there come fewer than there are.
pub(super) static STEADY: [Steady; 2] = [
    Steady {
        lines: &[
            line(&CATALOG, "info", "GET /api/offers/{sku} 200 in {ms}us").times(8),
            line(&CATALOG, "info", "search index refreshed: {n} offers changed"),
            line(&CHECKOUT, "info", "order {order} placed by {user}").times(3),
            line(&PAYMENTS, "info", "charge {uuid} of order {order} captured").times(3),
            line(&INVENTORY, "info", "reserved {n} of {sku} for order {order}").times(3),
            line(&IDENTITY, "info", "{user} signed in from {ip}").times(2),
            line(&MAIL, "info", "order confirmation {uuid} sent to {user}").times(2),
        ],
        per_second: 34.0,
    },
    Steady {
        lines: &[
            line(&CHECKOUT, "warn", "{oddity} found while reconciling order {order} (reference {uuid})"),
            line(&CATALOG, "error", "consistency check {uuid}: {oddity} of {sku}")
                .throws("shop.catalog.ConsistencyException", "at shop.catalog.NightlyCheck.run(NightlyCheck.java:77)"),
        ],
        per_second: 0.8,
    },
];

/// What comes now and then, and is no incident: each line is one bug.
pub(super) static NOISE: [Line; 20] = [
    line(&CATALOG, "warn", "slow query ({ms}ms): select * from offers where sku = '{sku}'"),
    line(&CATALOG, "warn", "cache node {ip}:6379 did not answer in {ms}ms, asking the database"),
    line(&CATALOG, "error", "image {hex} of {sku} could not be resized"),
    line(&CATALOG, "warn", "price feed is {n}s behind"),
    line(&CHECKOUT, "warn", "attempt {attempt} of 5 to fetch exchange rates failed, retrying in {ms}ms"),
    line(&CHECKOUT, "warn", "voucher '{hex}' entered by {user} is unknown"),
    line(&CHECKOUT, "error", "address of order {order} could not be verified").throws(
        "java.net.SocketException",
        "at java.base/sun.nio.ch.NioSocketImpl.implRead(NioSocketImpl.java:318)\n\tat shop.checkout.AddressClient.verify(AddressClient.java:52)",
    ),
    line(&CHECKOUT, "warn", "cart {uuid} changed while it was checked out, retrying"),
    line(&PAYMENTS, "warn", "webhook {uuid} came twice, second one ignored"),
    line(&PAYMENTS, "error", "charge {uuid} declined by issuer with code {n}"),
    line(&PAYMENTS, "warn", "refund of order {order} waits for settlement since {n}h"),
    line(&INVENTORY, "warn", "warehouse API answered 429, retrying in {ms}ms (attempt {attempt})"),
    line(&INVENTORY, "warn", "lock on {sku} held for {ms}ms by process {pid}"),
    line(&INVENTORY, "error", "message {hex} of topic=stock-moves skipped: unknown unit"),
    line(&IDENTITY, "warn", "{n} failed sign-ins from {ip}"),
    line(&IDENTITY, "warn", "session {hex} not found, {user} has to sign in again"),
    line(&IDENTITY, "error", "token of {user} has an unknown key id={hex}"),
    line(&MAIL, "warn", "smtp {ip}:25 said 451, trying again in {n}s"),
    line(&MAIL, "warn", "bounce from {user}: mailbox full"),
    line(&MAIL, "error", "newsletter batch {uuid} aborted after {n} mails")
        .throws("smtplib.SMTPServerDisconnected", "File \"mail/batch.py\", line 129, in send"),
];
