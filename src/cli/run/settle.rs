//! The end of an input (design, decision 14): totals and samples of incidents whose window is still open. The windows
//! stay open (T-5).

use crate::rules;
use floodmark_model::{EventTime, IncidentKey, Rule};
use floodmark_sinks::{FACTS_MAX, IncidentStore, OccurrenceStore, StoreError};

/// Writes the totals of incidents whose window has not closed.
pub(super) async fn settle(store: &(impl OccurrenceStore + IncidentStore), rules: &[Rule]) -> Result<(), StoreError> {
    let generation = store.take_over().await?;
    let stored = store.stored_incidents(EventTime::MIN).await?;
    for rule in rules {
        let open = stored.iter().filter(|incident| !incident.is_closed && *incident.key.rule == *rule.name);
        let keys: Vec<IncidentKey> = open.map(|incident| incident.key.clone()).collect();
        for some in keys.chunks(FACTS_MAX) {
            let facts = store.window_facts(rule, some).await?;
            for (threshold, facts) in rules::by_threshold(rule, facts) {
                store.close_incidents(generation, threshold, &facts, true).await?;
            }
        }
    }
    Ok(())
}
