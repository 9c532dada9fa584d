import Postgres
import SyncModel

/// The statements of a group of lane steps. Each statement processes many rows, like the statements in
/// ``GroupStatements``.
///
/// Each look-up is a lateral subquery that PostgreSQL must not merge into its query (`OFFSET 0`). The subquery uses an
/// index, in one partition.
enum LaneStatements {
    /// The maximum number of a lane's waiters that one statement reads.
    static let unblockLimit = 1_000
    /// The cost of releasing one mutation, in look-ups, without the look-ups of its dependencies.
    static let releaseCost = 8
    /// If a list of dependencies has at most this length, it is always reduced to its unmet entries.
    static let shortList = 32

    /// SQL for `MutationRecord.satisfiesDependants`, for a mutation called `y`.
    private static let satisfiesDependants =
        "(y.status = 'succeeded' OR (y.status = 'discarded' AND y.resolution = 'server_wins'))"

    /// Reads the mutations in flight of lanes whose worker was lost. No mutation in flight precedes its lane's head.
    static let inFlight = Statement(
        "lane_in_flight",
        HeadRow.columns.inputs,
        """
        SELECT k.job, \(QueuedColumns.list)
        FROM \(HeadRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM mutations x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
                AND x.position >= k.head_position AND \(LaneRows.isRunnable("x")) AND x.status = 'in_flight'
            OFFSET 0
        ) m
        ORDER BY k.job, m.position
        """
    )

    /// Finds done mutations for which other mutations still wait.
    ///
    /// There are such mutations if the lane's worker was lost before it had released all waiting mutations.
    static let doneBlockers = Statement(
        "lane_done_blockers",
        JobRow.columns.inputs,
        """
        SELECT DISTINCT k.job, d.id
        FROM \(JobRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT DISTINCT x.blocked_on FROM mutations x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.blocked_on IS NOT NULL
            OFFSET 0
        ) b
        CROSS JOIN LATERAL (
            SELECT y.id FROM mutations y
            WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.id = b.blocked_on
                AND \(satisfiesDependants)
            OFFSET 0
        ) d
        """
    )

    static let writeOutcomes = Statement(
        "lane_write_outcomes",
        OutcomeRow.columns.inputs + ["now"],
        outcomes(
            OutcomeRow.columns,
            """
            \(OutcomeRow.uncommon.assigned(from: "k")), is_outcome_unknown = k.is_outcome_unknown,
                conflict_retries = k.conflict_retries, hold_count = k.hold_count
            """
        )
    )

    /// Writes outcomes that need only the columns of ``OutcomeRow/common``.
    ///
    /// Most outcomes are of this kind. The statement has half as many arrays as ``writeOutcomes``.
    static let writeCommonOutcomes = Statement(
        "lane_write_usual_outcomes",
        OutcomeRow.common.inputs + ["now"],
        outcomes(
            OutcomeRow.common,
            """
            \(OutcomeRow.uncommon.cleared), is_outcome_unknown = false, conflict_retries = 0, hold_count = 0
            """
        )
    )

    /// - Parameter uncommon: the assignments that only a few outcomes need.
    private static func outcomes(_ columns: Columns<OutcomeRow>, _ uncommon: String) -> String {
        """
        UPDATE mutations AS m
        SET status = k.status, revision = k.revision, attempt_count = k.attempt_count,
            server_id = coalesce(k.server_id, m.server_id),
            server_id_is_integer = CASE
                WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END,
            version = k.version, response_status = k.response_status, response_body = k.response_body, etag = k.etag,
            \(uncommon),
            change_position = k.change_position, changed_at = :now::timestamptz,
            synced_at = CASE
                WHEN k.status IN (\(MutationStatus.finalList)) THEN :now::timestamptz END,
            stuck_at = CASE
                WHEN k.status IN (\(MutationStatus.stuckList)) THEN :now::timestamptz END,
            reference_ids = CASE WHEN k.status IN (\(MutationStatus.finalList)) THEN NULL ELSE m.reference_ids END,
            reference_types = CASE WHEN k.status IN (\(MutationStatus.finalList)) THEN NULL ELSE m.reference_types END
        FROM \(columns.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
            AND m.status = k.expected_status
        """
    }

