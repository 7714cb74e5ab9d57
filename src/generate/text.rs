//! What varies in a line: numbers, ids, addresses and names that a template leaves open.

use super::random::Random;
use super::stories::Service;
use floodmark_model::EventTime;

/// What a line knows of its surroundings.
pub(super) struct Scene<'a> {
    /// The time of the line.
    pub(super) now: EventTime,
    /// When its story began.
    pub(super) onset: EventTime,
    /// The pod that writes it.
    pub(super) host: &'a str,
}

/// Fills each `{name}` of a template. Names are those of [`value`].
pub(super) fn fill(template: &str, scene: &Scene<'_>, oddities: &mut Oddities, random: &mut Random) -> String {
    let mut parts = template.split('{');
    let mut filled = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        filled.push_str(&value(name, scene, oddities, random));
        filled.push_str(rest);
    }
    filled
}

fn value(name: &str, scene: &Scene<'_>, oddities: &mut Oddities, random: &mut Random) -> String {
    match name {
        "now" => rfc3339(scene.now),
        "onset" => rfc3339(scene.onset),
        "host" => scene.host.into(),
        "ms" => random.between(120, 9_999).to_string(),
        "n" => random.between(2, 400).to_string(),
        "attempt" => random.between(1, 4).to_string(),
        "order" => random.between(40_000_000, 49_999_999).to_string(),
        "pid" => random.between(1_000, 32_000).to_string(),
        "hex" => format!("{:016x}", random.bits()),
        "uuid" => uuid(random),
        "ip" => format!("10.{}.{}.{}", random.below(64), random.below(256), random.between(1, 254)),
        "user" => format!("{}.{}@example.com", random.pick(&FIRST_NAMES), random.between(10, 9_999)),
        "sku" => format!("SKU-{}-{}", random.between(10_000, 99_999), random.pick(&["S", "M", "L", "XL"])),
        "segment" => format!("{:08}", random.below(100_000)),
        "product" => random.pick(&PRODUCTS).into(),
        "oddity" => oddities.draw(),
        _ => {
            debug_assert!(false, "a template names {name:?}, which nothing fills");
            String::new()
        }
    }
}

const FIRST_NAMES: [&str; 12] =
    ["amira", "ben", "chloe", "dmitri", "elif", "femi", "greta", "hugo", "ines", "jonas", "kaya", "liam"];

const PRODUCTS: [&str; 10] = [
    "oak desk lamp",
    "wool blanket",
    "travel mug",
    "garden bench",
    "cast iron pan",
    "linen shirt",
    "desk clock",
    "rain jacket",
    "bread knife",
    "wall shelf",
];

/// Findings that are each seen once: another pair of words every time, until all pairs have been used.
#[derive(Clone, Debug)]
pub(super) struct Oddities {
    next: usize,
}

impl Oddities {
    /// Begins with a random pair.
    pub(super) fn new(random: &mut Random) -> Self {
        Self { next: random.below(Self::COUNT as u64) as usize }
    }

    /// How many pairs there are.
    pub(super) const COUNT: usize = STATES.len() * THINGS.len();

    fn draw(&mut self) -> String {
        // A step that has no divisor in common with the count visits each pair before it visits one again.
        self.next = (self.next + 101) % Self::COUNT;
        format!("{} {}", STATES[self.next / THINGS.len()], THINGS[self.next % THINGS.len()])
    }
}

const STATES: [&str; 20] = [
    "orphaned",
    "stale",
    "duplicate",
    "unsigned",
    "truncated",
    "negative",
    "expired",
    "unbalanced",
    "detached",
    "empty",
    "foreign",
    "locked",
    "misplaced",
    "nested",
    "partial",
    "recursive",
    "reversed",
    "shadowed",
    "unpriced",
    "unreachable",
];

const THINGS: [&str; 20] = [
    "cart",
    "voucher",
    "refund",
    "invoice",
    "parcel",
    "address",
    "session",
    "wishlist",
    "shipment",
    "discount",
    "return label",
    "gift card",
    "price list",
    "tax rule",
    "stock entry",
    "bundle",
    "review",
    "coupon",
    "rebate",
    "receipt",
];

/// The name of a pod, the same for the same service, tenant and number.
pub(super) fn pod(service: &Service, tenant: &str, number: u64) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let names = [service.replica_set, tenant].into_iter().flat_map(str::bytes);
    let seed = names.fold(number, |seed, byte| seed.wrapping_mul(257).wrapping_add(u64::from(byte)));
    let mut random = Random::new(seed);
    let mut name = format!("{}-{}-", service.name, service.replica_set);
    name.extend((0..5).map(|_| char::from(random.pick(ALPHABET))));
    name
}

/// A random UUID (version 4).
pub(super) fn uuid(random: &mut Random) -> String {
    let (high, low) = (random.bits(), random.bits());
    let (time_low, time_mid, time_high) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    let (clock, node) = (0x8000 | low >> 48 & 0x3fff, low & 0xffff_ffff_ffff);
    format!("{time_low:08x}-{time_mid:04x}-4{time_high:03x}-{clock:04x}-{node:012x}")
}

/// RFC 3339 in UTC with milliseconds. A time beyond the year 9999 is written as its end.
pub(super) fn rfc3339(time: EventTime) -> String {
    format!("{:.3}", jiff::Timestamp::from_millisecond(time.0).unwrap_or(jiff::Timestamp::MAX))
}
