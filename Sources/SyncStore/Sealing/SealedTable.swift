import Foundation
package import Postgres
import SyncModel

/// A table whose sealed rows belong to lanes.
package struct SealedTable: Sendable {
    package let columns: [SealedColumn]
    package let page: Statement
    package let read: Statement
    /// Changes no index and no change position: readers need not see it.
    package let write: Statement

    package var statements: [Statement] { [page, read, write] }

    /// Nil for a table without such rows.
    package init?(_ table: StoredTable) {
        guard case .lane(let columns) = table.sealing, let owner = table.users?.owner, let id = table.key.last else {
            return nil
        }
        self.columns = columns
        let name = table.name
        let beginnings = columns.map { $0.isText ? "text_beginning" : "json_beginning" }
        let isDue = zip(columns, beginnings).map { SealStatements.isOther("r.\($0.name)", ":\($1)") }
        page = Statement(
            "seal_\(name)",
            ["organization", "user", "first", "limit"]
                + ["json_beginning", "text_beginning"].filter(beginnings.contains),
            """
            SELECT r.\(id) AS id, \(isDue.joined(separator: " OR ")) AS is_due
            FROM \(name) r
            WHERE r.organization_id = :organization AND r.\(owner) = :user AND r.\(id) >= :first
            ORDER BY r.\(id)
            LIMIT :limit
            """
        )
        read = Statement(
            "seal_read_\(name)",
            ["organization", "user", "ids"],
            """
            SELECT r.\(id) AS id, \(columns.map { "r.\($0.name)" }.joined(separator: ", "))
            FROM unnest(:ids::uuid[]) AS k (id)
            CROSS JOIN LATERAL (
                SELECT * FROM \(name) x
                WHERE x.organization_id = :organization AND x.\(owner) = :user AND x.\(id) = k.id
                OFFSET 0
            ) r
            """
        )
        let values = columns.map { "\($0.name) = :\($0.name)" }
        write = Statement(
            "seal_write_\(name)",
            ["organization", "user", "id"] + columns.map { "\($0.name)" },
            """
            UPDATE \(name) SET \(values.joined(separator: ", "))
            WHERE organization_id = :organization AND \(owner) = :user AND \(id) = :id
            """
        )
    }
}
