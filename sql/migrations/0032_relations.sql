-- Why: a device may delete an entity while another one, offline, makes an entity refer to it. The gateway accepted both:
-- phones showed different rows permanently, and visible rows referred to nothing. Deletions now find the entities that
-- refer to the deleted one, and the rule of each relation decides about them (product rule 19).

ALTER TABLE entity_types
    -- the rule of each relation that has another than 'restrict'
    ADD COLUMN on_delete jsonb NOT NULL DEFAULT '{}';

-- Which entities of the built-in store refer to which others, by the members that are relations. Only a way to find them:
-- documents, which may be sealed, decide. Ids are not content, and are stored openly as in `entities`.
CREATE TABLE entity_references (
    organization_id  uuid NOT NULL,
    to_type          text NOT NULL COLLATE "C",
    to_id            server_id NOT NULL,
    entity_type      text NOT NULL COLLATE "C",
    id               server_id NOT NULL,
    member           text NOT NULL COLLATE "C",
    PRIMARY KEY (organization_id, to_type, to_id, entity_type, id, member)
) PARTITION BY HASH (organization_id);

-- The references of an entity, which are replaced when it changes.
CREATE INDEX entity_references_by_entity ON entity_references (organization_id, entity_type, id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE entity_references_p%1$s PARTITION OF entity_references
                FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s)', number);
    END LOOP;
END $$;
