//! The directory of tenant names: the dataflow carries numbers.

use floodmark_dataflow::message::TenantId;
use hashbrown::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Numbers every tenant of this run, up to a bound.
pub struct Tenants {
    max: usize,
    names: RwLock<Names>,
}

#[derive(Default)]
struct Names {
    by_id: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, TenantId, foldhash::quality::RandomState>,
}

impl Tenants {
    /// An empty directory for at most `max` tenants.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, names: RwLock::default() }
    }

    /// The number of a tenant, given to it now where it has none; `None` when the directory is full.
    pub fn number(&self, name: &str) -> Option<TenantId> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = names.by_name.get(name) {
            return Some(*id);
        }
        drop(names);
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = names.by_name.get(name) {
            return Some(*id);
        }
        if names.by_id.len() >= self.max {
            return None;
        }
        let id = TenantId(u32::try_from(names.by_id.len()).ok()?);
        let name: Arc<str> = name.into();
        names.by_id.push(Arc::clone(&name));
        names.by_name.insert(name, id);
        Some(id)
    }

    /// The name of a number that this directory gave.
    ///
    /// # Panics
    ///
    /// When it did not give it: numbers never leave this run.
    #[must_use]
    pub fn name(&self, id: TenantId) -> Arc<str> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(names.by_id.get(id.0 as usize).expect("a number of this directory"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_keeps_its_number() {
        let tenants = Tenants::new(10);
        let (a, b) = (tenants.number("a").unwrap(), tenants.number("").unwrap());
        assert_ne!(a, b);
        assert_eq!(tenants.number("a"), Some(a));
        assert_eq!((&*tenants.name(a), &*tenants.name(b)), ("a", ""));
    }

    #[test]
    fn the_directory_is_bounded() {
        let tenants = Tenants::new(1);
        let known = tenants.number("a");
        assert_eq!(tenants.number("b"), None);
        assert_eq!(tenants.number("a"), known);
    }
}
