-- Of the stored records those that no other record can be a copy of: each has a row of its own, which a comparison can
-- demand. Partitions that were begun before this was tallied have fewer than there are.
ALTER TABLE progress ADD COLUMN unique_rows bigint NOT NULL DEFAULT 0;
