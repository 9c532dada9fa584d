import Foundation
import Postgres
import SyncModel
import SyncStore

/// A table's rows of one user, as lines of an export: in the order of a key, a page at a time, so that none of them is
/// held longer than it takes to write it.
struct ExportedRows: Sendable {
    /// A column that may be sealed, and the place of its value in a user's row.
    struct SealedColumn: Sendable {
        let name: StaticString
        var isText = false
        let place: @Sendable (_ user: UUID, _ id: UUID) -> SealedPlace
    }

    /// The line's `kind`.
    let kind: String
    let columns: [SealedColumn]
    /// The types of the key's columns.
    let keyTypes: [String]
    /// Rows in a page: fewer where they are large.
    let page: Int64
    let first: Statement
    let next: Statement

    /// Every kind but entities and messages, which no index knows by their user, in the order of the export.
    static let all = [
        ExportedRows("user", "users", key: [("user_id", "uuid")], ["user_id", "created_at"]),
        ExportedRows(
            "subject",
            "user_subjects",
            key: [("issuer", "text"), ("subject", "text")],
            ["issuer", "subject", "created_at"]
        ),
        ExportedRows(
            "joined_user",
            "user_joins",
            user: "into_id",
            key: [("user_id", "uuid")],
            ["user_id", "into_id", "started_at", "finished_at"]
        ),
        ExportedRows(
            "device",
            "devices",
            key: [("device_id", "uuid")],
            ["device_id", "accepted_sequence", "created_at", "last_seen_at"]
        ),
        ExportedRows("quota", "mutation_quotas", key: [("user_id", "uuid")], ["missing", "as_of"]),
        ExportedRows(
            "mutation",
            "mutations",
            id: "id",
            key: [("position", "bigint")],
            page: 25,
            [
                "id", "device_id", "sequence_number", "position", "idempotency_key", "revision", "operation",
                "entity_type", "local_id", "local_number", "server_id", "endpoint", "dependency_ids", "priority",
                "attempt_count", "max_attempts", "next_retry_at", "conflict_resolution", "base_version", "status",
                "depends_on", "blocked_on", "version", "etag", "resolution", "response_status", "last_error_code",
                "sent_method", "sent_endpoint", "reference_ids", "traceparent", "key_user_id", "created_at",
                "accepted_at", "changed_at", "synced_at", "stuck_at", "error_code", "error_status",
            ],
            sealed: [
                mutation("payload", .payload), mutation("headers", .headers), mutation("sent_payload", .sentPayload),
                mutation("response_body", .responseBody), mutation("error", .error),
                mutation("last_error", .lastError, isText: true),
            ]
        ),
        ExportedRows(
            "attempt",
            "attempts",
            key: [("mutation_id", "uuid"), ("slot", "smallint")],
            ["mutation_id", "ordinal", "revision", "number", "sent_at", "duration_ms", "status", "error", "outcome"]
        ),
        ExportedRows(
            "rejection",
            "rejections",
            id: "idempotency_key",
            key: [("idempotency_key", "uuid")],
            page: 100,
            ["idempotency_key", "id", "device_id", "sequence_number", "rejected_at"],
            sealed: [SealedColumn(name: "error") { .rejection(user: $0, key: $1) }]
        ),
        ExportedRows(
            "id_mapping",
            "id_mappings",
            key: [("client_id", "uuid"), ("entity_type", "text")],
            [
                "client_id", "entity_type", "server_id", "status", "mutation_id", "last_error", "created_at",
                "resolved_at", "last_used_at",
            ]
        ),
        ExportedRows(
            "local_id",
            "local_ids",
            key: [("device_id", "uuid"), ("entity_type", "text"), ("local_id", "bigint")],
            ["device_id", "entity_type", "local_id", "server_id", "same_as", "mutation_id", "client_id"]
        ),
        ExportedRows(
            "local_id_page",
            "local_id_pages",
            key: [("device_id", "uuid"), ("page", "bigint")],
            page: 25,
            ["device_id", "page", "since_page", "entity_types", "local_ids", "server_ids"]
        ),
    ]

    /// The documents that the user owns or wrote last, by keys that an ``EntityWalk`` found.
    static let entities = Statement(
        "export_entities",
        """
        SELECT e.entity_type, e.id, e.row, e.document
        FROM unnest($2::text[], $3::text[]) AS k (entity_type, id)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id, x.document, (SELECT to_json(r) FROM (
                SELECT x.entity_type, \(id("x.id", "x.id_is_integer")) AS id, x.version, x.is_deleted, x.owner_id,
                    x.client_id, x.updated_by, x.updated_on, \(time("x.created_at")) AS created_at,
                    \(time("x.updated_at")) AS updated_at, x.etag) r) AS row
            FROM entities x
            WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
                AND (x.owner_id = $4 OR x.updated_by = $4)
            OFFSET 0
        ) e
        """
    )