    /// Resolves the mappings of creates, marks them as failed, or counts a failed attempt.
    ///
    /// A mapping fails after more than ten failed attempts, or when its create fails (product rule 10). A success
    /// always resolves the mapping.
    static let writeMappings = Statement(
        "lane_write_mappings",
        MappingOutcomeRow.columns.inputs + ["now"],
        """
        UPDATE id_mappings AS i
        SET server_id = coalesce(k.server_id, i.server_id),
            server_id_is_integer = CASE
                WHEN k.server_id IS NULL THEN i.server_id_is_integer ELSE k.server_id_is_integer END,
            status = CASE
                WHEN k.server_id IS NOT NULL THEN 'resolved'
                WHEN i.status = 'resolved' THEN 'resolved'
                WHEN k.fails OR i.retry_count + k.tries > 10 THEN 'failed'
                ELSE i.status END,
            resolved_at = CASE
                WHEN k.server_id IS NOT NULL THEN :now::timestamptz ELSE i.resolved_at END,
            retry_count = i.retry_count + k.tries, last_error = k.last_error, change_position = k.change_position
        FROM \(MappingOutcomeRow.columns.unnested(as: "k"))
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type
        """
    )

    /// Records the server ids of the local ids of creates.
    ///
    /// If the device already has another local id of the entity, both local ids identify the entity. If a pull assigns
    /// this other id at the same moment, the unique index is violated. The group is then planned again, and finds the
    /// other id.
    static let writeLocalIDs = Statement(
        "lane_write_local_ids",
        CreatedIDRow.columns.inputs,
        """
        INSERT INTO local_ids AS l (
            organization_id, user_id, device_id, entity_type, local_id, server_id, same_as, server_id_is_integer,
            mutation_id, client_id)
        SELECT r.organization_id, r.user_id, r.device_id, r.entity_type, r.local_id,
            CASE WHEN o.local_id IS NULL THEN k.server_id END,
            CASE WHEN o.local_id IS NOT NULL THEN k.server_id END, k.server_id_is_integer, r.mutation_id, r.client_id
        FROM \(CreatedIDRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM local_ids x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.client_id = k.client_id
                AND x.mutation_id = k.mutation_id AND coalesce(x.server_id, x.same_as) IS NULL
            OFFSET 0
        ) r
        LEFT JOIN LATERAL (\(LocalIDStatements.ofServer(
            "k.server_id", type: "r.entity_type", device: "r.device_id", user: "k.user_id",
            organization: "k.organization_id"))) o ON true
        ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO UPDATE
        SET server_id = excluded.server_id, same_as = excluded.same_as,
            server_id_is_integer = excluded.server_id_is_integer
        """
    )

    /// Releases mutations that waited for a done mutation.
    ///
    /// If a mutation has no other unmet dependency, it becomes pending. Otherwise it waits for its first unmet
    /// dependency. The order of releases does not matter, because the lane starts no mutation before all of them are
    /// released.
    ///
    /// Thousands of mutations can wait, with thousands of dependencies each. Therefore the number of dependencies
    /// bounds the work: one statement releases as many mutations as `budget` allows, at least one, and returns whether
    /// there may be more.
    ///
    /// The entries of a list before the blocker are done, and are not read again. A short list is reduced to its unmet
    /// entries. A long list is read up to its first unmet entry, which becomes the next blocker. Thus each entry is
    /// looked up once as a dependency, and a second time if it becomes the blocker. A long list is cut only when at
    /// least half of it is done, because a copy of the list for each release would cost more than all other work.
    ///
    /// The waiting mutations are collected once at the start. Otherwise a plan could collect them again for every
    /// mutation of the lane.
    static let unblock = Statement(
        "lane_unblock",
        BlockerRow.columns.inputs + ["now"],
        """
        WITH w AS MATERIALIZED (
            SELECT k.*, b.id, b.more, f.unmet, f.place, f.unmet[1] AS first_unmet
            FROM \(BlockerRow.columns.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT c.id, c.depends_on, c.candidates = \(unblockLimit) OR c.total > k.budget AS more
                FROM (
                    SELECT x.*, count(*) OVER () AS candidates, sum(x.cost) OVER () AS total,
                        sum(x.cost) OVER (ROWS UNBOUNDED PRECEDING) AS so_far
                    FROM (
                        -- PostgreSQL returns the size of the list without reading the list
                        SELECT y.id, y.depends_on, \(releaseCost) + pg_column_size(y.depends_on) / 16 AS cost
                        FROM mutations y
                        WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id
                            AND y.blocked_on = k.blocker
                        LIMIT \(unblockLimit)
                    ) x
                ) c
                WHERE c.so_far - c.cost < k.budget
            ) b
            CROSS JOIN LATERAL (
                SELECT array_agg(u.id ORDER BY u.place) AS unmet, min(u.place)::int4 AS place
                FROM (
                    SELECT n.id, n.place
                    FROM (
                        SELECT a.id, a.place FROM unnest(b.depends_on) WITH ORDINALITY AS a (id, place)
                        WHERE a.place > coalesce(array_position(b.depends_on, k.blocker), 0)
                        ORDER BY a.place
                        OFFSET 0
                    ) n
                    CROSS JOIN LATERAL (
                        SELECT FROM mutations y
                        WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.id = n.id
                            AND NOT \(satisfiesDependants)
                        OFFSET 0
                    ) d
                    ORDER BY n.place
                    LIMIT CASE WHEN cardinality(b.depends_on) <= \(shortList) THEN \(shortList) ELSE 1 END
                ) u
            ) f
        )
        UPDATE mutations AS m
        SET status = CASE WHEN w.place IS NULL THEN \(MutationStatus.pending.reached(from: "m")) ELSE 'blocked' END,
            depends_on = CASE
                WHEN w.place IS NULL THEN '{}'
                WHEN cardinality(m.depends_on) <= \(shortList) THEN w.unmet
                WHEN w.place > cardinality(m.depends_on) / 2 THEN m.depends_on[w.place:]
                ELSE m.depends_on END,
            blocked_on = w.first_unmet, change_position = w.change_position,
            changed_at = :now
        FROM w
        WHERE m.organization_id = w.organization_id AND m.user_id = w.user_id AND m.id = w.id
        RETURNING w.job, m.position, m.accepted_at, m.status, w.blocker, w.more
        """
    )

