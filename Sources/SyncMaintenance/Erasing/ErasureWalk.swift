import Foundation
import JSONText
import Postgres
import SyncModel
import SyncStore

/// Looks through a table of an organization for rows that name a user and stand elsewhere than under the user's id: events
/// from elsewhere that wait and say whose a document is, and messages to endpoints. No index knows them by the user, so all
/// are looked at once, in the order of their keys, a page at a time and without locks; those that are found are deleted by
/// their keys.
struct ErasureWalk {
    /// Rows that one statement looks at.
    static let page: Int64 = 5_000
    /// Rows that one transaction deletes.
    static let batch = 1_000

    /// Rows behind a key ($3, $4), in the order of keys, up to $5 of them: those that name the users ($2), and the last.
    let look: Statement
    /// Deletes rows by their keys ($2, $3) that name the users ($4).
    let delete: Statement
    /// Sorts before all keys.
    private let first: (String, String)

    /// A row's key behind the organization.
    private struct Key: Sendable {
        let parts: (String, String)
        let goes: Bool
    }

    /// Walks once over all rows there are.
    ///
    /// - Parameter passed: called behind each page.
    /// - Returns: how many rows were deleted.
    func run(
        _ pool: Pool,
        of organization: UUID,
        naming users: [UUID],
        timeout: Duration,
        passed: () async throws -> Void
    ) async throws -> Int {
        var count = 0
        var place = first
        while true {
            let look = Parameters(of: organization, users, place.0, place.1, Self.page)
            let found = try await pool.run([Query(SettleStatements.planShape), Query(self.look, look)])[1].read { row in
                Key(parts: (try row.string("first"), try row.string("second")), goes: try row.bool("goes"))
            }
            guard let last = found.last else { return count }
            let gone = found.filter(\.goes)
            for start in stride(from: 0, to: gone.count, by: Self.batch) {
                let part = gone[start..<min(start + Self.batch, gone.count)]
                let keys = Parameters(of: organization, part.map(\.parts.0), part.map(\.parts.1), users)
                try await pool.transaction { connection in
                    let queries = [Query(SettleStatements.planShape), Query(delete, keys)]
                    _ = try await connection.run(queries, timeout: timeout)
                }
            }
            count += gone.count
            place = last.parts
            try await passed()
        }
    }

    // MARK: - Tables

    static let all = [
        ErasureWalk(
            look: looking("parked_events", "source", "event_id", "text", "y.owner_id = ANY ($2::uuid[])"),
            delete: Statement(
                "erase_parked_events",
                """
                DELETE FROM parked_events AS x
                USING unnest($2::text[], $3::text[]) AS k (source, event_id)
                WHERE x.organization_id = $1 AND x.source = k.source AND x.event_id = k.event_id
                    AND x.owner_id = ANY ($4::uuid[])
                """
            ),
            first: ("", "")
        ),
        ErasureWalk(
            look: looking(
                "webhook_deliveries",
                "endpoint_id",
                "id",
                "uuid",
                naming("y", "$2")
            ),
            // under the locks of their endpoints, as all that changes a delivery, and of no others
            delete: Statement(
                "erase_webhook_deliveries",
                """
                WITH held AS MATERIALIZED (
                    SELECT p.id FROM webhook_endpoints p
                    WHERE p.organization_id = $1 AND p.id = ANY ($2::text[]::uuid[]) ORDER BY p.id FOR NO KEY UPDATE
                )
                DELETE FROM webhook_deliveries AS x
                USING unnest($2::text[]::uuid[], $3::text[]::uuid[]) AS k (endpoint_id, id)
                WHERE x.organization_id = $1 AND x.endpoint_id = k.endpoint_id AND x.id = k.id
                    AND (\(naming("x", "$4"))) AND (SELECT count(*) FROM held) >= 0
                """
            ),
            first: (UUID.least.lowercased, UUID.least.lowercased)
        ),
    ]

    /// Whether a message is about a user, or tells that the user wrote something.
    private static func naming(_ row: String, _ users: String) -> String {
        "\(row).data ->> 'user_id' = ANY (\(users)::uuid[]::text[])"
            + " OR \(row).data ->> 'updated_by' = ANY (\(users)::uuid[]::text[])"
    }

    private static func looking(
        _ table: String,
        _ first: String,
        _ second: String,
        _ type: String,
        _ isNamed: String
    ) -> Statement {
        Statement(
            "erase_look_\(table)",
            """
            SELECT p.first::text AS first, p.second::text AS second, p.goes
            FROM (
                SELECT q.*, row_number() OVER (ORDER BY q.first DESC, q.second DESC) AS place
                FROM (
                    SELECT y.\(first) AS first, y.\(second) AS second, coalesce(\(isNamed), false) AS goes
                    FROM \(table) y
                    WHERE y.organization_id = $1 AND (y.\(first), y.\(second)) > ($3::text::\(type), $4::text::\(type))
                    ORDER BY y.\(first), y.\(second)
                    LIMIT $5
                ) q
            ) p
            WHERE p.goes OR p.place = 1
            ORDER BY p.first, p.second
            """
        )
    }
}
