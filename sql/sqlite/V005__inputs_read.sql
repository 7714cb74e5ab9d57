-- What is known of an input beyond its first bytes, so that a file that was changed where it was read already, or is
-- read in another format, is refused.
--
-- The hash of the first bytes; of several inputs with the same one the first has it as its id as well.
ALTER TABLE inputs ADD COLUMN head_id BLOB;
-- How its records were read: format, zone and mapping.
ALTER TABLE inputs ADD COLUMN written TEXT;
-- How many of its bytes were read, and their hash.
ALTER TABLE inputs ADD COLUMN read_bytes INTEGER CHECK (read_bytes >= 0);
ALTER TABLE inputs ADD COLUMN read_hash BLOB;

UPDATE inputs SET head_id = input_id;
