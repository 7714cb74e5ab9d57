-- The embedded store: occurrences, incidents and progress in one file.
--
-- Times are integers, milliseconds since 1970 UTC. Ids and fingerprints are 32 hex digits where people look
-- (incidents, views); in the large tables they are 16 bytes, with the hex digits as a virtual column.

-- Topics, or files, by a number that is short enough to stand in every row and index.
CREATE TABLE topics (
    topic INTEGER PRIMARY KEY,
    topic_id BLOB NOT NULL UNIQUE
) STRICT;

-- Every raw occurrence.
--
-- Writing is what an engine does most, and what costs is the number of pages that one call changes. So rows lie in the
-- order of arrival, and what indexes them grows at its end where it can: a primary key on the hashed identity would
-- change a page for every row.
--
-- `identity` is NULL where it is the record's own place (I-1), which three columns say already; else it is the hash of
-- the client's id (I-2), whose index cannot but be changed anywhere. Each form has its own unique index, so one
-- identity has one row, whatever its `ts`. `ten_seconds` is `ts` in steps of ten seconds, floored.
CREATE TABLE occurrences (
    fingerprint_bits BLOB NOT NULL,
    ts INTEGER NOT NULL,
    ten_seconds INTEGER NOT NULL,
    identity BLOB,
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    record_time INTEGER NOT NULL,
    level INTEGER NOT NULL,
    ts_missing INTEGER NOT NULL,
    ts_clamped INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    ts_original TEXT NOT NULL,
    service TEXT NOT NULL,
    host TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    template_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    message TEXT NOT NULL,
    exception_type TEXT NOT NULL,
    raw BLOB NOT NULL,
    fingerprint TEXT GENERATED ALWAYS AS (lower(hex(fingerprint_bits))) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX occurrences_by_event ON occurrences (identity) WHERE identity IS NOT NULL;
CREATE UNIQUE INDEX occurrences_by_record ON occurrences (topic, "partition", "offset") WHERE identity IS NULL;
-- All that counting reads, cut at committed offsets included. Short steps of time come first: what arrives together
-- lies in a few of them, and so on few pages. One key in one window is one index range for each step.
CREATE INDEX occurrences_by_key ON occurrences (
    ten_seconds, tenant, fingerprint_bits, ts, level, service, topic, "partition", "offset"
);
-- All that the filter of client retries reads at a start.
CREATE INDEX occurrences_events ON occurrences (ts, identity, topic, "partition", "offset")
WHERE identity IS NOT NULL;

-- Records that no rule matches, where they are stored (`store_unmatched`); in no total (Q48).
CREATE TABLE unmatched (
    fingerprint_bits BLOB NOT NULL,
    ts INTEGER NOT NULL,
    ten_seconds INTEGER NOT NULL,
    identity BLOB,
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    record_time INTEGER NOT NULL,
    level INTEGER NOT NULL,
    ts_missing INTEGER NOT NULL,
    ts_clamped INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    ts_original TEXT NOT NULL,
    service TEXT NOT NULL,
    host TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    template_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    message TEXT NOT NULL,
    exception_type TEXT NOT NULL,
    raw BLOB NOT NULL,
    fingerprint TEXT GENERATED ALWAYS AS (lower(hex(fingerprint_bits))) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX unmatched_by_event ON unmatched (identity) WHERE identity IS NOT NULL;
CREATE UNIQUE INDEX unmatched_by_record ON unmatched (topic, "partition", "offset") WHERE identity IS NULL;

-- Records that cannot be read (G-2).
CREATE TABLE dead_letters (
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    record_time INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    raw BLOB NOT NULL,
    PRIMARY KEY (topic, "partition", "offset")
) STRICT;

-- Totals per bug and five minutes, and per minute. Columns as in ClickHouse. SQLite's % keeps the sign of the dividend;
-- adding the divisor once floors toward minus infinity.
CREATE VIEW totals AS
SELECT
    tenant,
    lower(hex(fingerprint_bits)) AS fingerprint,
    ts - (ts % 300000 + 300000) % 300000 AS window_start,
    count(*) AS total
FROM occurrences
GROUP BY tenant, fingerprint_bits, window_start;

CREATE VIEW totals_by_minute AS
SELECT
    tenant,
    lower(hex(fingerprint_bits)) AS fingerprint,
    ts - (ts % 60000 + 60000) % 60000 AS minute_start,
    count(*) AS total
FROM occurrences
GROUP BY tenant, fingerprint_bits, minute_start;

-- W-6: the unique index is the promise; it is also the order in which incidents are shown.
CREATE TABLE incidents (
    id TEXT PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    rule TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    window_start INTEGER NOT NULL,
    window_end INTEGER NOT NULL,
    detection TEXT NOT NULL CHECK (detection IN ('window', 'bridge', 'late')),
    status TEXT NOT NULL CHECK (status IN ('open', 'closed', 'superseded', 'withdrawn')),
    count INTEGER NOT NULL,
    total INTEGER,
    total_at INTEGER,
    first_ts INTEGER,
    last_ts INTEGER,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    episode_id TEXT NOT NULL,
    superseded_by TEXT,
    reason TEXT,
    samples TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(samples))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX incidents_by_window ON incidents (window_start, tenant, rule, fingerprint);
CREATE INDEX incidents_by_episode ON incidents (episode_id);

-- Audit: one row for each change of an incident's state, written with the change (A-16).
CREATE TABLE incident_transitions (
    transition_id INTEGER PRIMARY KEY AUTOINCREMENT,
    incident_id TEXT NOT NULL,
    transition TEXT NOT NULL CHECK (transition IN ('opened', 'closed', 'withdrawn', 'returned')),
    at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    reason TEXT
) STRICT;
CREATE INDEX incident_transitions_by_incident ON incident_transitions (incident_id);

CREATE VIEW all_incidents AS
SELECT
    id, kind, tenant, rule, fingerprint, window_start, window_end, detection, status, count, total, total_at,
    first_ts, last_ts, opened_at, closed_at, episode_id, superseded_by, reason, samples
FROM incidents;

-- How far the input is durable (G-3).
CREATE TABLE progress (
    topic_id BLOB NOT NULL,
    "partition" INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    watermark INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    unmatched INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    PRIMARY KEY (topic_id, "partition")
) STRICT, WITHOUT ROWID;

-- Its one row: who writes, and what is true of the whole.
CREATE TABLE pipeline (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    generation INTEGER NOT NULL,
    heartbeat INTEGER NOT NULL,
    closed INTEGER,
    settings_hash BLOB NOT NULL
) STRICT;

-- Files that have been read (design, decision 14): `input_id` is the hash of the first `head_bytes` bytes.
CREATE TABLE inputs (
    input_id BLOB PRIMARY KEY NOT NULL,
    head_bytes INTEGER NOT NULL CHECK (head_bytes BETWEEN 1 AND 4096),
    path TEXT NOT NULL,
    first_read INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
