import Postgres
import SyncModel

/// The statements of settling, each on one lane whose row is locked.
///
/// Rows are found by their whole key, in a lateral subquery that PostgreSQL must not merge into its query. They are
/// written by an upsert. Both the subquery and the upsert use only indexes, even if the plan was made for small tables.
/// In contrast, an UPDATE joined with a list could read all mutations of the lane, perhaps a hundred thousand, for each
/// row of the list.
package enum SettleStatements {
    /// SQL for the row of a listed mutation, as a table called `name`.
    package static func byID(_ list: String, as name: String) -> String {
        """
        CROSS JOIN LATERAL (
                SELECT * FROM mutations x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.id = \(list).id
                OFFSET 0
            ) \(name)
        """
    }

    static let subjects = Statement(
        "settle_subjects",
        ["organization", "user", "ids"],
        """
        SELECT m.id, m.endpoint, m.payload, m.is_outcome_unknown, m.reference_ids, m.reference_types,
            \(RecordColumns.list)
        FROM unnest(:ids::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        ORDER BY m.position
        """
    )

    /// Reads the mutations without their contents.
    ///
    /// A discard needs no contents, and the contents of hundreds of mutations can have a megabyte each.
    static let outlines = Statement(
        "settle_outlines",
        ["organization", "user", "ids"],
        """
        SELECT m.id, m.endpoint, NULL::json AS payload, m.is_outcome_unknown, m.reference_ids, m.reference_types,
            \(RecordColumns.outline)
        FROM unnest(:ids::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        ORDER BY m.position
        """
    )

    /// Returns the bytes of mutations' contents, in the order of the list.
    ///
    /// All contents are measured, because the caller reads all of them, in parts.
    static let contentBytes = Statement(
        "settle_content_bytes",
        ["organization", "user", "ids"],
        """
        SELECT m.id, (\(RowBytes.of("m.payload")) + \(RowBytes.of("m.response_body"))
            + \(RowBytes.of("m.error")))::int8 AS bytes
        FROM unnest(:ids::uuid[]) WITH ORDINALITY AS k (id, place)
        \(byID("k", as: "m"))
        ORDER BY k.place
        """
    )

    private static let nodeColumns = """
        m.id, m.position, m.accepted_at, m.status, m.operation, \(EntityName.list), m.depends_on
        """

    /// Reads all dependencies of a lane's open mutations.
    ///
    /// The statement reads the open mutations once, in the order of their index.
    static let edges = Statement(
        "settle_edges",
        ["organization", "user"],
        """
        SELECT \(nodeColumns)
        FROM mutations m
        WHERE m.organization_id = :organization AND m.user_id = :user AND m.synced_at IS NULL AND m.depends_on <> '{}'
        ORDER BY m.position
        """
    )

    /// Reads the mutations that are blocked on a mutation.
    static let waiters = Statement(
        "settle_waiters",
        ["organization", "user", "blocker"],
        """
        SELECT \(nodeColumns)
        FROM mutations m
        WHERE m.organization_id = :organization AND m.user_id = :user AND m.blocked_on = :blocker
        """
    )

    /// Finds the mutations of a list that do not satisfy their dependants yet (product rule 3).
    static let unmet = Statement(
        "settle_unmet",
        ["organization", "user", "ids"],
        """
        SELECT m.id, \(EntityName.list)
        FROM unnest(:ids::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        WHERE m.status <> 'succeeded'
            AND (m.status <> 'discarded' OR m.resolution IS DISTINCT FROM 'server_wins')
        """
    )

    /// Finds mutations that need one of some client ids. Each client id has a type.
    ///
    /// A mutation needs a client id as its entity, in its endpoint or payload, or as a dependency. If a mutation's
    /// client ids were not recorded, its text is searched.
    static let needs = Statement(
        "settle_needs",
        ["organization", "user", "ids", "client_ids", "entity_types"],
        """
        SELECT m.id, c.client_id
        FROM unnest(:ids::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        CROSS JOIN LATERAL (
            SELECT x.client_id
            FROM unnest(:client_ids::uuid[], :entity_types::text[]) AS x (client_id, entity_type)
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

    /// Reads sealed payloads whose client ids were not recorded.
    static let sealedPayloads = Statement(
        "settle_sealed_payloads",
        ["organization", "user", "ids", "beginning"],
        """
        SELECT m.id, m.payload
        FROM unnest(:ids::uuid[]) AS k (id)
        \(byID("k", as: "m"))
        WHERE m.reference_ids IS NULL AND m.reference_types IS NULL AND starts_with(m.payload::text, :beginning)
        """
    )

    /// Reads whether an entity was written after the last change of the mutation `mutation`.
    ///
    /// The parameters `entity_type` and `entity` name the entity.
    static let isNewer = Statement(
        "settle_is_newer",
        ["organization", "user", "mutation", "entity_type", "entity"],
        """
        SELECT e.updated_at > m.changed_at AS is_newer
        FROM mutations m
        CROSS JOIN LATERAL (
            SELECT x.updated_at FROM entities x
            WHERE x.organization_id = :organization AND x.entity_type = :entity_type AND x.id = :entity
            OFFSET 0
        ) e
        WHERE m.organization_id = :organization AND m.user_id = :user AND m.id = :mutation
        """
    )

    private static let currentColumns = EntityRows.list(
        of: "q",
        document: "CASE WHEN NOT q.is_outline THEN q.document END"
    )

    private static let currentDocuments = RowBytes.Rows(
        table: "found",
        columns: ["document"],
        skipped: "copy > 1",
        limit: ":bytes::int8"
    )
    private static let currentErrors = RowBytes.Rows(table: "found", columns: ["error"], limit: ":error_bytes::int8")

    /// Reads the current state of the entities of mutations to be discarded, if the user may see these entities.
    ///
    /// For each entity, only the first mutation's row contains the document. Otherwise a thousand mutations about one
    /// entity would store a thousand copies. Documents are read until they reach `bytes` bytes. Errors are read up to
    /// `error_bytes` bytes. The errors of the remaining mutations are not changed.
    static let current = Statement(
        "settle_current",
        ["organization", "user", "ids", "bytes", "error_bytes"],
        """
        WITH found AS MATERIALIZED (
            SELECT m.id AS mutation_id, m.error, k.place, e.*,
                row_number() OVER (PARTITION BY e.entity_type, e.id ORDER BY k.place) AS copy
            FROM unnest(:ids::uuid[]) WITH ORDINALITY AS k (id, place)
            \(byID("k", as: "m"))
            CROSS JOIN LATERAL (
                SELECT \(EntityRows.list(of: "x"))
                FROM entities x
                WHERE x.organization_id = :organization AND x.entity_type = m.entity_type AND x.id = coalesce(m.server_id, (
                        SELECT z.server_id FROM id_mappings z
                        WHERE z.organization_id = :organization AND z.user_id = :user AND z.client_id = m.local_id
                            AND z.entity_type = m.entity_type), (
                        SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
                        WHERE m.local_number IS NOT NULL AND z.organization_id = :organization AND z.user_id = :user
                            AND z.client_id = m.local_id))
                    AND CASE coalesce((
                            SELECT t.visibility FROM entity_types t
                            WHERE t.organization_id = :organization AND t.name = x.entity_type), 'user')
                        WHEN 'organization' THEN true
                        WHEN 'user' THEN x.owner_id = :user
                        ELSE \(ChannelStatements.holdsOne(of: "x.channels")) END
                OFFSET 0
            ) e
        )
        SELECT q.mutation_id, q.error_to - q.error_bytes < :error_bytes::int8 AS has_error,
            CASE WHEN q.error_to - q.error_bytes < :error_bytes::int8 THEN q.error END AS error, q.is_outline, \(currentColumns)
        FROM (
            SELECT s.*, s.bytes > \(WorkBounds.small)
                    AND (s.copy > 1 OR (sum(s.bytes) FILTER (WHERE s.copy = 1) OVER w) > :bytes::int8) AS is_outline,
                (sum(s.error_bytes) OVER w)::int8 AS error_to
            FROM (
                SELECT r.*, (\(RowBytes.of(currentDocuments, in: "r")))::int8 AS bytes,
                    (\(RowBytes.of(currentErrors, in: "r")))::int8 AS error_bytes
                FROM found r
                OFFSET 0
            ) s
            WINDOW w AS (ORDER BY s.place ROWS UNBOUNDED PRECEDING)
        ) q
        ORDER BY q.place
        """
    )

    static let reading = [
        subjects, outlines, contentBytes, edges, waiters, unmet, needs, sealedPayloads, isNewer, current,
    ]
}