    private static let headEntity = EntityRows.list(
        of: "e",
        document: "CASE WHEN m.base_version <> e.version THEN e.document END"
    )

    /// SQL for the entity of a mutation `m` of a lane `k`, and for parallel arrays of the ids that `m` names and their
    /// server ids.
    private static let surroundings: String = """
        LEFT JOIN LATERAL (
            SELECT array_agg(y.client_id) AS client_ids, array_agg(y.entity_type) AS entity_types,
                array_agg(y.server_id::text) AS server_ids, array_agg(y.server_id_is_integer) AS are_integers
            FROM unnest(m.reference_ids) AS r (client_id)
            CROSS JOIN LATERAL (
                SELECT z.client_id, z.entity_type, z.server_id, z.server_id_is_integer FROM id_mappings z
                WHERE z.organization_id = k.organization_id AND z.user_id = k.user_id AND z.client_id = r.client_id
                    AND z.status = 'resolved'
                UNION ALL
                SELECT z.client_id, z.entity_type, coalesce(z.server_id, z.same_as), z.server_id_is_integer
                FROM local_ids z
                -- a device's local id is represented by a UUID of version 8, and only such UUIDs are looked up
                WHERE get_byte(uuid_send(r.client_id), 6) & 240 = 128
                    AND z.organization_id = k.organization_id AND z.user_id = k.user_id AND z.client_id = r.client_id
                    AND coalesce(z.server_id, z.same_as) IS NOT NULL
                OFFSET 0
            ) y
        ) i ON true
        LEFT JOIN LATERAL (
            SELECT * FROM entities y
            WHERE m.operation <> 'create' AND y.organization_id = k.organization_id
                AND y.entity_type = m.entity_type AND y.id = coalesce(m.server_id, (
                    SELECT z.server_id FROM id_mappings z
                    WHERE z.organization_id = k.organization_id AND z.user_id = k.user_id
                        AND z.client_id = m.local_id AND z.entity_type = m.entity_type), (
                    SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
                    WHERE m.local_number IS NOT NULL AND z.organization_id = k.organization_id
                        AND z.user_id = k.user_id AND z.client_id = m.local_id))
            OFFSET 0
        ) e ON true
        """

