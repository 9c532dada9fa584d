-- Why: the digits of an event's moment beyond the microsecond, in units of 10^-24 seconds: PostgreSQL's timestamps end there,
-- and an event that is a nanosecond older must not replace a newer one. NULL: none.
ALTER TABLE entities ADD COLUMN source_at_fraction int8;
ALTER TABLE parked_events ADD COLUMN occurred_at_fraction int8;
