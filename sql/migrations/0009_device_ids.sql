-- Why: types with device ids (seed 002): each device counts its own 64-bit ids, and no two devices agree on anything. The
-- gateway knows which entity a device means by an id, and gives each device its own ids back.

ALTER TABLE entity_types
    DROP CONSTRAINT entity_types_id_space_check,
    ADD CONSTRAINT entity_types_id_space_check CHECK (id_space IN ('mapped', 'device', 'shared')),
    -- members of documents that hold ids of entities, and of which type: {"folderId":"folder"}
    ADD COLUMN relations jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(relations) = 'object');

-- The id by which the device knows the entity. local_id is then a UUID that is made of device, type and this
-- (LocalID.clientID), so that what is said of client ids elsewhere holds for it.
ALTER TABLE mutations ADD COLUMN local_number bigint;

-- Which entity a device means by an id: one that it created, or one that it was given with a pull. The key is in the order
-- in which ids are counted.
CREATE TABLE local_ids (
    organization_id       uuid NOT NULL,
    user_id               uuid NOT NULL,
    device_id             uuid NOT NULL,
    entity_type           text NOT NULL COLLATE "C",
    local_id              bigint NOT NULL,
    -- null while the create has not taken effect
    server_id             server_id,
    server_id_is_integer  boolean NOT NULL DEFAULT false,
    -- of a number that is not the first by which the device knows the entity, the permanent id stands here: the device
    -- created what it had been given already, and both its objects mean that
    same_as               server_id,
    -- the create that brings the entity into being; null for what a pull assigned
    mutation_id           uuid,
    -- set where a mutation that waits names the id: it is found by this when its turn comes (mutations.reference_ids)
    client_id             uuid,
    PRIMARY KEY (organization_id, user_id, device_id, entity_type, local_id),
    CONSTRAINT leads_somewhere CHECK (
        server_id IS NOT NULL OR same_as IS NOT NULL OR (mutation_id IS NOT NULL AND client_id IS NOT NULL)),
    CONSTRAINT leads_to_one CHECK (server_id IS NULL OR same_as IS NULL)
) PARTITION BY HASH (organization_id);

-- The other way round. A device's entries lie side by side: a first pull fills pages one after the other, and does not
-- touch one for each id. What looks for all devices' ids of an entity goes through the devices, which is seldom.
CREATE UNIQUE INDEX local_ids_by_server_id
    ON local_ids (organization_id, user_id, device_id, entity_type, server_id) INCLUDE (local_id)
    WHERE server_id IS NOT NULL;
CREATE INDEX local_ids_by_same_as ON local_ids (organization_id, entity_type, same_as) WHERE same_as IS NOT NULL;
CREATE UNIQUE INDEX local_ids_by_client_id ON local_ids (organization_id, user_id, client_id)
    WHERE client_id IS NOT NULL;

-- What a pull assigned, tentatively: nobody knows whether the device got the page. When it pulls on from there, it did,
-- and the ids become local_ids. A row a page, for most are never looked at again. The last page that was confirmed stays,
-- without its ids: pages are numbered upwards for ever, and those at or below it are done with.
CREATE TABLE local_id_pages (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    device_id        uuid NOT NULL,
    page             ordinal NOT NULL,
    -- the page from whose cursor it was pulled (0: none), and where the device counted on, by type: {"task":2}. Of several
    -- pages these tell which the device may have applied.
    since_page       whole_number NOT NULL,
    counters         json NOT NULL,
    -- whether the device has pulled in a later state, so that it cannot have applied this one, unless its cursor comes
    is_superseded    boolean NOT NULL DEFAULT false,
    -- side by side; null once confirmed
    entity_types     text[],
    local_ids        bigint[],
    server_ids       text[],
    are_integers     boolean[],
    PRIMARY KEY (organization_id, user_id, device_id, page),
    CONSTRAINT all_or_none CHECK (
        (entity_types IS NULL) = (local_ids IS NULL) AND (local_ids IS NULL) = (server_ids IS NULL)
        AND (server_ids IS NULL) = (are_integers IS NULL))
) PARTITION BY HASH (organization_id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE local_ids_p%1$s PARTITION OF local_ids FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s)
             WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
                autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)',
            number);
        EXECUTE format(
            'CREATE TABLE local_id_pages_p%1$s PARTITION OF local_id_pages FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s)
             WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000)',
            number);
    END LOOP;
END $$;
