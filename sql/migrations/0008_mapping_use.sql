-- Why: a mapping without an entity is deleted if it was not used for a month (product rule 15), so uses are recorded.
-- The change takes a moment, but needs an exclusive lock on the table. It has a separate file, because it could not get
-- that lock from pushes that wait for a migration that creates indexes.

-- The day on which a push last named the client id; null: not since the mapping was created or resolved. It determines
-- the deletion only of mappings without an entity.
ALTER TABLE id_mappings ADD COLUMN last_used_at timestamptz;
