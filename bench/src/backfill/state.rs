//! What a way leaves in the stores, to be compared with what another one leaves.

use crate::records::PROBE_TENANT;
use crate::setup::Setup;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;

/// Incidents that differ, in an error.
const DIFFERENT_SHOWN: usize = 4;

/// What stands in the stores of the records that are measured.
pub(super) struct State {
    /// What each incident that stands says, but for how and when it was found. Rows that were superseded or withdrawn on
    /// the way depend on the order of records.
    pub(super) incidents: BTreeSet<String>,
    /// Distinct occurrences, and a hash of them.
    rows: String,
    /// Totals of bugs and windows, their sum, and a hash of them.
    totals: String,
}

impl State {
    pub(super) fn of(setup: &Setup) -> Self {
        let incidents = setup.postgres.query(format!(
            "SELECT concat_ws(' ', id, status, count, total, first_ts, last_ts, episode_id) FROM incidents \
             WHERE status IN ('open', 'closed') AND tenant <> '{PROBE_TENANT}'"
        ));
        let incidents = incidents.iter().map(|row| row.get(0)).collect();
        let rows = setup.clickhouse.query(&format!(
            "SELECT count(), sum(cityHash64(tenant, fingerprint_bits, ts, message, raw)) FROM occurrences FINAL \
             WHERE tenant != '{PROBE_TENANT}'"
        ));
        let totals = setup.clickhouse.query(&format!(
            "SELECT count(), sum(total), sum(cityHash64(tenant, fingerprint, window_start, total)) FROM totals \
             WHERE tenant != '{PROBE_TENANT}'"
        ));
        Self { incidents, rows, totals }
    }

    pub(super) fn check(&self, found: &Self, what: &str) -> Result<()> {
        let other = |kind| format!("live and {what} leave other {kind}");
        ensure!(self.rows == found.rows, "{}: {} and {}", other("rows"), self.rows, found.rows);
        ensure!(self.totals == found.totals, "{}: {} and {}", other("totals"), self.totals, found.totals);
        let (live, found) = (&self.incidents, &found.incidents);
        let different: Vec<_> = live.symmetric_difference(found).take(DIFFERENT_SHOWN).map(String::as_str).collect();
        ensure!(different.is_empty(), "{}, such as\n{}", other("incidents"), different.join("\n"));
        Ok(())
    }
}
