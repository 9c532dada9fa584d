import Postgres

/// The statements of a group's second round trip. Each writes the rows of the whole group.
extension GroupStatements {
    static let writeDevices = Statement(
        "group_write_devices",
        DevicePushRow.columns.inputs + ["now"],
        """
        INSERT INTO devices AS d (
            organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at, stray_ids)
        SELECT k.organization_id, k.user_id, k.device_id, k.accepted_sequence, :now,
            :now, k.stray_ids
        FROM \(DevicePushRow.columns.unnested(as: "k"))
        ON CONFLICT (organization_id, user_id, device_id) DO UPDATE
        SET accepted_sequence = excluded.accepted_sequence, last_seen_at = excluded.last_seen_at,
            stray_ids = coalesce(excluded.stray_ids, d.stray_ids)
        """
    )

    static let writeUsers = Statement(
        "group_write_users",
        Columns.lanes.inputs + ["now"],
        """
        INSERT INTO users AS u (organization_id, user_id, created_at)
        SELECT k.organization_id, k.user_id, :now
        FROM \(Columns.lanes.unnested(as: "k"))
        -- if an operator provisions users, a push adds no user, because the operator may have just excluded this user
        WHERE (SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = k.organization_id)
            IS DISTINCT FROM 'explicit'
        ON CONFLICT (organization_id, user_id) DO NOTHING
        """
    )

    static let writeMutations = Statement(
        "group_write_mutations",
        MutationRow.columns.inputs + ["now", "dependencies", "blockers", "references", "reference_types"],
        """
        INSERT INTO mutations AS m (
            \(MutationRow.plain.names), dependency_ids, depends_on, blocked_on, last_error_code, accepted_at, changed_at,
            stuck_at, reference_ids, reference_types)
        SELECT \(MutationRow.plain.names(of: "k")),
            -- the ids of all rows are one list, and each row takes a slice of the list
            (:dependencies::uuid[])[k.dependencies_from : k.dependencies_to], (:blockers::uuid[])[k.blockers_from : k.blockers_to],
            CASE WHEN k.blockers_to >= k.blockers_from THEN (:blockers::uuid[])[k.blockers_from] END,
            CASE WHEN k.last_error IS NOT NULL THEN k.response_status END, :now, :now,
            CASE WHEN k.error_code IS NOT NULL THEN :now::timestamptz END,
            CASE WHEN k.references_to >= k.references_from
                THEN (:references::uuid[])[k.references_from : k.references_to] END,
            CASE WHEN k.synced_at IS NULL THEN (:reference_types::text[])[k.references_from : k.references_to] END
        FROM \(MutationRow.columns.unnested(as: "k"))
        """
    )

    /// Inserts mutations that need only the columns of ``MutationRow/common``.
    ///
    /// Most groups have only such mutations. Compared with the complete statement, this statement has a third fewer
    /// arrays, and no slices of lists.
    static let writeCommonMutations = Statement(
        "group_write_usual_mutations",
        MutationRow.common.inputs + ["now"],
        """
        INSERT INTO mutations AS m (
            \(MutationRow.common.names), accepted_at, changed_at)
        SELECT \(MutationRow.common.names(of: "k")), :now, :now
        FROM \(MutationRow.common.unnested(as: "k"))
        """
    )

    static let writeMappings = Statement(
        "group_write_mappings",
        MappingRow.columns.inputs + ["now"],
        mappingRows
    )

    /// Writes mappings that replace abandoned mappings.
    ///
    /// If a mapping is no longer abandoned, NOT NULL is violated (23502). That would require another create that took
    /// over the mapping, or a restored create, and the lane's lock makes both impossible.
    static let replaceMappings = Statement(
        "group_replace_mappings",
        MappingRow.columns.inputs + ["now"],
        """
        \(mappingRows)
        ON CONFLICT (organization_id, user_id, client_id, entity_type) DO UPDATE
        SET server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
            status = CASE WHEN i.status = 'failed' THEN excluded.status END, mutation_id = excluded.mutation_id,
            change_position = excluded.change_position, retry_count = 0, last_error = NULL,
            created_at = excluded.created_at, resolved_at = excluded.resolved_at,
            last_used_at = excluded.last_used_at
        """
    )

    private static let mappingRows = """
        INSERT INTO id_mappings AS i (
            organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
            change_position, created_at, resolved_at, last_used_at)
        SELECT k.organization_id, k.user_id, k.client_id, k.entity_type, k.server_id, k.server_id_is_integer, k.status,
            k.mutation_id, k.change_position, k.created_at,
            CASE WHEN k.status = 'resolved' THEN :now::timestamptz END,
            :now::timestamptz
        FROM \(MappingRow.columns.unnested(as: "k"))
        """

    /// Records the use of mappings, unless a use was recorded within a day.
    ///
    /// Retention keeps a mapping without an entity according to its last recorded use (``MappingNeed``).
    static let touchMappings = Statement(
        "group_touch_mappings",
        MappingName.columns.inputs + ["now"],
        """
        UPDATE id_mappings AS i
        SET last_used_at = :now
        FROM \(MappingName.columns.unnested(as: "k"))
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type
        """
    )

    static let writeRejections = Statement(
        "group_write_rejections",
        RejectionRow.columns.inputs + ["now"],
        """
        INSERT INTO rejections AS r (
            organization_id, user_id, idempotency_key, id, device_id, sequence_number, error, rejected_at)
        SELECT k.organization_id, k.user_id, k.idempotency_key, k.id, k.device_id, k.sequence_number, k.error,
            :now
        FROM \(RejectionRow.columns.unnested(as: "k"))
        ON CONFLICT (organization_id, user_id, idempotency_key) DO UPDATE
        SET id = excluded.id, device_id = excluded.device_id, sequence_number = excluded.sequence_number,
            error = excluded.error, rejected_at = excluded.rejected_at
        """
    )

    /// Marks types as in use.
    ///
    /// If an operator has changed an id space since the plan was made, NOT NULL is violated (23502). The committer then
    /// reads the types again and makes a new plan.
    static let useTypes = Statement(
        "group_use_types",
        TypeRow.columns.inputs,
        """
        INSERT INTO entity_types AS t (
            organization_id, name, id_space, visibility, default_priority, is_forwarded, relations, is_in_use)
        SELECT k.organization_id, k.name, k.id_space, k.visibility, k.default_priority, k.is_forwarded,
            k.relations::jsonb, true
        FROM \(TypeRow.columns.unnested(as: "k"))
        ORDER BY k.organization_id, k.name
        ON CONFLICT (organization_id, name) DO UPDATE
        SET is_in_use = CASE
            WHEN t.id_space = excluded.id_space AND t.visibility = excluded.visibility
                AND t.is_forwarded = excluded.is_forwarded AND t.relations = excluded.relations
            THEN true END
        """
    )

    static let readFeeds = Statement(
        "group_read_feeds",
        ["organizations"],
        """
        SELECT f.organization_id, f.epoch, f.last_position
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (SELECT * FROM feeds x WHERE x.organization_id = k.organization_id OFFSET 0) f
        """
    )

    static let writing = [
        writeDevices, writeUsers, writeMutations, writeCommonMutations, writeMappings, replaceMappings, touchMappings,
        writeRejections, useTypes, readFeeds,
    ]
}
