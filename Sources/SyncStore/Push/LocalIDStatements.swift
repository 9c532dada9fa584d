import Postgres

/// The statements that read and write the local ids of a group of pushes. The statements follow the rules of
/// ``GroupStatements``.
package enum LocalIDStatements {
    /// Reads the mappings of local ids, one row for each requested id.
    ///
    /// The last column is true if an id has no row, and an unconfirmed pull may have assigned it. An id is abandoned if
    /// its create was discarded or deleted. Therefore the statement reads the creates of ids without a server id.
    static let find = Statement(
        "group_local_ids",
        PushLocalIDRow.columns.inputs,
        """
        SELECT k.push, k.device_id, k.entity_type, k.local_id, l.local_id IS NOT NULL AS is_known,
            coalesce(l.server_id, l.same_as) AS server_id, l.server_id_is_integer, l.mutation_id,
            CASE WHEN coalesce(l.server_id, l.same_as) IS NULL THEN coalesce((
                SELECT m.status = 'discarded' FROM mutations m
                WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = l.mutation_id), true)
            ELSE false END AS is_abandoned, l.client_id IS NOT NULL AS is_pinned,
            -- a subquery that returns a value, because PostgreSQL could evaluate EXISTS by a hash table of all pages
            l.local_id IS NULL AND (
                SELECT p.page FROM local_id_pages p
                WHERE p.organization_id = k.organization_id AND p.user_id = k.user_id AND p.device_id = k.device_id
                    AND p.entity_types IS NOT NULL
                LIMIT 1) IS NOT NULL AS may_be_assigned
        FROM \(PushLocalIDRow.columns.unnested(as: "k"))
        LEFT JOIN LATERAL (
            SELECT * FROM local_ids x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
                AND x.entity_type = k.entity_type AND x.local_id = k.local_id
            OFFSET 0
        ) l ON true
        """
    )

    /// Reads local ids that are only needed to compare repeats, including the ids of deleted entities.
    static let findCompared = Statement(
        "group_compared_local_ids",
        PushLocalIDRow.compared.inputs,
        """
        SELECT k.push, k.device_id, k.entity_type, k.local_id, l.server_id, l.server_id_is_integer
        FROM \(PushLocalIDRow.compared.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT coalesce(x.server_id, x.same_as) AS server_id, x.server_id_is_integer FROM local_ids x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
                AND x.entity_type = k.entity_type AND x.local_id = k.local_id
            UNION ALL
            SELECT y.server_id, y.server_id_is_integer FROM id_mappings y
            WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.client_id = k.retired_id
                AND y.entity_type = k.entity_type
            OFFSET 0
        ) l
        """
    )

    /// The local id of an entity on a device, as a subquery for LATERAL that uses the index by server ids.
    ///
    /// The subquery compares rows instead of single columns, because only one index has the order of this comparison.
    /// If each column was compared for equality, a plan without statistics could choose the primary key, and read all
    /// ids of the device for each look-up.
    package static func ofServer(
        _ id: String,
        type: String,
        device: String,
        user: String,
        organization: String
    ) -> String {
        """
        SELECT s.* FROM (
                    SELECT z.* FROM local_ids z
                    WHERE z.organization_id = \(organization) AND z.server_id IS NOT NULL
                        AND (z.user_id, z.device_id, z.entity_type, z.server_id) >= (\(user), \(device), \(type), \(id))
                    ORDER BY z.user_id, z.device_id, z.entity_type, z.server_id
                    LIMIT 1
                ) s
                WHERE s.user_id = \(user) AND s.device_id = \(device) AND s.entity_type = \(type)
                    AND s.server_id = \(id)
                OFFSET 0
        """
    }

    /// Reads all pages of pulls with unconfirmed assignments to devices.
    static let pages = Statement(
        "group_local_id_pages",
        PushIDRow.devices.inputs,
        """
        SELECT k.push, p.entity_types, p.local_ids, p.server_ids, p.are_integers
        FROM \(PushIDRow.devices.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM local_id_pages x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
                AND x.entity_types IS NOT NULL AND NOT x.is_superseded
            OFFSET 0
        ) p
        """
    )

    /// Inserts new ids of creates.
    ///
    /// If a pull has just been confirmed, an id may already exist. The primary key is then violated, and the group is
    /// planned again.
    static let write = Statement("group_write_local_ids", LocalIDRows.whole.inputs, rows)

    /// Writes ids that replace abandoned ids, whose creates were deleted.
    ///
    /// An abandoned id never has a server id here, because the lane is locked. If it had a server id, a CHECK would be
    /// violated (23514).
    static let replace = Statement(
        "group_replace_local_ids",
        LocalIDRows.whole.inputs,
        """
        \(rows)
        ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO UPDATE
        SET server_id = CASE WHEN coalesce(l.server_id, l.same_as) IS NULL THEN excluded.server_id END,
            server_id_is_integer = excluded.server_id_is_integer, same_as = NULL,
            mutation_id = CASE WHEN coalesce(l.server_id, l.same_as) IS NULL THEN excluded.mutation_id END,
            client_id = excluded.client_id
        """
    )

    /// Inserts ids that a pull assigned and a push uses. If a pull confirms its page at the same moment, the pull
    /// inserts the same rows.
    static let confirm = Statement(
        "group_confirm_local_ids",
        LocalIDRows.whole.inputs,
        rows + "\nON CONFLICT DO NOTHING"
    )

    /// Inserts assigned ids of entities that already have another local id on the device. Both local ids then identify
    /// the entity.
    static let confirmSecond = Statement(
        "group_confirm_second_local_ids",
        LocalIDRows.second.inputs,
        """
        INSERT INTO local_ids AS l (
            organization_id, user_id, device_id, entity_type, local_id, same_as, server_id_is_integer)
        SELECT k.organization_id, k.user_id, k.device_id, k.entity_type, k.local_id, k.server_id,
            k.server_id_is_integer
        FROM \(LocalIDRows.second.unnested(as: "k"))
        ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO NOTHING
        """
    )

    private static let rows = """
        INSERT INTO local_ids AS l (
            organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, mutation_id,
            client_id)
        SELECT k.organization_id, k.user_id, k.device_id, k.entity_type, k.local_id, k.server_id,
            k.server_id_is_integer, k.mutation_id, k.client_id
        FROM \(LocalIDRows.whole.unnested(as: "k"))
        """

    /// Stores the UUIDs by which waiting mutations find local ids.
    static let pin = Statement(
        "group_pin_local_ids",
        LocalIDRows.pin.inputs,
        """
        UPDATE local_ids AS l
        SET client_id = k.client_id
        FROM \(LocalIDRows.pin.unnested(as: "k"))
        WHERE l.organization_id = k.organization_id AND l.user_id = k.user_id AND l.device_id = k.device_id
            AND l.entity_type = k.entity_type AND l.local_id = k.local_id
        """
    )

    static let all = [find, findCompared, pages, write, replace, confirm, confirmSecond, pin]
}
