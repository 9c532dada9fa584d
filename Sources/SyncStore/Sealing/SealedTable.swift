package import Foundation
package import Postgres
package import SyncModel

/// A table whose rows belong to lanes.
package struct SealedTable: Sendable {
    /// A column with sealed values, and the place of its value in a user's row.
    package struct Column: Sendable {
        package let name: StaticString
        package var isText = false
        package let place: @Sendable (_ user: UUID, _ id: UUID) -> SealedPlace
    }

    package let columns: [Column]
    package let page: Statement
    package let read: Statement
    /// Changes no index and no change position: readers need not see it.
    package let write: Statement

    package static let mutations = SealedTable(
        "mutation",
        id: "id",
        [
            mutation("payload", .payload), mutation("headers", .headers), mutation("sent_payload", .sentPayload),
            mutation("response_body", .responseBody), mutation("error", .error),
            mutation("last_error", .lastError, isText: true),
        ]
    )

    package static let rejections = SealedTable(
        "rejection",
        id: "idempotency_key",
        [
            Column(name: "error") { .rejection(user: $0, key: $1) }
        ]
    )

    package static let statements = [mutations, rejections].flatMap { [$0.page, $0.read, $0.write] }

    private static func mutation(_ name: StaticString, _ column: SealedPlace.Column, isText: Bool = false) -> Column {
        Column(name: name, isText: isText) { .mutation(column, user: $0, id: $1) }
    }

    /// - Parameters:
    ///   - name: the table's name without the final `s`.
    ///   - id: the column that identifies a row among a user's.
    private init(_ name: String, id: String, _ columns: [Column]) {
        self.columns = columns
        let isDue = columns.map { SealStatements.isOther("r.\($0.name)", $0.isText ? "$6" : "$5") }
        page = Statement(
            "seal_\(name)s",
            """
            SELECT r.\(id) AS id, \(isDue.joined(separator: " OR ")) AS is_due
            FROM \(name)s r
            WHERE r.organization_id = $1 AND r.user_id = $2 AND r.\(id) >= $3
            ORDER BY r.\(id)
            LIMIT $4
            """
        )
        read = Statement(
            "seal_\(name)",
            """
            SELECT r.\(id) AS id, \(columns.map { "r.\($0.name)" }.joined(separator: ", "))
            FROM unnest($3::uuid[]) AS k (id)
            CROSS JOIN LATERAL (
                SELECT * FROM \(name)s x
                WHERE x.organization_id = $1 AND x.user_id = $2 AND x.\(id) = k.id
                OFFSET 0
            ) r
            """
        )
        let values = columns.map { "\($0.name) = :\($0.name)" }
        write = Statement(
            "seal_write_\(name)",
            ["organization", "user", "id"] + columns.map { "\($0.name)" },
            """
            UPDATE \(name)s SET \(values.joined(separator: ", "))
            WHERE organization_id = :organization AND user_id = :user AND \(id) = :id
            """
        )
    }
}
