-- What `floodmark backfill` has read (design, decision 13): files, known by the hash of their first bytes, and
-- partitions of topics. A file's records have the moment of its first reading as their record time (decision 14), so
-- that reading it again gives the same occurrences.
CREATE TABLE backfill_inputs (
    pipeline text NOT NULL,
    -- File id or topic id.
    input_id uuid NOT NULL,
    -- 0 for a file.
    partition integer NOT NULL,
    -- How many bytes the id is the hash of; NULL for a topic.
    head_bytes integer CHECK (head_bytes BETWEEN 1 AND 4096),
    -- Path or topic name, as last seen.
    name text NOT NULL,
    first_read timestamptz NOT NULL,
    -- A backfill that is not finished: the topic with this id holds all records from `began` up to `next_offset`.
    backfill_topic_id uuid,
    began bigint,
    next_offset bigint,
    PRIMARY KEY (pipeline, input_id, partition)
);
