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
        let text = columns.allSatisfy(\.isText) ? "$5" : "$6"
        let isDue = columns.map { SealStatements.isOther("r.\($0.name)", $0.isText ? text : "$5") }
        page = Statement(
            "seal_\(name)",
            """
            SELECT r.\(id) AS id, \(isDue.joined(separator: " OR ")) AS is_due
            FROM \(name) r
            WHERE r.organization_id = $1 AND r.\(owner) = $2 AND r.\(id) >= $3
            ORDER BY r.\(id)
            LIMIT $4
            """
        )
        read = Statement(
            "seal_read_\(name)",
            """
            SELECT r.\(id) AS id, \(columns.map { "r.\($0.name)" }.joined(separator: ", "))
            FROM unnest($3::uuid[]) AS k (id)
            CROSS JOIN LATERAL (
                SELECT * FROM \(name) x
                WHERE x.organization_id = $1 AND x.\(owner) = $2 AND x.\(id) = k.id
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
