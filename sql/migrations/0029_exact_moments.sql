-- Why: an event that is a nanosecond older must not replace a newer one, but PostgreSQL's timestamps end at the
-- microsecond. These columns contain the digits of an event's time beyond the microsecond, in units of 10^-24 seconds.
-- Null: no such digits.
ALTER TABLE entities ADD COLUMN source_at_fraction int8;
ALTER TABLE parked_events ADD COLUMN occurred_at_fraction int8;
