-- Why: the meaning of each id in a mutation's content is determined when the mutation is pushed. It does not change
-- later: when the mutation runs, in a retry, and when a worker repeats the mutation with other ids in it.

ALTER TABLE mutations
    -- the places of ids in the fingerprint's canonical form: of the UUIDs that were removed from it, and of the
    -- device's own ids (IDPlaces). They are not part of the fingerprint, because gateways of the previous version read
    -- that column
    ADD COLUMN fingerprint_places bytea,
    -- the types in which reference_ids were created, in the same order; empty without such ids. Null for final
    -- mutations, and for mutations that were accepted before this column existed
    ADD COLUMN reference_types text[];

-- UUIDs that the device's recent mutations named and that identified nothing, six bytes of each (StrayIDs). If a later
-- create makes one of them a client id, the response contains a warning.
ALTER TABLE devices ADD COLUMN stray_ids bytea;
