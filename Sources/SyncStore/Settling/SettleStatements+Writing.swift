import FoundationEssentials
import Postgres
import SyncModel

/// The writing statements of settling.
extension SettleStatements {
    /// The parameters before the columns of the written rows.
    private static let head = ["organization", "user", "change_position", "now"]

    /// The columns that an upsert must list in addition to the columns that it changes.
    ///
    /// The second text lists their values from a row called `m`.
    private static let unchanged = """
        organization_id, user_id, id, device_id, sequence_number, position, idempotency_key, fingerprint, operation,
            entity_type, priority, max_attempts, conflict_resolution, created_at, accepted_at, change_position,
            changed_at
        """

    private static let unchangedValues = """
        m.organization_id, m.user_id, m.id, m.device_id, m.sequence_number, m.position, m.idempotency_key,
            m.fingerprint, m.operation, m.entity_type, m.priority, m.max_attempts, m.conflict_resolution,
            m.created_at, m.accepted_at, :change_position, :now
        """

    /// Writes mutations that run again. All traces of earlier attempts are cleared.
    static let restart = Statement(
        "settle_restart",
        head + RestartRow.columns.inputs + ["blockers", "references", "types"],
        """
        INSERT INTO mutations AS m (
            \(unchanged), status, revision, is_outcome_unknown, depends_on, blocked_on, endpoint, payload,
            reference_ids, reference_types, resolution, error, sent_method, sent_endpoint, sent_payload, server_id,
            server_id_is_integer)
        SELECT \(unchangedValues), k.status, k.revision, k.is_outcome_unknown,
            (:blockers::uuid[])[k.blockers_from : k.blockers_to],
            CASE WHEN k.blockers_to >= k.blockers_from THEN (:blockers::uuid[])[k.blockers_from] END,
            coalesce(k.endpoint, m.endpoint), coalesce(k.payload, m.payload),
            CASE WHEN k.has_references THEN (:references::uuid[])[k.references_from : k.references_to]
                ELSE m.reference_ids END,
            CASE WHEN k.has_references THEN (:types::text[])[k.references_from : k.references_to]
                ELSE m.reference_types END,
            k.resolution,
            -- if a person resolves a conflict for the client, the conflict's error is kept, so that the overridden
            -- state remains visible
            CASE WHEN k.resolution IS NOT NULL THEN m.error END, k.sent_method, k.sent_endpoint, k.sent_payload,
            coalesce(k.server_id, m.server_id),
            CASE WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END
        FROM \(RestartRow.columns.unnested(as: "k"))
        \(byID("k", as: "m"))
        ON CONFLICT (organization_id, user_id, id) DO UPDATE
        SET status = excluded.status, revision = excluded.revision, is_outcome_unknown = excluded.is_outcome_unknown,
            depends_on = excluded.depends_on, blocked_on = excluded.blocked_on, endpoint = excluded.endpoint,
            payload = excluded.payload, reference_ids = excluded.reference_ids,
            reference_types = excluded.reference_types, resolution = excluded.resolution,
            error = excluded.error, sent_method = excluded.sent_method, sent_endpoint = excluded.sent_endpoint,
            sent_payload = excluded.sent_payload, server_id = excluded.server_id,
            server_id_is_integer = excluded.server_id_is_integer, attempt_count = 0, next_retry_at = NULL, conflict_retries = 0,
            hold_count = 0, held_since = NULL, stuck_at = NULL, error_code = NULL, error_status = NULL,
            last_error = NULL, last_error_code = NULL, response_status = NULL, response_body = NULL,
            change_position = excluded.change_position, changed_at = excluded.changed_at
        """
    )

    static let ended = Columns<(lane: LaneKey, id: UUID, changePosition: Int64)>(
        .lane { $0.lane },
        .value("id") { $0.id },
        .value("change_position") { $0.changePosition }
    )

    /// Ends the back-off of mutations: a mutation that waits for its next attempt becomes due now.
    static let endBackOff = Statement(
        "settle_end_back_off",
        ended.inputs + ["now"],
        """
        UPDATE mutations AS m
        SET next_retry_at = NULL, change_position = k.change_position, changed_at = :now
        FROM \(ended.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id AND m.status = 'pending'
        """
    )

