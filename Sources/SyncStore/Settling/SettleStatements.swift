import Postgres
import SyncModel

/// The statements of settling, each on one lane whose row is locked. Organization and user are $1 and $2 throughout.
///
/// Rows are found by their whole key, in a lateral subquery with a fence, and written by an upsert: both are chains of
/// index look-ups whatever the tables' size was when the plan was made. An UPDATE joined to a list would read a lane of
/// a hundred thousand mutations once for each row of the list.
enum SettleStatements {
    /// Plans are made once for a connection; none of them reads a whole table.
    static let planShape = Statement(
        "settle_plan_shape",
        """
        SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
        """
    )

    /// The row of a mutation that a list names, as a table that is called `name`.
    private static func byID(_ list: String, as name: String) -> String {
        """
        CROSS JOIN LATERAL (
                SELECT * FROM mutations x
                WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = \(list).id
                OFFSET 0
            ) \(name)
        """
    }

    // MARK: - Reading

    static let subjects = Statement(
        "settle_subjects",
        """
        SELECT m.id, m.endpoint, m.payload, m.is_outcome_unknown, m.reference_ids, m.reference_types,
            \(RecordColumns.list)
        FROM unnest($3::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        ORDER BY m.position
        """
    )

    /// What an ``EntityName`` is made of.
    private static let entityColumns =
        "m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer"

    private static let nodeColumns = """
        m.id, m.position, m.accepted_at, m.status, m.operation, \(entityColumns), m.depends_on
        """

    /// What depends on anything: one pass over the lane's open mutations, in the order of their index.
    static let edges = Statement(
        "settle_edges",
        """
        SELECT \(nodeColumns)
        FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.synced_at IS NULL AND m.depends_on <> '{}'
        ORDER BY m.position
        """
    )

    /// What is blocked on a mutation.
    static let waiters = Statement(
        "settle_waiters",
        """
        SELECT \(nodeColumns)
        FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.blocked_on = $3
        """
    )

    /// Those of some mutations that do not satisfy their dependants yet (product rule 3).
    static let unmet = Statement(
        "settle_unmet",
        """
        SELECT m.id, \(entityColumns)
        FROM unnest($3::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        WHERE m.status <> 'succeeded'
            AND (m.status <> 'discarded' OR m.resolution IS DISTINCT FROM 'server_wins')
        """
    )

    /// Mutations that need one of some client ids, each of a type: as their entity, in endpoint or payload, or as what
    /// they depend on. Where it was not noted which client ids these hold, their text is searched.
    static let needs = Statement(
        "settle_needs",
        """
        SELECT m.id, c.client_id
        FROM unnest($3::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        CROSS JOIN LATERAL (
            SELECT x.client_id
            FROM unnest($4::uuid[], $5::text[]) AS x (client_id, entity_type)
            WHERE (m.local_id = x.client_id AND m.entity_type = x.entity_type AND m.server_id IS NULL
                    AND m.operation <> 'create')
                OR CASE WHEN m.reference_types IS NULL THEN x.client_id = ANY (m.reference_ids)
                    ELSE (
                        SELECT r.client_id FROM unnest(m.reference_ids, m.reference_types) AS r (client_id, entity_type)
                        WHERE r.client_id = x.client_id AND r.entity_type = x.entity_type
                        LIMIT 1) IS NOT NULL END
                OR (m.reference_ids IS NULL AND m.reference_types IS NULL AND (
                    strpos(lower(m.endpoint), x.client_id::text) > 0
                    OR strpos(lower(m.payload::text), x.client_id::text) > 0))
            LIMIT 1
        ) c
        """
    )

    /// Payloads that are sealed and of which it was not noted which client ids they hold.
    static let sealedPayloads = Statement(
        "settle_sealed_payloads",
        """
        SELECT m.id, m.payload
        FROM unnest($3::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        WHERE m.reference_ids IS NULL AND m.reference_types IS NULL AND starts_with(m.payload::text, $4)
        """
    )

    /// Where ids of a device lead: $3. One that leads nowhere, and whose create was discarded or is gone, is abandoned.
    static let localIDs = Statement(
        "settle_local_ids",
        """
        SELECT l.entity_type, l.local_id, coalesce(l.server_id, l.same_as) AS server_id, l.server_id_is_integer,
            l.mutation_id,
            CASE WHEN coalesce(l.server_id, l.same_as) IS NULL THEN coalesce((
                SELECT m.status = 'discarded' FROM mutations m
                WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = l.mutation_id), true)
            ELSE false END AS is_abandoned
        FROM \(Columns.localIDs.unnested(as: "k", behind: 3))
        CROSS JOIN LATERAL (
            SELECT * FROM local_ids x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.device_id = $3 AND x.entity_type = k.entity_type
                AND x.local_id = k.local_id
            OFFSET 0
        ) l
        """
    )

