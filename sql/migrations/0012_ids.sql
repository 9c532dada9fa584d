-- Why: what an id in a mutation's content means is decided when the mutation is pushed, and holds from then on: at its
-- turn, in a retry, and when a worker repeats it with other ids in place.

ALTER TABLE mutations
    -- where in the canonical form that fingerprint is made of the ids stood that were cut out of it, and ids of the
    -- device (IDPlaces). Beside it and not in it: gateways of the version before read that
    ADD COLUMN fingerprint_places bytea,
    -- the types that reference_ids were created in, side by side; empty where there are none. Null of what is final, and
    -- of what was accepted before this was noted
    ADD COLUMN reference_types text[];

-- UUIDs that the device's mutations named lately and that stood for nothing, six bytes of each (StrayIDs): a create that
-- makes one of them a client id is answered with a warning.
ALTER TABLE devices ADD COLUMN stray_ids bytea;
