//! Questions of people and checks (see [`crate::inspect`]).

use super::PostgresStore;
use super::connection::{Lane, Session};
use super::values::time;
use crate::StoreError;
use crate::inspect::{History, InspectIncidents, Transition};
use floodmark_model::IncidentId;
use std::time::SystemTime;
use tokio_postgres::Error;

impl InspectIncidents for PostgresStore {
    async fn history(&self, id: IncidentId) -> Result<History, StoreError> {
        let call = self.lane(Lane::Closings, "read an incident's history");
        call.run(async |session| history(session, id).await).await
    }
}

async fn history(session: &Session, id: IncidentId) -> Result<History, Error> {
    const REASON: &str = "SELECT reason FROM incidents WHERE id = $1";
    const TRANSITIONS: &str = "SELECT transition, at, reason FROM incident_transitions WHERE incident_id = $1
        ORDER BY transition_id";
    let id = id.to_string();
    let reason = session.query(REASON, &[&id]).await?.first().and_then(|row| row.get(0));
    let rows = session.query(TRANSITIONS, &[&id]).await?;
    let transition = |row: &tokio_postgres::Row| Transition {
        transition: row.get(0),
        at: time(row.get::<_, SystemTime>(1)),
        reason: row.get(2),
    };
    Ok(History { reason, transitions: rows.iter().map(transition).collect() })
}
