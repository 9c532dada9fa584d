-- Why: a device can delete an entity while another device, offline, makes an entity refer to it. The gateway accepted
-- both changes: phones showed different rows permanently, and visible rows referred to nothing. Deletions now find the
-- entities that refer to the deleted one, and the rule of each relation determines the result (product rule 19).

ALTER TABLE entity_types
    -- the rule of each relation whose rule is not 'restrict'
    ADD COLUMN on_delete jsonb NOT NULL DEFAULT '{}';

-- References between entities of the built-in store, by the members that are relations. The table only serves to find
-- them: the documents, which can be sealed, are authoritative. Ids are not content, and are not sealed, as in
-- `entities`.
CREATE TABLE entity_references (
    organization_id  uuid NOT NULL,
    to_type          text NOT NULL COLLATE "C",
    to_id            server_id NOT NULL,
    entity_type      text NOT NULL COLLATE "C",
    id               server_id NOT NULL,
    member           text NOT NULL COLLATE "C",
    PRIMARY KEY (organization_id, to_type, to_id, entity_type, id, member)
) PARTITION BY HASH (organization_id);

-- The references of an entity, which are replaced when the entity changes.
CREATE INDEX entity_references_by_entity ON entity_references (organization_id, entity_type, id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE entity_references_p%1$s PARTITION OF entity_references
                FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s)', number);
    END LOOP;
END $$;
