//! The end of an input (design, decision 14): totals and samples of incidents whose window is still open. The windows
//! stay open (T-5).

use crate::pipeline::questions::closed_windows;
use floodmark_model::{EventTime, IncidentKey, IncidentKind, Rule};
use floodmark_sinks::{FACTS_MAX, IncidentStore, OccurrenceStore, StoreError};

/// Writes the totals of incidents whose window has not closed.
pub(super) async fn settle(store: &(impl OccurrenceStore + IncidentStore), rules: &[Rule]) -> Result<(), StoreError> {
    let generation = store.take_over().await?;
    let stored = store.stored_incidents(EventTime::MIN).await?;
    for rule in rules {
        let of_rule = stored.iter().filter(|incident| *incident.key.rule == *rule.name);
        let open = of_rule.filter(|incident| !incident.is_closed && incident.key.kind == IncidentKind::Burst);
        let keys: Vec<IncidentKey> = open.map(|incident| incident.key.clone()).collect();
        for some in keys.chunks(FACTS_MAX) {
            let windows = closed_windows(store, rule, some).await?;
            store.close_incidents(generation, &windows, true).await?;
        }
    }
    Ok(())
}
