-- What a backfill knows of a file beyond its first bytes, so that a file that was changed where it was read already, or
-- is read in another format, is refused before anything of it counts twice.
--
-- `head_id` is the hash of the first bytes. Of several files with the same one the first has it as its id as well.
ALTER TABLE backfill_inputs
    ADD COLUMN head_id uuid,
    -- How its records were read: format, zone and mapping.
    ADD COLUMN written text,
    -- How many of its bytes were read, and their hash.
    ADD COLUMN read_bytes bigint CHECK (read_bytes >= 0),
    ADD COLUMN read_hash uuid;

UPDATE backfill_inputs SET head_id = input_id WHERE head_bytes IS NOT NULL;
