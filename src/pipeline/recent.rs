//! One recent message of a fingerprint, for the moment in which its incident is emitted (W-10).

use floodmark_dataflow::state::panes::PaneKey;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;
const SLOTS: usize = 256;
/// Longest message kept, in bytes.
const MESSAGE_BYTES_MAX: usize = 512;

/// A bounded cache: each key has one place, and the latest key there stays.
pub struct RecentMessages {
    shards: Vec<Mutex<Vec<Option<(PaneKey, Arc<str>)>>>>,
}

impl Default for RecentMessages {
    fn default() -> Self {
        let mut shards = Vec::new();
        shards.resize_with(SHARDS, || Mutex::new(vec![None; SLOTS]));
        Self { shards }
    }
}

impl RecentMessages {
    /// Keeps the message of this key, unless one is kept already.
    pub fn keep(&self, key: PaneKey, message: &str) {
        let (mut shard, slot) = self.place(&key);
        match &mut shard[slot] {
            Some((kept, _)) if *kept == key => {}
            place => *place = Some((key, cut(message).into())),
        }
    }

    /// A message of this key, if one is kept.
    #[must_use]
    pub fn of(&self, key: &PaneKey) -> Option<Arc<str>> {
        let (shard, slot) = self.place(key);
        shard[slot].as_ref().filter(|(kept, _)| kept == key).map(|(_, message)| Arc::clone(message))
    }

    #[expect(clippy::type_complexity, reason = "a guard of the shard's slots, and the slot")]
    fn place(&self, key: &PaneKey) -> (MutexGuard<'_, Vec<Option<(PaneKey, Arc<str>)>>>, usize) {
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
        let kept = recent.of(&key(99_999)).expect("the latest key of its place stays");
        assert!(kept.len() <= MESSAGE_BYTES_MAX);
    }
}
