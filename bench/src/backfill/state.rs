//! What a way leaves in the stores, to be compared with what another one leaves.

use crate::records::PROBE_TENANT;
use crate::setup::Setup;
use anyhow::{Result, ensure};

/// What stands in the stores of the records that are measured.
#[derive(Debug)]
pub(super) struct State {
    pub(super) incidents: i64,
    /// Of all that an incident says but how and when it was found.
    incidents_hash: String,
    /// Distinct occurrences, and a hash of them.
    rows: String,
    /// Totals of bugs and windows, their sum, and a hash of them.
    totals: String,
}

impl State {
    pub(super) fn of(setup: &Setup) -> Self {
        let incidents = setup.postgres.query(format!(
            "SELECT count(*), coalesce(md5(string_agg(concat_ws(' ', id, status, count, total, first_ts, last_ts, \
             episode_id, superseded_by), ',' ORDER BY id)), '') FROM incidents WHERE tenant <> '{PROBE_TENANT}'"
        ));
        let rows = setup.clickhouse.query(&format!(
            "SELECT count(), sum(cityHash64(tenant, fingerprint_bits, ts, message, raw)) FROM occurrences FINAL \
             WHERE tenant != '{PROBE_TENANT}'"
        ));
        let totals = setup.clickhouse.query(&format!(
            "SELECT count(), sum(total), sum(cityHash64(tenant, fingerprint, window_start, total)) FROM totals \
             WHERE tenant != '{PROBE_TENANT}'"
        ));
        Self { incidents: incidents[0].get(0), incidents_hash: incidents[0].get(1), rows, totals }
    }

    pub(super) fn check(&self, found: &Self, what: &str) -> Result<()> {
        ensure!(self.rows == found.rows, "live and {what} store other rows: {self:?}, {found:?}");
        ensure!(self.totals == found.totals, "live and {what} give other totals: {self:?}, {found:?}");
        ensure!(
            (self.incidents, &self.incidents_hash) == (found.incidents, &found.incidents_hash),
            "live and {what} give other incidents: {self:?}, {found:?}"
        );
        Ok(())
    }
}
