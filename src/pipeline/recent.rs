//! One recent message of a fingerprint, for the moment in which its incident is emitted (W-10).

use floodmark_dataflow::message::PaneKey;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;
const SLOTS: usize = 256;
/// Longest message kept, in bytes.
const MESSAGE_BYTES_MAX: usize = 512;
/// Of so many messages of other keys, one takes the place: keys that share one do not push each other out in turns.
const TURNS: u8 = 4;

/// A bounded cache: each key has one place, and of those that share it a late one stays.
pub struct RecentMessages {
    shards: Vec<Mutex<Vec<Place>>>,
}

#[derive(Clone, Default)]
struct Place {
    kept: Option<(PaneKey, Arc<str>)>,
    /// Messages of other keys until one takes the place.
    turns: u8,
}

impl Default for RecentMessages {
    fn default() -> Self {
        let mut shards = Vec::new();
        shards.resize_with(SHARDS, || Mutex::new(vec![Place::default(); SLOTS]));
        Self { shards }
    }
}

impl RecentMessages {
    /// Keeps the message of this key, unless one is kept already.
    pub fn keep(&self, key: PaneKey, message: &str) {
        let (mut shard, slot) = self.place(&key);
        let place = &mut shard[slot];
        if place.kept.as_ref().is_some_and(|(kept, _)| *kept == key) {
            return;
        }
        if place.turns > 0 {
            place.turns -= 1;
            return;
        }
        *place = Place { kept: Some((key, cut(message).into())), turns: TURNS - 1 };
    }

    /// A message of this key, if one is kept.
    #[must_use]
    pub fn of(&self, key: &PaneKey) -> Option<Arc<str>> {
        let (shard, slot) = self.place(key);
        shard[slot].kept.as_ref().filter(|(kept, _)| kept == key).map(|(_, message)| Arc::clone(message))
    }

    fn place(&self, key: &PaneKey) -> (MutexGuard<'_, Vec<Place>>, usize) {
        let hash = key.hash(0) as usize;
        let shard = self.shards[hash % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        (shard, hash / SHARDS % SLOTS)
    }
}

fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodmark_dataflow::message::TenantId;
    use floodmark_model::Fingerprint;

    fn key(n: u128) -> PaneKey {
        PaneKey { fingerprint: Fingerprint::from_bits(n), tenant: TenantId(0) }
    }

    #[test]
    fn a_message_is_found_under_its_own_key_only() {
        let recent = RecentMessages::default();
        recent.keep(key(1), "one");
        assert_eq!(recent.of(&key(1)).as_deref(), Some("one"));
        assert_eq!(recent.of(&key(2)), None);
    }

    #[test]
    fn many_keys_and_long_messages_stay_bounded() {
        let recent = RecentMessages::default();
        let long = "ä".repeat(10_000);
        (0..100_000).for_each(|n| recent.keep(key(n), &long));
        let kept: Vec<_> = (0..100_000).filter_map(|n| recent.of(&key(n))).collect();
        assert!((1..=SHARDS * SLOTS).contains(&kept.len()));
        assert!(kept.iter().all(|message| message.len() <= MESSAGE_BYTES_MAX));
    }

    #[test]
    fn a_key_gets_its_place_after_a_few_messages() {
        let recent = RecentMessages::default();
        (0..100_000).for_each(|n| recent.keep(key(n), "old"));
        (0..TURNS).for_each(|_| recent.keep(key(200_000), "new"));
        assert_eq!(recent.of(&key(200_000)).as_deref(), Some("new"));
    }
}
