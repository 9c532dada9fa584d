-- Why: entity types with device ids (specification 002). Each device counts its own 64-bit ids, independently of other
-- devices. The gateway stores which entity a device means by an id, and returns each device its own ids.

ALTER TABLE entity_types
    DROP CONSTRAINT entity_types_id_space_check,
    ADD CONSTRAINT entity_types_id_space_check CHECK (id_space IN ('mapped', 'device', 'shared')),
    -- members of documents that contain ids of entities, and the types of these entities: {"folderId":"folder"}
    ADD COLUMN relations jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(relations) = 'object');

-- The device's own id of the entity. For such a mutation, local_id is a UUID derived from device, type and this number
-- (LocalID.clientID), so all rules for client ids apply to it.
ALTER TABLE mutations ADD COLUMN local_number bigint;

-- The entity that a device means by an id: an entity that the device created or received in a pull. The key is in the
-- order in which devices count.
CREATE TABLE local_ids (
    organization_id       uuid NOT NULL,
    user_id               uuid NOT NULL,
    device_id             uuid NOT NULL,
    entity_type           text NOT NULL COLLATE "C",
    local_id              bigint NOT NULL,
    -- null while the create has not taken effect
    server_id             server_id,
    server_id_is_integer  boolean NOT NULL DEFAULT false,
    -- the permanent id, if this is not the device's first number for the entity: the device created an entity that it
    -- had already received, and both of its objects mean that entity
    same_as               server_id,
    -- the create of the entity; null if a pull assigned the id
    mutation_id           uuid,
    -- set if a waiting mutation names the id: the mutation finds the row by it when it runs (mutations.reference_ids)
    client_id             uuid,
    PRIMARY KEY (organization_id, user_id, device_id, entity_type, local_id),
    CONSTRAINT leads_somewhere CHECK (
        server_id IS NOT NULL OR same_as IS NOT NULL OR (mutation_id IS NOT NULL AND client_id IS NOT NULL)),
    CONSTRAINT leads_to_one CHECK (server_id IS NULL OR same_as IS NULL)
) PARTITION BY HASH (organization_id);

-- The reverse direction. A device's entries are adjacent, so a first pull fills pages sequentially instead of touching
-- a page for each id. A search for all devices' ids of an entity goes through the devices, and is rare.
CREATE UNIQUE INDEX local_ids_by_server_id
    ON local_ids (organization_id, user_id, device_id, entity_type, server_id) INCLUDE (local_id)
    WHERE server_id IS NOT NULL;
CREATE INDEX local_ids_by_same_as ON local_ids (organization_id, entity_type, same_as) WHERE same_as IS NOT NULL;
CREATE UNIQUE INDEX local_ids_by_client_id ON local_ids (organization_id, user_id, client_id)
    WHERE client_id IS NOT NULL;

-- Assignments of a pull that the device has not confirmed, because the response may have been lost. When the device
-- pulls from the page's cursor, it has applied the page, and the ids become local_ids. There is one row per page,
-- because most pages are never read again. The last confirmed page remains, without its ids: page numbers only
-- increase, and pages at or below it are complete.
CREATE TABLE local_id_pages (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    device_id        uuid NOT NULL,
    page             ordinal NOT NULL,
    -- the page from whose cursor the device pulled (0: none), and the counters from which it continued, by type:
    -- {"task":2}. With several pages, these show which page the device may have applied
    since_page       whole_number NOT NULL,
    counters         json NOT NULL,
    -- whether the device has pulled in a later state: it cannot have applied this page, unless it presents the page's
    -- cursor
    is_superseded    boolean NOT NULL DEFAULT false,
    -- parallel arrays; null once confirmed
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
