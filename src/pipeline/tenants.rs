//! The directory of tenant names: the dataflow carries numbers.

use floodmark_dataflow::message::TenantId;
use floodmark_model::Rule;
use hashbrown::HashMap;
use std::collections::BTreeMap;
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

    /// The thresholds of tenants that have one of their own, by number: for each rule, for each of its versions, oldest
    /// first. `None` when the directory is full.
    #[must_use]
    pub fn thresholds(&self, rules: &[Rule]) -> Option<Vec<Vec<BTreeMap<TenantId, u32>>>> {
        let of_version = |version: &Rule| {
            let numbered = |(name, threshold): (&String, &u32)| Some((self.number(name)?, *threshold));
            version.tenant_thresholds.iter().map(numbered).collect::<Option<BTreeMap<_, _>>>()
        };
        rules.iter().map(|rule| rule.versions().map(of_version).collect()).collect()
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
    use floodmark_model::EventTime;

    #[test]
    fn a_tenant_keeps_its_number() {
        let tenants = Tenants::new(10);
        let (a, b) = (tenants.number("a").unwrap(), tenants.number("").unwrap());
        assert_ne!(a, b);
        assert_eq!(tenants.number("a"), Some(a));
        assert_eq!((&*tenants.name(a), &*tenants.name(b)), ("a", ""));
    }

    #[test]
    fn thresholds_of_tenants_are_known_by_number_before_the_first_record() {
        let first = Rule { tenant_thresholds: [("a".into(), 3)].into(), ..Rule::default() };
        let second = Rule { from: EventTime(0), tenant_thresholds: [("b".into(), 5)].into(), ..Rule::default() };
        let rules = [Rule::of_versions(vec![first, second]).unwrap(), Rule::default()];
        let tenants = Tenants::new(2);
        let thresholds = tenants.thresholds(&rules).unwrap();
        let (a, b) = (tenants.number("a").unwrap(), tenants.number("b").unwrap());
        assert_eq!(thresholds, [vec![[(a, 3)].into(), [(b, 5)].into()], vec![BTreeMap::new()]]);
        assert_eq!(Tenants::new(1).thresholds(&rules), None, "more than the directory holds");
    }

    #[test]
    fn the_directory_is_bounded() {
        let tenants = Tenants::new(1);
        let known = tenants.number("a");
        assert_eq!(tenants.number("b"), None);
        assert_eq!(tenants.number("a"), known);
    }
}