    /// Whether the entity of type $4 and id $5 was written after mutation $3 last changed.
    static let isNewer = Statement(
        "settle_is_newer",
        """
        SELECT e.updated_at > m.changed_at AS is_newer
        FROM mutations m
        CROSS JOIN LATERAL (
            SELECT x.updated_at FROM entities x
            WHERE x.organization_id = $1 AND x.entity_type = $4 AND x.id = $5
            OFFSET 0
        ) e
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = $3
        """
    )

    private static let currentColumns = EntityRows.list(
        of: "q",
        document: "CASE WHEN q.bytes_to - q.bytes <= $4 THEN q.document END"
    )

    /// What stands in the place of some mutations that are to be given up, last ones first, as far as their user may see
    /// it; the documents of so many as there is room for. How much room one takes is known without reading it.
    static let current = Statement(
        "settle_current",
        """
        SELECT q.place, q.bytes_to - q.bytes <= $4 AS fits, q.mutation_id, q.error, \(currentColumns)
        FROM (
            SELECT m.id AS mutation_id, m.error, k.place, e.*, sum(e.bytes) OVER (ORDER BY k.place DESC) AS bytes_to
            FROM unnest($3::uuid[]) WITH ORDINALITY AS k (id, place)
            \(byID("k", as: "m"))
            CROSS JOIN LATERAL (
                SELECT \(EntityRows.list(of: "x")), coalesce(pg_column_size(x.document), 0)::int8 AS bytes
                FROM entities x
                WHERE x.organization_id = $1 AND x.entity_type = m.entity_type AND x.id = coalesce(m.server_id, (
                        SELECT z.server_id FROM id_mappings z
                        WHERE z.organization_id = $1 AND z.user_id = $2 AND z.client_id = m.local_id
                            AND z.entity_type = m.entity_type), (
                        SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
                        WHERE m.local_number IS NOT NULL AND z.organization_id = $1 AND z.user_id = $2
                            AND z.client_id = m.local_id))
                    AND (x.owner_id = $2 OR x.entity_type <> ALL (ARRAY(
                        SELECT t.name FROM entity_types t WHERE t.organization_id = $1 AND t.visibility = 'user')))
                OFFSET 0
            ) e
        ) q
        ORDER BY q.place DESC
        """
    )

    // MARK: - Writing

    /// How many parameters stand before the columns of what is written: organization, user, change position, moment.
    static let head = 4

    /// What an upsert has to name beside what it changes; and the same of a row that is called `m`.
    private static let unchanged = """
        organization_id, user_id, id, device_id, sequence_number, position, idempotency_key, fingerprint, operation,
            entity_type, priority, max_attempts, conflict_resolution, created_at, accepted_at, change_position,
            changed_at
        """

    private static let unchangedValues = """
        m.organization_id, m.user_id, m.id, m.device_id, m.sequence_number, m.position, m.idempotency_key,
            m.fingerprint, m.operation, m.entity_type, m.priority, m.max_attempts, m.conflict_resolution,
            m.created_at, m.accepted_at, $3, $4
        """

    /// Mutations that run again, with everything that an attempt leaves behind cleared.
    static let restart = Statement(
        "settle_restart",
        """
        INSERT INTO mutations AS m (
            \(unchanged), status, revision, is_outcome_unknown, depends_on, blocked_on, endpoint, payload,
            reference_ids, reference_types, resolution, error, sent_method, sent_endpoint, sent_payload, server_id,
            server_id_is_integer)
        SELECT \(unchangedValues), k.status, k.revision, k.is_outcome_unknown,
            (\(RestartRow.blockerList)::uuid[])[k.blockers_from : k.blockers_to],
            CASE WHEN k.blockers_to >= k.blockers_from THEN (\(RestartRow.blockerList)::uuid[])[k.blockers_from] END,
            coalesce(k.endpoint, m.endpoint), coalesce(k.payload, m.payload),
            CASE WHEN k.has_references THEN (\(RestartRow.referenceList)::uuid[])[k.references_from : k.references_to]
                ELSE m.reference_ids END,
            CASE WHEN k.has_references THEN (\(RestartRow.typeList)::text[])[k.references_from : k.references_to]
                ELSE m.reference_types END,
            k.resolution,
            -- what the client's way goes over stays to be seen
            CASE WHEN k.resolution IS NOT NULL THEN m.error END, k.sent_method, k.sent_endpoint, k.sent_payload,
            coalesce(k.server_id, m.server_id),
            CASE WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END
        FROM \(RestartRow.columns.unnested(as: "k", behind: head))
        \(byID("k", as: "m"))
        ON CONFLICT (organization_id, user_id, id) DO UPDATE
        SET status = excluded.status, revision = excluded.revision, is_outcome_unknown = excluded.is_outcome_unknown,
            depends_on = excluded.depends_on, blocked_on = excluded.blocked_on, endpoint = excluded.endpoint,
            payload = excluded.payload, reference_ids = excluded.reference_ids,
            reference_types = excluded.reference_types, resolution = excluded.resolution,
            error = excluded.error, sent_method = excluded.sent_method, sent_endpoint = excluded.sent_endpoint,
            sent_payload = excluded.sent_payload, server_id = excluded.server_id,
            server_id_is_integer = excluded.server_id_is_integer, attempt_count = 0, next_retry_at = NULL, conflict_retries = 0,
            hold_count = 0, held_since = NULL,
            last_error = NULL, last_error_code = NULL, response_status = NULL, response_body = NULL,
            change_position = excluded.change_position, changed_at = excluded.changed_at
        """
    )