    /// Writes discarded mutations, which are final.
    static let discard = Statement(
        "settle_discard",
        head + DiscardRow.columns.inputs,
        """
        INSERT INTO mutations AS m (
            \(unchanged), status, synced_at, resolution, server_id, server_id_is_integer, version, error)
        SELECT \(unchangedValues), \(MutationStatus.discarded.reached(from: "m")), :now, k.resolution, coalesce(k.server_id, m.server_id),
            CASE WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END,
            coalesce(k.version, m.version), coalesce(k.error, m.error)
        FROM \(DiscardRow.columns.unnested(as: "k"))
        \(byID("k", as: "m"))
        ON CONFLICT (organization_id, user_id, id) DO UPDATE
        SET status = excluded.status, synced_at = excluded.synced_at, resolution = excluded.resolution,
            server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
            version = excluded.version, error = excluded.error, depends_on = '{}', blocked_on = NULL,
            reference_ids = NULL, reference_types = NULL, next_retry_at = NULL,
            stuck_at = NULL, error_code = NULL, error_status = NULL,
            change_position = excluded.change_position, changed_at = excluded.changed_at
        """
    )

    /// Writes mutations whose dependencies changed.
    static let release = Statement(
        "settle_release",
        head + ReleaseRow.columns.inputs + ["blockers"],
        """
        INSERT INTO mutations AS m (
            \(unchanged), status, depends_on, blocked_on, error, last_error, last_error_code, stuck_at, error_code,
            error_status)
        SELECT \(unchangedValues), k.status, (:blockers::uuid[])[k.blockers_from : k.blockers_to],
            CASE WHEN k.status = 'blocked' THEN (:blockers::uuid[])[k.blockers_from] END,
            coalesce(k.error, m.error),
            coalesce(k.last_error, m.last_error), coalesce(k.last_error_code, m.last_error_code),
            -- if the gateway decided an outcome without a response of the upstream, `error_status` is 0
            CASE WHEN k.error_code IS NULL THEN m.stuck_at ELSE :now::timestamptz END, coalesce(k.error_code, m.error_code),
            CASE WHEN k.error_code IS NULL THEN m.error_status ELSE 0 END
        FROM \(ReleaseRow.columns.unnested(as: "k"))
        \(byID("k", as: "m"))
        ON CONFLICT (organization_id, user_id, id) DO UPDATE
        SET status = excluded.status, depends_on = excluded.depends_on, blocked_on = excluded.blocked_on,
            error = excluded.error, last_error = excluded.last_error, last_error_code = excluded.last_error_code,
            stuck_at = excluded.stuck_at, error_code = excluded.error_code, error_status = excluded.error_status,
            change_position = excluded.change_position, changed_at = excluded.changed_at
        """
    )

    /// Writes the mappings of settled creates. A mapping remains unchanged if it is resolved, or if another create has
    /// taken it over.
    static let mappings = Statement(
        "settle_mappings",
        head + MappingChange.columns.inputs,
        """
        INSERT INTO id_mappings AS i (
            organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
            change_position, last_error, created_at, resolved_at)
        SELECT i.organization_id, i.user_id, i.client_id, i.entity_type, k.server_id, k.server_id_is_integer, k.status,
            i.mutation_id, :change_position, k.last_error, i.created_at,
            CASE WHEN k.status = 'resolved' THEN :now::timestamptz END
        FROM \(MappingChange.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM id_mappings x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.client_id = k.client_id
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

    // MARK: - Local ids

    /// Writes the local ids that restarted mutations name, so that they are found when the mutations run.
    static let pinLocalIDs = Statement(
        "settle_pin_local_ids",
        ["organization", "user"] + PinRow.columns.inputs,
        """
        INSERT INTO local_ids AS l (
            organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, same_as,
            mutation_id, client_id)
        SELECT l.organization_id, l.user_id, l.device_id, l.entity_type, l.local_id, l.server_id,
            l.server_id_is_integer, l.same_as, l.mutation_id, k.client_id
        FROM \(PinRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM local_ids x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.device_id = k.device_id
                AND x.entity_type = k.entity_type AND x.local_id = k.local_id AND x.client_id IS NULL
            OFFSET 0
        ) l
        ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO UPDATE
        SET client_id = excluded.client_id
        """
    )

    /// Frees the local ids of discarded creates for other creates.
    static let freeLocalIDs = Statement(
        "settle_free_local_ids",
        ["organization", "user"] + MappingChange.freeing.inputs,
        """
        DELETE FROM local_ids AS l
        USING \(MappingChange.freeing.unnested(as: "k"))
        WHERE l.organization_id = :organization AND l.user_id = :user AND l.client_id = k.client_id
            AND CASE WHEN l.mutation_id = k.mutation_id AND l.server_id IS NULL AND l.same_as IS NULL THEN true END
        """
    )

    static let writing = [restart, endBackOff, discard, release, mappings, pinLocalIDs, freeLocalIDs]
}
