-- Why: several events of an entity can wait for the same outcome. They are processed in the order of their arrival.

-- Numbers the parked events of an entity in the order of their arrival. Events that arrived at the same moment at two
-- gateways can have the same number, because neither was first. Gateways of the previous version write zero.
ALTER TABLE parked_events ADD COLUMN place whole_number NOT NULL DEFAULT 0;
CREATE INDEX parked_events_by_entity ON parked_events (organization_id, entity_type, id, place)
    WHERE entity_type IS NOT NULL;
