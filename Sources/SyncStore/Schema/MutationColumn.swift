package import SyncModel

/// A column of `mutations`, described once. Readers take their lists of columns from ``all``.
package struct MutationColumn: Sendable {
    /// The purpose of a column.
    package enum Part: Sendable {
        /// A column of a ``MutationRecord``, the content of every response.
        case record
        /// A column of a ``QueuedMutation``, which dispatch requires.
        case queued
        /// A column of variable size that only a ``MutationDetail`` has.
        case detail
    }

    package enum Content: Sendable {
        /// Ids, numbers, states and times.
        case plain
        /// Bytes without content of users.
        case open
        /// The id of a user.
        case user
        /// Content from users or the upstream. The content is sealed, and only operators with permission can read it.
        case sealed(SealedPlace.Column)
    }

    package let name: StaticString
    /// The PostgreSQL type, or the name of the domain.
    package let type: String
    package let content: Content
    package let parts: Set<Part>
    /// SQL for the value in a row `m`; nil if the value is the unchanged column.
    let value: String?
    /// Whether an export of the user's data shows the column in addition to the mutation's details.
    let isExported: Bool
    /// Whether the details of a mutation show the column under its name, without further code.
    package let isShown: Bool

    private init(
        _ name: StaticString,
        _ type: String,
        _ parts: Set<Part> = [],
        content: Content = .plain,
        value: String? = nil,
        isExported: Bool = false,
        isShown: Bool = false
    ) {
        self.name = name
        self.type = type
        self.parts = parts
        self.content = content
        self.value = value
        self.isExported = isExported
        self.isShown = isShown
    }

    /// All columns, in the order in which readers read them.
    package static let all: [MutationColumn] = [
        MutationColumn("organization_id", "uuid"),
        MutationColumn("user_id", "uuid", content: .user),
        MutationColumn("id", "uuid", [.record, .queued]),
        MutationColumn("accepted_at", "timestamptz", [.record, .queued]),
        MutationColumn("idempotency_key", "uuid", [.record]),
        MutationColumn("device_id", "uuid", [.record, .queued]),
        MutationColumn("sequence_number", "ordinal", [.record]),
        MutationColumn("position", "int8", [.record, .queued], isExported: true),
        MutationColumn("change_position", "int8"),
        MutationColumn("operation", "mutation_operation", [.record, .queued]),
        MutationColumn("entity_type", "text", [.record, .queued]),
        MutationColumn("local_id", "uuid", [.record, .queued]),
        MutationColumn("local_number", "int8", [.record, .queued]),
        MutationColumn("server_id", "server_id", [.record, .queued]),
        MutationColumn("server_id_is_integer", "bool", [.record, .queued]),
        MutationColumn("max_attempts", "attempt_limit", [.queued]),
        MutationColumn("conflict_resolution", "conflict_strategy", [.queued]),
        MutationColumn("endpoint", "text", [.queued, .detail]),
        MutationColumn("payload", "json", [.queued, .detail], content: .sealed(.payload)),
        MutationColumn("headers", "json", [.queued, .detail], content: .sealed(.headers)),
        MutationColumn("base_version", "whole_number", [.queued]),
        MutationColumn("dependency_ids", "_uuid", [.detail]),
        MutationColumn("reference_ids", "_uuid", [.queued], isExported: true),
        MutationColumn("reference_types", "_text", [.queued]),
        MutationColumn("priority", "priority"),
        MutationColumn("order_key", "text", isShown: true),
        MutationColumn("status", "mutation_status", [.record]),
        MutationColumn("revision", "int4", [.record, .queued]),
        MutationColumn("version", "int8", [.record]),
        MutationColumn("etag", "text", [.record]),
        MutationColumn("attempt_count", "attempt_count", [.record, .queued]),
        MutationColumn("next_retry_at", "timestamptz", [.record, .queued]),
        MutationColumn("depends_on", "_uuid", [.record], value: Dependencies.open),
        MutationColumn("blocked_on", "uuid"),
        MutationColumn("resolution", "conflict_strategy", [.record, .queued]),
        MutationColumn("is_outcome_unknown", "bool", [.queued]),
        MutationColumn("conflict_retries", "int2", [.queued]),
        MutationColumn("hold_count", "int2", [.queued]),
        MutationColumn("held_since", "timestamptz", [.queued]),
        MutationColumn("sent_method", "http_method", [.queued]),
        MutationColumn("sent_endpoint", "text", [.queued]),
        MutationColumn("sent_payload", "json", [.queued], content: .sealed(.sentPayload)),
        MutationColumn("response_status", "int2", [.record]),
        MutationColumn("response_body", "json", [.record], content: .sealed(.responseBody)),
        MutationColumn("error", "json", [.record, .queued], content: .sealed(.error)),
        MutationColumn("last_error", "text", [.detail], content: .sealed(.lastError)),
        MutationColumn("last_error_code", "int4"),
        MutationColumn("fingerprint", "mutation_fingerprint", [.record], content: .open),
        MutationColumn("fingerprint_places", "bytea", [.record], content: .open),
        MutationColumn("traceparent", "text", [.queued], isExported: true),
        MutationColumn("key_user_id", "uuid", [.queued], content: .user, isExported: true),
        MutationColumn("created_at", "timestamptz"),
        MutationColumn("changed_at", "timestamptz", isExported: true),
        MutationColumn("synced_at", "timestamptz", [.record]),
        MutationColumn("stuck_at", "timestamptz"),
        MutationColumn("error_code", "text"),
        MutationColumn("error_status", "int2"),
    ]

    /// The columns of a part, for a table called `m`.
    ///
    /// - Parameter others: expressions that replace some columns.
    package static func list(of part: Part, except others: KeyValuePairs<String, String> = [:]) -> String {
        all.filter { $0.parts.contains(part) }.map { column in
            let other = others.first { $0.key == "\(column.name)" }?.value
            return (other ?? column.value).map { "\($0) AS \(column.name)" } ?? "m.\(column.name)"
        }.joined(separator: ", ")
    }

    /// SQL for the bytes of a mutation's details in a page, for a table with the alias `p`.
    ///
    /// Each column of variable size is counted. All others together count as ``restBytes``.
    static let detailBytes =
        "\(restBytes) + "
        + all.filter { $0.isShown || !$0.parts.isDisjoint(with: [.record, .detail]) }.compactMap(\.bytes)
        .joined(separator: " + ")

    /// The bytes of a mutation's names, numbers, ids and times in a page.
    private static let restBytes = 1_024

    /// SQL for the bytes of the column in a row `p`; nil for a type of fixed size.
    private var bytes: String? {
        switch type {
        case "json": RowBytes.of("p.\(name)")
        case "text": "coalesce(octet_length(p.\(name)), 0)"
        case "_uuid": RowBytes.ofIDs("p.\(name)")
        case "bytea", "_text": "coalesce(pg_column_size(p.\(name)), 0)"
        default: nil
        }
    }

    /// The columns that the details of a mutation show without further code.
    package static let shown = all.filter(\.isShown)

    /// SQL for an array of the ``shown`` columns as JSON texts, for a table called `m`, with a comma at the end; empty
    /// if ``shown`` is empty.
    static let shownList: String = {
        let values = shown.map { "coalesce(to_json(\(ExportedColumn.form(of: "\($0.name)", in: "m")))::text, 'null')" }
        return values.isEmpty ? "" : "ARRAY[\(values.joined(separator: ", "))] AS shown, "
    }()

    /// The columns of a row `m` that an export shows in addition to the details.
    static let exported = all.filter(\.isExported).map { column in
        ExportedColumn("\(column.name)", ExportedColumn.form(of: "\(column.name)", in: "m"))
    }

    /// The columns with sealed values.
    static let sealed = all.compactMap { column -> SealedColumn? in
        guard case .sealed(let place) = column.content else { return nil }
        return .mutation(column.name, place, isText: column.type == "text")
    }
}

extension StoredTable {
    /// The ``StoredTable`` of `mutations`, made from the table's columns.
    static let mutations = MutationColumn.all.reduce(
        StoredTable("mutations", key: ["user_id", "id"], isShown: true)
            .owned(
                by: "user_id",
                naming: MutationColumn.all.compactMap { if case .user = $0.content { "\($0.name)" } else { nil } },
                erase: .deleteKeeping(hashOf: "idempotency_key", fingerprint: "fingerprint"),
                merge: .update(
                    UserMoves.mergeMutations,
                    [.positions, .changes],
                    Moving(collision: Collision("a mutation"))
                )
            )
            .exported(
                .lines("mutation", by: [("position", "bigint")], page: 25, form: .mutation, MutationColumn.exported)
            )
            .sealed(.lane(MutationColumn.sealed))
            .aging(.steps([.records, .payloads, .unsettled]))
    ) { table, column in
        switch column.content {
        case .plain: table.plain("\(column.name)")
        case .open: table.open("\(column.name)")
        case .user, .sealed: table
        }
    }
}
