-- Records that cannot be read, with the reason and their first 64 KiB (G-2). A record has one place in the log, so a
-- row that is inserted again replaces itself. There are few, and people look for them by reason and time: one partition.
CREATE TABLE IF NOT EXISTS dead_letters
(
    `topic_id` UUID,
    `partition` Int32,
    `offset` Int64,
    `record_time` DateTime64(3, 'UTC'),
    `reason` LowCardinality(String),
    `detail` String,
    `raw` String CODEC(ZSTD(1)),
    `inserted_at` DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
ORDER BY (topic_id, partition, offset)
TTL inserted_at + INTERVAL 90 DAY;
