import Postgres

/// The statements of a pull. Each statement processes many rows.
///
/// Each look-up is a lateral subquery. `OFFSET 0` prevents PostgreSQL from merging the subquery into the outer query.
/// For each entity type, the look-up uses an index of one partition. A test checks the plans with EXPLAIN.
enum PullStatements {
    /// Reads the local ids (numbers) by which the device identifies some entities.
    ///
    /// The result has two parallel arrays: positions of server ids in `ids`, and the local ids of their entities. The
    /// positions are counted over the ids of all types together.
    static let numbers = Statement(
        "pull_numbers",
        ["organization", "user", "device", "entity_types", "firsts", "lasts", "ids"],
        """
        SELECT array_agg(x.place) AS places, array_agg(x.local_id) AS local_ids
        FROM unnest(:entity_types::text[], :firsts::int4[], :lasts::int4[]) AS k (entity_type, first, last)
        CROSS JOIN LATERAL (
            SELECT e.place + k.first - 2 AS place, y.local_id
            FROM unnest((:ids::text[])[k.first : k.last]) WITH ORDINALITY AS e (server_id, place)
            -- each id has its own look-up: PostgreSQL keeps the plan, and with `= ANY` a plan that was made on a small
            -- table would always read all ids of the device
            CROSS JOIN LATERAL (\(LocalIDStatements.ofServer(
                "e.server_id", type: "k.entity_type", device: ":device", user: ":user", organization: ":organization")))
                y
            OFFSET 0
        ) x
        """
    )

    /// Reads all local ids of a device, by type.
    static let allNumbers = Statement(
        "pull_all_numbers",
        ["organization", "user", "device", "limit"],
        """
        SELECT x.entity_type, array_agg(x.server_id::text) AS server_ids, array_agg(x.local_id) AS local_ids
        FROM (
            SELECT y.entity_type, y.server_id, y.local_id
            FROM local_ids y
            WHERE y.organization_id = :organization AND y.user_id = :user AND y.device_id = :device AND y.server_id IS NOT NULL
            LIMIT :limit
        ) x
        GROUP BY x.entity_type
        """
    )

    /// Reads, for each type, the highest local id in use, and the first local ids in use from a base on.
    ///
    /// Local ids in use include the local ids of creates that have not taken effect.
    static let taken = Statement(
        "pull_taken",
        ["organization", "user", "device", "entity_types", "bases", "counts"],
        """
        SELECT k.entity_type, h.highest, ARRAY(
            SELECT y.local_id
            FROM local_ids y
            WHERE y.organization_id = :organization AND y.user_id = :user AND y.device_id = :device AND y.entity_type = k.entity_type
                AND y.local_id >= k.base
            ORDER BY y.local_id
            LIMIT k.count
        ) AS taken
        FROM unnest(:entity_types::text[], :bases::int8[], :counts::int8[]) AS k (entity_type, base, count)
        CROSS JOIN LATERAL (
            SELECT (
                SELECT z.local_id FROM local_ids z
                WHERE z.organization_id = :organization AND z.user_id = :user AND z.device_id = :device AND z.entity_type = k.entity_type
                ORDER BY z.local_id DESC LIMIT 1
            ) AS highest
            OFFSET 0
        ) h
        """
    )

    /// Reads the outstanding pages of a device, and its last confirmed page.
    ///
    /// A page is outstanding until its assignments are confirmed or dropped.
    static let pages = Statement(
        "pull_pages",
        ["organization", "user", "device"],
        """
        SELECT p.page, p.entity_types IS NOT NULL AS is_outstanding
        FROM local_id_pages p
        WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device
        """
    )

    // MARK: - Tentative pages

    /// Reads the assignments of the outstanding pages that are not superseded.
    ///
    /// Each row also contains the device's state when it pulled the page: the newest page that the device had, and its
    /// counters.
    static let rivals = Statement(
        "pull_rivals",
        ["organization", "user", "device"],
        """
        SELECT p.page, p.since_page, p.counters, p.entity_types, p.local_ids, p.server_ids, p.are_integers
        FROM local_id_pages p
        WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device AND p.entity_types IS NOT NULL
            AND NOT p.is_superseded
        """
    )