    /// Mutations that are given up: final from now on.
    static let discard = Statement(
        "settle_discard",
        """
        INSERT INTO mutations AS m (
            \(unchanged), status, synced_at, resolution, server_id, server_id_is_integer, version, error)
        SELECT \(unchangedValues), \(MutationStatus.discarded.reached(from: "m")), $4, k.resolution, coalesce(k.server_id, m.server_id),
            CASE WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END,
            coalesce(k.version, m.version), coalesce(k.error, m.error)
        FROM \(DiscardRow.columns.unnested(as: "k", behind: head))
        \(byID("k", as: "m"))
        ON CONFLICT (organization_id, user_id, id) DO UPDATE
        SET status = excluded.status, synced_at = excluded.synced_at, resolution = excluded.resolution,
            server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
            version = excluded.version, error = excluded.error, depends_on = '{}', blocked_on = NULL,
            reference_ids = NULL, reference_types = NULL, next_retry_at = NULL,
            change_position = excluded.change_position, changed_at = excluded.changed_at
        """
    )

    /// Mutations whose dependencies changed.
    static let release = Statement(
        "settle_release",
        """
        INSERT INTO mutations AS m (
            \(unchanged), status, depends_on, blocked_on, error, last_error, last_error_code)
        SELECT \(unchangedValues), k.status, (\(ReleaseRow.blockerList)::uuid[])[k.blockers_from : k.blockers_to],
            CASE WHEN k.status = 'blocked' THEN (\(ReleaseRow.blockerList)::uuid[])[k.blockers_from] END,
            coalesce(k.error, m.error),
            coalesce(k.last_error, m.last_error), coalesce(k.last_error_code, m.last_error_code)
        FROM \(ReleaseRow.columns.unnested(as: "k", behind: head))
        \(byID("k", as: "m"))
        ON CONFLICT (organization_id, user_id, id) DO UPDATE
        SET status = excluded.status, depends_on = excluded.depends_on, blocked_on = excluded.blocked_on,
            error = excluded.error, last_error = excluded.last_error, last_error_code = excluded.last_error_code,
            change_position = excluded.change_position, changed_at = excluded.changed_at
        """
    )

    /// Mappings of creates that were settled. One that is resolved, or that another create has taken over, stays.
    static let mappings = Statement(
        "settle_mappings",
        """
        INSERT INTO id_mappings AS i (
            organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
            change_position, last_error, created_at, resolved_at)
        SELECT i.organization_id, i.user_id, i.client_id, i.entity_type, k.server_id, k.server_id_is_integer, k.status,
            i.mutation_id, $3, k.last_error, i.created_at,
            CASE WHEN k.status = 'resolved' THEN $4::timestamptz END
        FROM \(MappingChange.columns.unnested(as: "k", behind: head))
        CROSS JOIN LATERAL (
            SELECT * FROM id_mappings x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.client_id = k.client_id
                AND x.entity_type = k.entity_type
            OFFSET 0
        ) i
        WHERE i.mutation_id = k.mutation_id AND i.status <> 'resolved'
        ON CONFLICT (organization_id, user_id, client_id, entity_type) DO UPDATE
        SET status = excluded.status, server_id = excluded.server_id,
            server_id_is_integer = excluded.server_id_is_integer, retry_count = 0, last_error = excluded.last_error,
            change_position = excluded.change_position, resolved_at = excluded.resolved_at
        """
    )

    // MARK: - Devices' own ids

    /// Ids of devices that mutations name which run again: they are found by this when its turn comes.
    static let pinLocalIDs = Statement(
        "settle_pin_local_ids",
        """
        INSERT INTO local_ids AS l (
            organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, same_as,
            mutation_id, client_id)
        SELECT l.organization_id, l.user_id, l.device_id, l.entity_type, l.local_id, l.server_id,
            l.server_id_is_integer, l.same_as, l.mutation_id, k.client_id
        FROM \(PinRow.columns.unnested(as: "k", behind: 2))
        CROSS JOIN LATERAL (
            SELECT * FROM local_ids x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.device_id = k.device_id
                AND x.entity_type = k.entity_type AND x.local_id = k.local_id AND x.client_id IS NULL
            OFFSET 0
        ) l
        ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO UPDATE
        SET client_id = excluded.client_id
        """
    )

    /// Ids of creates that were given up: free for other creates.
    static let freeLocalIDs = Statement(
        "settle_free_local_ids",
        """
        DELETE FROM local_ids AS l
        USING \(MappingChange.freeing.unnested(as: "k", behind: 2))
        WHERE l.organization_id = $1 AND l.user_id = $2 AND l.client_id = k.client_id
            AND CASE WHEN l.mutation_id = k.mutation_id AND l.server_id IS NULL AND l.same_as IS NULL THEN true END
        """
    )
}