    /// Messages to endpoints by their keys, as ``NamingWalk/deliveries`` finds them.
    static let messages = Statement(
        "export_webhook_deliveries",
        """
        SELECT (SELECT to_json(r) FROM (
            SELECT x.endpoint_id, x.id, x.event, x.data, \(time("x.occurred_at")) AS occurred_at, x.status,
                x.attempt_count, \(time("x.settled_at")) AS settled_at
            ) r) AS row
        FROM unnest($2::text[]::uuid[], $3::text[]::uuid[]) AS k (endpoint_id, id)
        CROSS JOIN LATERAL (
            SELECT * FROM webhook_deliveries y
            WHERE y.organization_id = $1 AND y.endpoint_id = k.endpoint_id AND y.id = k.id
            OFFSET 0
        ) x
        WHERE \(NamingWalk.naming("x", "$4"))
        """
    )

    /// Whether there is anything of the user's, whose it is if not the user's own any more, and who became part of the user.
    static let standing = Statement(
        "export_standing",
        """
        SELECT (SELECT j.into_id FROM user_joins j
                WHERE j.organization_id = $1 AND j.user_id = $2 AND j.closed_until IS NULL) AS into_id,
            \(UserFacts.isKnown("$2")) AS is_known,
            ARRAY(
                SELECT j.user_id FROM user_joins j
                WHERE j.organization_id = $1 AND j.into_id = $2 AND j.closed_until IS NULL) AS joined
        """
    )

    static let statements = all.flatMap { [$0.first, $0.next] } + [entities, messages, standing]

    /// Describes a table's rows without the columns that may be sealed, and these columns separately.
    ///
    /// - Parameters:
    ///   - user: the column that names the user.
    ///   - id: the column that sealed values are bound to.
    ///   - key: the columns that order and distinguish the user's rows, with their types.
    private init(
        _ kind: String,
        _ table: String,
        user: String = "user_id",
        id: String? = nil,
        key: [(name: String, type: String)],
        page: Int64 = 500,
        _ plain: [String],
        sealed: [SealedColumn] = []
    ) {
        self.kind = kind
        self.page = page
        columns = sealed
        keyTypes = key.map(\.type)
        let keys = key.map { "x.\($0.name)" }.joined(separator: ", ")
        let texts = key.enumerated().map { "x.\($1.name)::text AS key_\($0 + 1)" }.joined(separator: ", ")
        let members = plain.map { "\(Self.form(of: $0, in: table)) AS \($0)" }.joined(separator: ", ")
        let values = sealed.map { ", x.\($0.name)" }.joined()
        let identity = id.map { ", x.\($0) AS id" } ?? ""
        func statement(_ suffix: String, _ condition: String, limit: Int) -> Statement {
            Statement(
                "export_\(table)_\(suffix)",
                """
                SELECT \(texts), (SELECT to_json(r) FROM (SELECT \(members)) r) AS row\(identity)\(values)
                FROM \(table) x
                WHERE x.organization_id = $1 AND x.\(user) = $2\(condition)
                ORDER BY \(keys)
                LIMIT $\(limit)
                """
            )
        }
        first = statement("first", "", limit: 3)
        let last = key.enumerated().map { "$\($0 + 3)::text::\($1.type)" }.joined(separator: ", ")
        next = statement("next", " AND (\(keys)) > (\(last))", limit: key.count + 3)
    }

    // MARK: - Forms of the API

    /// A column as the API writes it: times in UTC with milliseconds, and ids in the JSON kind that the server gave
    /// them.
    private static func form(of column: String, in table: String) -> String {
        let value = "x.\(column)"
        switch (table, column) {
        case ("mutations", "local_id"):
            return "CASE WHEN x.local_number IS NULL THEN to_json(x.local_id) ELSE to_json(x.local_number) END"
        case ("local_id_pages", "server_ids"):
            return """
                (SELECT coalesce(json_agg(\(id("p.id", "p.is_integer")) ORDER BY p.place), '[]')
                    FROM unnest(x.server_ids, x.are_integers) WITH ORDINALITY AS p (id, is_integer, place))
                """
        case (_, "server_id"), ("local_ids", "same_as"): return id(value, "x.server_id_is_integer")
        case (_, "as_of"): return time(value)
        default: return column.hasSuffix("_at") ? time(value) : value
        }
    }

    private static func time(_ value: String) -> String {
        "to_char(\(value) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
    }

    private static func id(_ value: String, _ isInteger: String) -> String {
        "CASE WHEN \(isInteger) THEN to_json((\(value))::numeric) ELSE to_json(\(value)) END"
    }

    private static func mutation(
        _ name: StaticString,
        _ column: SealedPlace.Column,
        isText: Bool = false
    ) -> SealedColumn {
        SealedColumn(name: name, isText: isText) { .mutation(column, user: $0, id: $1) }
    }
}
