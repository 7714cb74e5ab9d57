-- Incidents of occurrences. The id is the hash of (rule, tenant, fingerprint, window), so W-6, at most one row for each,
-- is the primary key; the hash is indexed and not the names, whose length a btree row could not hold.
CREATE TABLE incidents (
    id text PRIMARY KEY CHECK (length(id) = 32),
    kind text NOT NULL DEFAULT 'burst',
    tenant text NOT NULL,
    rule text NOT NULL,
    fingerprint text NOT NULL CHECK (length(fingerprint) = 32),
    window_start timestamptz NOT NULL,
    window_end timestamptz NOT NULL CHECK (window_end > window_start),
    detection text NOT NULL CHECK (detection IN ('window', 'bridge', 'late')),
    status text NOT NULL CHECK (status IN ('open', 'closed', 'superseded', 'withdrawn')),
    -- count(w) as last judged; final when total is set (W-9).
    count bigint NOT NULL,
    total bigint,
    total_at timestamptz,
    first_ts timestamptz,
    last_ts timestamptz,
    opened_at timestamptz NOT NULL,
    closed_at timestamptz,
    -- The id of the first incident of the episode (W-11): its own for a row that is not live.
    episode_id text NOT NULL,
    superseded_by text,
    reason text,
    samples jsonb NOT NULL DEFAULT '[]',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- A start and a listing read by window; the rest is the order in which people see them.
CREATE INDEX incidents_by_window ON incidents (window_start);
-- A run of windows moves to another episode in one update.
CREATE INDEX incidents_by_episode ON incidents (episode_id);

-- Audit: one row for each change of an incident's state, written in the transaction of the change (A-16).
CREATE TABLE incident_transitions (
    transition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incident_id text NOT NULL,
    transition text NOT NULL CHECK (transition IN ('opened', 'closed', 'withdrawn', 'returned')),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    generation bigint NOT NULL,
    reason text
);
CREATE INDEX incident_transitions_by_incident ON incident_transitions (incident_id);

-- What every consumer of incidents reads, of whatever kind.
CREATE VIEW all_incidents AS
SELECT
    id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status, count, total, total_at,
    first_ts, last_ts, opened_at, closed_at, episode_id, superseded_by, reason, samples
FROM incidents;

-- Who works: each write compares its generation with this row, locked FOR SHARE (design, decision 8). The heartbeat has
-- a table of its own, so that beating does not wait for the writers that hold the generation.
CREATE TABLE pipeline (
    name text PRIMARY KEY,
    generation bigint NOT NULL,
    -- All closing up to here is stored (design, decision 6).
    closed_watermark timestamptz,
    -- Of all settings that identity depends on (design, decision 5): 32 hex digits.
    settings_hash text NOT NULL DEFAULT repeat('0', 32)
);
CREATE TABLE pipeline_heartbeat (
    name text PRIMARY KEY,
    generation bigint NOT NULL,
    at timestamptz NOT NULL
);

-- How far each partition is durable (G-3), with what became of its records (G-2).
CREATE TABLE progress (
    pipeline text NOT NULL,
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    -- NULL before the first record.
    watermark timestamptz,
    stored bigint NOT NULL,
    retried bigint NOT NULL,
    unmatched bigint NOT NULL,
    dead bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, topic_id, partition)
);