    /// Stores a page's assignments.
    ///
    /// The statement locks two rows. It locks the organization's row, as the creation of a lane does, because a purged
    /// organization accepts no new rows. It also locks the device's row, because a device that moved with a joined user
    /// accepts no new rows. If the statement returns no row, the organization or the device no longer exists, or a
    /// concurrent pull stored its page first.
    static let keepPage = Statement(
        "pull_keep_page",
        [
            "organization", "user", "device", "page", "since_page", "ranges", "entity_types", "local_ids", "server_ids",
            "are_integers",
        ],
        """
        INSERT INTO local_id_pages AS p (
            organization_id, user_id, device_id, page, since_page, counters, entity_types, local_ids, server_ids,
            are_integers)
        SELECT :organization::uuid, :user::uuid, :device::uuid, :page::int8, :since_page::int8, :ranges::text::json, :entity_types::text[], :local_ids::int8[], :server_ids::text[],
            :are_integers::bool[]
        WHERE (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) = 'active'
            AND (SELECT d.device_id FROM devices d
                 WHERE d.organization_id = :organization AND d.user_id = :user AND d.device_id = :device FOR KEY SHARE) IS NOT NULL
        ON CONFLICT (organization_id, user_id, device_id, page) DO NOTHING
        """
    )

    static let supersede = Statement(
        "pull_supersede",
        ["organization", "user", "device", "pages"],
        """
        UPDATE local_id_pages AS p
        SET is_superseded = true
        WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device AND p.page = ANY (:pages::int8[])
        """
    )

    /// Drops the oldest outstanding pages beyond the limit.
    static let dropPages = Statement(
        "pull_drop_pages",
        ["organization", "user", "device", "limit"],
        """
        DELETE FROM local_id_pages p
        WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device AND p.entity_types IS NOT NULL
            AND p.page <= (
                SELECT x.page FROM local_id_pages x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.device_id = :device AND x.entity_types IS NOT NULL
                ORDER BY x.page DESC OFFSET :limit LIMIT 1)
        """
    )

    static let organization = Statement(
        "pull_organization",
        ["organization"],
        "SELECT o.status FROM organizations o WHERE o.id = :organization"
    )

    // MARK: - Confirming

    /// Locks a device's pages, and the organization's row.
    ///
    /// A purged organization accepts no new rows.
    static let lockPages = Statement(
        "pull_lock_pages",
        ["organization", "user", "device"],
        """
        SELECT p.page, p.entity_types IS NOT NULL AS is_outstanding, coalesce(cardinality(p.local_ids), 0) AS given
        FROM local_id_pages p
        WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device
            AND (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) = 'active'
        ORDER BY p.page
        FOR UPDATE OF p
        """
    )

    /// Confirms a page's assignments.
    ///
    /// If the device already has a local id for the entity, or already uses the assigned local id for another entity,
    /// the existing row takes precedence over the page's assignment.
    static let confirm = confirming("pull_confirm", as: "server_id", onConflict: "")

    /// Confirms local ids of entities for which the device already has another local id.
    ///
    /// The device created an entity to which the page also assigned a local id. Both local ids identify this entity.
    static let confirmSecond = confirming(
        "pull_confirm_second",
        as: "same_as",
        onConflict: "(organization_id, user_id, device_id, entity_type, local_id)"
    )

    private static func confirming(_ name: String, as column: String, onConflict key: String) -> Statement {
        Statement(
            name,
            ["organization", "user", "device", "page", "first", "last"],
            """
            INSERT INTO local_ids AS l (
                organization_id, user_id, device_id, entity_type, local_id, \(column), server_id_is_integer)
            SELECT p.organization_id, p.user_id, p.device_id, k.entity_type, k.local_id, k.server_id, k.is_integer
            FROM local_id_pages p
            CROSS JOIN LATERAL unnest(
                p.entity_types[:first::int4 : :last::int4], p.local_ids[:first::int4 : :last::int4],
                p.server_ids[:first::int4 : :last::int4], p.are_integers[:first::int4 : :last::int4]
            ) AS k (entity_type, local_id, server_id, is_integer)
            WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device AND p.page = :page
            ORDER BY k.entity_type COLLATE "C", k.local_id
            ON CONFLICT \(key) DO NOTHING
            """
        )
    }

    static let mark = Statement(
        "pull_mark",
        ["organization", "user", "device", "page"],
        """
        UPDATE local_id_pages AS p
        SET entity_types = NULL, local_ids = NULL, server_ids = NULL, are_integers = NULL
        WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device AND p.page = :page
        """
    )

    static let dropOthers = Statement(
        "pull_drop_others",
        ["organization", "user", "device", "page"],
        """
        DELETE FROM local_id_pages p
        WHERE p.organization_id = :organization AND p.user_id = :user AND p.device_id = :device AND p.page <> :page
        """
    )

    static let all = [
        numbers, allNumbers, taken, pages, rivals, keepPage, supersede, dropPages, organization, lockPages, confirm,
        confirmSecond,
        mark, dropOthers,
    ]
}
