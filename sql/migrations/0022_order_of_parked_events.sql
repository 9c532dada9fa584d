-- Why: events that wait for the same outcome came in an order, and are taken in that order, one entity's behind each
-- other.

-- Numbers the events of an entity that wait, in the order in which they came. Those that came at the same moment through
-- two gateways may have the same number: then neither was first. Zero is what a gateway of the version before writes.
ALTER TABLE parked_events ADD COLUMN place whole_number NOT NULL DEFAULT 0;
CREATE INDEX parked_events_by_entity ON parked_events (organization_id, entity_type, id, place)
    WHERE entity_type IS NOT NULL;
