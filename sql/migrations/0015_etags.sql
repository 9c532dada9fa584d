-- Why: the result of a mutation that an upstream took shows the entity's validator, so that a client can name the state
-- that it saw. A file of its own: the change takes a moment, and needs the table for itself.

-- The upstream's ETag of the entity after the mutation; null for what did not succeed there, and in rows from before.
ALTER TABLE mutations ADD COLUMN etag text;
