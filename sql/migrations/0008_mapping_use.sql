-- Why: a mapping without an entity goes when it was not used for a month (product rule 15), so uses are noted. A file of
-- its own: the change takes a moment, but needs the table for itself, and would not get it from pushes that wait for a
-- migration which makes indexes.

-- When a push last named the client id, to the day; null: not since the mapping was made or resolved. Only of a mapping
-- without an entity it says when to go.
ALTER TABLE id_mappings ADD COLUMN last_used_at timestamptz;
