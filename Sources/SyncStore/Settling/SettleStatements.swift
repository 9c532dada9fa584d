import Postgres

/// The statements of settling, each on one lane whose row is locked. Organization and user are $1 and $2 throughout.
enum SettleStatements {
    /// The right shape of every plan here is a chain of index look-ups, whatever the tables' size was when it was made.
    static let planShape = Statement(
        "settle_plan_shape",
        """
        SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
        """
    )

    // MARK: - Reading

    static let subjects = Statement(
        "settle_subjects",
        """
        SELECT \(RecordColumns.list), m.endpoint, m.payload, m.is_outcome_unknown
        FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = ANY ($3::uuid[])
        ORDER BY m.position
        """
    )

    private static let nodeColumns = """
        m.id, m.position, m.accepted_at, m.status, m.operation, m.entity_type, m.local_id, m.server_id,
            m.server_id_is_integer, m.depends_on
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
        ORDER BY m.position
        """
    )

    /// Those of some mutations that do not satisfy their dependants yet (product rule 3).
    static let unmet = Statement(
        "settle_unmet",
        """
        SELECT m.id, m.entity_type, m.local_id, m.server_id, m.server_id_is_integer
        FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = ANY ($3::uuid[])
            AND m.status <> 'succeeded'
            AND (m.status <> 'discarded' OR m.resolution IS DISTINCT FROM 'server_wins')
        """
    )

    /// Mutations that need one of some client ids: as their entity, or in endpoint or payload. Where it was not noted
    /// which client ids these hold, their text is searched.
    static let needs = Statement(
        "settle_needs",
        """
        SELECT m.id, c.client_id
        FROM mutations m
        CROSS JOIN LATERAL (
            SELECT x.client_id
            FROM unnest($4::uuid[]) AS x (client_id)
            WHERE (m.local_id = x.client_id AND m.server_id IS NULL AND m.operation <> 'create')
                OR x.client_id = ANY (m.reference_ids)
                OR (m.reference_ids IS NULL AND (
                    strpos(lower(m.endpoint), x.client_id::text) > 0
                    OR strpos(lower(m.payload::text), x.client_id::text) > 0))
            LIMIT 1
        ) c
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = ANY ($3::uuid[])
        """
    )

    // MARK: - Writing

    /// Mutations that run again, with everything that an attempt leaves behind cleared.
    static let restart = Statement(
        "settle_restart",
        """
        UPDATE mutations AS m
        SET status = k.status, revision = k.revision, is_outcome_unknown = k.is_outcome_unknown,
            depends_on = k.depends_on, blocked_on = k.depends_on[1], endpoint = coalesce(k.endpoint, m.endpoint),
            payload = coalesce(k.payload, m.payload), reference_ids = coalesce(k.reference_ids, m.reference_ids),
            resolution = k.resolution,
            -- what the client's way goes over stays to be seen
            error = CASE WHEN k.resolution IS NOT NULL THEN m.error END,
            sent_method = k.sent_method, sent_endpoint = k.sent_endpoint, sent_payload = k.sent_payload,
            attempt_count = 0, next_retry_at = NULL, conflict_retries = 0, last_error = NULL, last_error_code = NULL,
            response_status = NULL, response_body = NULL, change_position = $3, changed_at = $4
        FROM (
            SELECT u.id, u.status, u.revision, u.is_outcome_unknown, ($16::uuid[])[u.blockers_from : u.blockers_to]
                    AS depends_on, u.endpoint, u.payload,
                CASE WHEN u.is_edited THEN ($19::uuid[])[u.references_from : u.references_to] END AS reference_ids,
                u.resolution, u.sent_method, u.sent_endpoint, u.sent_payload
            FROM unnest(
                    $5::uuid[], $6::text[], $7::int4[], $8::bool[], $9::text[], $10::json[], $11::text[], $12::text[],
                    $13::text[], $14::json[], $15::int4[], $17::int4[], $18::int4[], $20::int4[], $21::bool[])
                AS u (id, status, revision, is_outcome_unknown, endpoint, payload, resolution, sent_method,
                    sent_endpoint, sent_payload, blockers_from, blockers_to, references_from, references_to, is_edited)
        ) k
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = k.id
        """
    )

    /// Mutations that are given up: final from now on.
    static let discard = Statement(
        "settle_discard",
        """
        UPDATE mutations AS m
        SET status = 'discarded', resolution = k.resolution, server_id = coalesce(k.server_id, m.server_id),
            server_id_is_integer = CASE WHEN k.server_id IS NULL THEN m.server_id_is_integer
                ELSE k.server_id_is_integer END,
            version = coalesce(k.version, m.version), depends_on = '{}', blocked_on = NULL, reference_ids = NULL,
            next_retry_at = NULL, change_position = $3, changed_at = $4, synced_at = $4
        FROM unnest($5::uuid[], $6::text[], $7::text[], $8::bool[], $9::int8[])
            AS k (id, resolution, server_id, server_id_is_integer, version)
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = k.id
        """
    )

    /// Mutations whose dependencies changed.
    static let release = Statement(
        "settle_release",
        """
        UPDATE mutations AS m
        SET status = k.status, depends_on = k.depends_on,
            blocked_on = CASE WHEN k.status = 'blocked' THEN k.depends_on[1] END, error = coalesce(k.error, m.error),
            last_error = coalesce(k.last_error, m.last_error),
            last_error_code = coalesce(k.last_error_code, m.last_error_code), change_position = $3, changed_at = $4
        FROM (
            SELECT u.id, u.status, ($10::uuid[])[u.blockers_from : u.blockers_to] AS depends_on, u.error, u.last_error,
                u.last_error_code
            FROM unnest($5::uuid[], $6::text[], $7::json[], $8::text[], $9::int4[], $11::int4[], $12::int4[])
                AS u (id, status, error, last_error, last_error_code, blockers_from, blockers_to)
        ) k
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = k.id
        """
    )

    /// Mappings of creates that were settled. One that is resolved, or that another create has taken over, stays.
    static let mappings = Statement(
        "settle_mappings",
        """
        UPDATE id_mappings AS i
        SET status = k.status, server_id = k.server_id, server_id_is_integer = k.server_id_is_integer, retry_count = 0,
            last_error = k.last_error, change_position = $3,
            resolved_at = CASE WHEN k.status = 'resolved' THEN $4::timestamptz END
        FROM unnest($5::uuid[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::bool[], $11::text[])
            AS k (client_id, entity_type, mutation_id, status, server_id, server_id_is_integer, last_error)
        WHERE i.organization_id = $1 AND i.user_id = $2 AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type AND i.mutation_id = k.mutation_id AND i.status <> 'resolved'
        """
    )
}
