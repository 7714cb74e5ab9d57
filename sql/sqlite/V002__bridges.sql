-- What had been reached when the row was judged last: the window itself, or only a run over its start (W-3). A start
-- needs it, since counts that are cut at the committed offsets may not show it yet. Rows from before have their own.
ALTER TABLE incidents ADD COLUMN reach TEXT NOT NULL DEFAULT 'own' CHECK (reach IN ('run', 'own'));

-- Incidents of several kinds have places of their own (W-6).
DROP INDEX incidents_by_window;
CREATE UNIQUE INDEX incidents_by_window ON incidents (window_start, tenant, rule, fingerprint, kind);

-- The same table with one more transition: SQLite changes no CHECK in place.
CREATE TABLE incident_transitions_wider (
    transition_id INTEGER PRIMARY KEY AUTOINCREMENT,
    incident_id TEXT NOT NULL,
    transition TEXT NOT NULL CHECK (transition IN ('opened', 'closed', 'superseded', 'withdrawn', 'returned')),
    at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    reason TEXT
) STRICT;
INSERT INTO incident_transitions_wider SELECT * FROM incident_transitions;
DROP TABLE incident_transitions;
ALTER TABLE incident_transitions_wider RENAME TO incident_transitions;
CREATE INDEX incident_transitions_by_incident ON incident_transitions (incident_id);
