import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// A table's rows of one user, as lines of an export.
///
/// Rows are read in the order of the table's key, a page at a time. A page stays in memory only until it is written.
struct ExportedRows: Sendable {
    let lines: StoredTable.Lines
    /// The sealed columns that a line shows as members.
    let sealed: [SealedColumn]
    let first: Statement
    let next: Statement

    /// Creates the export of a table; nil if the table has no lines in an export.
    init?(_ table: StoredTable) {
        guard case .rows(let lines) = table.export, let owner = table.users?.owner else { return nil }
        self.lines = lines
        // the SQL of a mutation's details uses the alias `m` for the row
        let row = lines.form == .mutation ? "m" : "x"
        sealed = if case .lane(let columns) = table.sealing, lines.form == .columns { columns } else { [] }
        let keys = lines.order.map { "\(row).\($0.name)" }.joined(separator: ", ")
        let last = lines.order.indices.map { "key_\($0 + 1)" }
        let texts = zip(lines.order, last).map { "\(row).\($0.name)::text AS \($1)" }.joined(separator: ", ")
        let members = lines.columns.map { "\($0.value) AS \($0.member)" }.joined(separator: ", ")
        let values = sealed.map { ", x.\($0.name)" }.joined()
        let identity = sealed.isEmpty ? "" : table.key.last.map { ", x.\($0) AS id" } ?? ""
        let details = lines.form == .mutation ? ", \(Self.sent), \(MutationDetail.list), false AS has_more" : ""
        func statement(_ suffix: String, after last: [String] = [], _ condition: String = "") -> Statement {
            Statement(
                "export_\(table.name)_\(suffix)",
                ["organization", "user"] + last + ["limit"],
                """
                SELECT \(texts), (SELECT to_json(r) FROM (SELECT \(members)) r) AS row\(identity)\(values)\(details)
                FROM \(table.name) \(row)
                WHERE \(row).organization_id = :organization AND \(row).\(owner) = :user\(condition)
                ORDER BY \(keys)
                LIMIT :limit
                """
            )
        }
        first = statement("first")
        let place = zip(lines.order, last).map { ":\($1)::text::\($0.type)" }.joined(separator: ", ")
        next = statement("next", after: last, " AND (\(keys)) > (\(place))")
    }

    /// The columns of a mutation's last request.
    private static let sent = "m.id AS sent_id, m.sent_method, m.sent_endpoint, m.sent_payload"

    /// Returns the statements that export the given tables.
    static func statements(_ tables: [StoredTable]) -> [Statement] {
        tables.flatMap { table in
            if case .scan(_, let statement, _) = table.export { return [statement] }
            return ExportedRows(table).map { [$0.first, $0.next] } ?? []
        } + [entities, joinFacts]
    }

    /// The documents that the user owns or wrote last, by keys that an ``EntityScan`` found.
    static let entities = Statement(
        "export_entities",
        ["organization", "types", "ids", "user"],
        """
        SELECT e.entity_type, e.id, e.row, e.document
        FROM unnest(:types::text[], :ids::text[]) AS k (entity_type, id)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id, x.document, (SELECT to_json(r) FROM (
                SELECT x.entity_type, \(ExportedColumn.id("x.id", "x.id_is_integer")) AS id, x.version,
                    x.is_deleted AS deleted, x.owner_id, x.client_id, x.updated_by, x.updated_on,
                    \(ExportedColumn.time("x.created_at")) AS created_at,
                    \(ExportedColumn.time("x.updated_at")) AS updated_at, x.etag) r) AS row
            FROM entities x
            WHERE x.organization_id = :organization AND x.entity_type = k.entity_type AND x.id = k.id
                AND (x.owner_id = :user OR x.updated_by = :user)
            OFFSET 0
        ) e
        """
    )

    /// Returns whether any data of the user are stored, the user into whom this user was joined, and the users who were
    /// joined into this user.
    static let joinFacts = Statement(
        "export_standing",
        ["organization", "user"],
        """
        SELECT (SELECT j.into_id FROM user_joins j
                WHERE j.organization_id = :organization AND j.user_id = :user AND j.closed_until IS NULL) AS into_id,
            \(UserFacts.isKnown(":user")) AS is_known,
            ARRAY(
                SELECT j.user_id FROM user_joins j
                WHERE j.organization_id = :organization AND j.into_id = :user AND j.closed_until IS NULL) AS joined
        """
    )
}
