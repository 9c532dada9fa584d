-- Why: the result of a mutation that an upstream accepted contains the entity's validator, so that a client can refer
-- to the state that it received. The change takes a moment and needs an exclusive lock on the table, so it has a
-- separate file.

-- The upstream's ETag of the entity after the mutation; null if the mutation did not succeed there, and in older rows.
ALTER TABLE mutations ADD COLUMN etag text;