    /// Reads the first pending mutation of each lane, with its client ids and its entity.
    ///
    /// Parallel arrays contain the client ids that the mutation names, and their server ids. Each row also contains the
    /// entity's last writer in the feed, and the upstream's validator (ETag) of the entity. The entity's document is
    /// read only if the mutation was made on another version of the entity. Without a difference of versions, there
    /// cannot be a conflict.
    ///
    /// Usually the expected mutation is the head, and is found by its position. If not, the head is searched for in the
    /// order of positions. This search has to merge partitions, and costs more. The plan's Append node runs the two
    /// searches in this order, and the limit ends the node after the first row.
    static let heads = Statement(
        "lane_heads",
        HeadRow.columns.inputs,
        """
        SELECT k.job, \(QueuedColumns.list), i.client_ids, i.entity_types, i.server_ids, i.are_integers,
            \(headEntity)
        FROM \(HeadRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM (
                SELECT * FROM mutations a
                WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id
                    AND a.position = k.head_position AND a.synced_at IS NULL AND a.status = 'pending'
                UNION ALL
                (SELECT * FROM mutations b
                 WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
                    AND b.position > k.head_position AND \(LaneRows.isRunnable("b")) AND b.status = 'pending'
                 ORDER BY b.position
                 LIMIT 1)
            ) x
            LIMIT 1
        ) m
        \(surroundings)
        """
    )

    /// Reads the due mutations of lanes that may have several in flight, in order, with the columns of ``heads``.
    ///
    /// For each lane, the statement reads up to `room` mutations that are not retried after a back-off. It also reads
    /// up to `room` retried mutations, among the first ``LaneWindow/limit`` pending mutations.
    static let due = Statement(
        "lane_due",
        WindowRow.columns.inputs + ["now"],
        """
        SELECT k.job, \(QueuedColumns.list), i.client_ids, i.entity_types, i.server_ids, i.are_integers,
            \(headEntity)
        FROM \(WindowRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            (SELECT * FROM mutations b
            WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
                AND b.position >= k.head_position AND \(LaneRows.isRunnable("b")) AND b.status = 'pending'
                AND (b.next_retry_at IS NULL OR b.attempt_count = 0 AND b.next_retry_at <= :now)
            ORDER BY b.position
            LIMIT k.room)
            UNION ALL
            (SELECT * FROM (
                SELECT * FROM mutations b
                WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
                    AND b.position >= k.head_position AND \(LaneRows.isRunnable("b")) AND b.status = 'pending'
                ORDER BY b.position
                LIMIT \(LaneWindow.limit)
            ) b
            WHERE b.attempt_count > 0 AND b.next_retry_at <= :now
            ORDER BY b.position
            LIMIT k.room)
        ) m
        \(surroundings)
        ORDER BY k.job, m.position
        """
    )

    /// Reads the first pending mutation and the time of the next retry, for lanes that may have several mutations in
    /// flight.
    ///
    /// The next retry is searched for among the first ``LaneWindow/limit`` pending mutations. `is_full` is true if the
    /// lane has at least this number of pending mutations.
    static let windows = Statement(
        "lane_windows",
        HeadRow.columns.inputs + ["now"],
        """
        SELECT k.job, w.position, w.accepted_at, w.next_retry_at, w.is_full
        FROM \(HeadRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT min(p.position) AS position, (array_agg(p.accepted_at ORDER BY p.position))[1] AS accepted_at,
                min(p.next_retry_at) FILTER (WHERE p.next_retry_at > :now) AS next_retry_at,
                count(*) = \(LaneWindow.limit) AS is_full
            FROM (
                SELECT b.position, b.accepted_at, b.next_retry_at FROM mutations b
                WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
                    AND b.position >= k.head_position AND \(LaneRows.isRunnable("b")) AND b.status = 'pending'
                ORDER BY b.position
                LIMIT \(LaneWindow.limit)
            ) p
            HAVING count(*) > 0
        ) w
        """
    )

    /// Marks mutations as in flight.
    ///
    /// No request is sent before this mark is committed (product rule 13). The change position is not raised, because
    /// readers need not see this change, and a change that touches no index costs half as much.
    static let markInFlight = Statement(
        "lane_mark_in_flight",
        FlightRow.columns.inputs + ["now"],
        """
        UPDATE mutations AS m
        SET status = \(MutationStatus.inFlight.reached(from: "m")), attempt_count = k.attempt_count, next_retry_at = NULL,
            changed_at = :now
        FROM \(FlightRow.columns.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
        """
    )

    static let all = [
        inFlight, doneBlockers, writeOutcomes, writeCommonOutcomes, writeMappings, writeLocalIDs, unblock, heads,
        due, windows, markInFlight, AttemptRow.write,
    ]
}
