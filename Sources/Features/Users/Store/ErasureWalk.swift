import Foundation
import Postgres
import SyncModel
import SyncStore

/// Deletes, of a table of an organization, the rows that a ``NamingWalk`` finds, by their keys.
struct ErasureWalk {
    /// Rows that one transaction deletes.
    static let batch = 1_000

    let walk: NamingWalk
    /// Deletes rows by their keys ($2, $3) that name the users ($4).
    let delete: Statement

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
        try await walk.run(pool, of: organization, naming: users) { found in
            for start in stride(from: 0, to: found.count, by: Self.batch) {
                let part = found[start..<min(start + Self.batch, found.count)]
                let keys = Parameters(of: organization, part.map(\.first), part.map(\.second), users)
                try await pool.transaction { connection in
                    _ = try await connection.runByIndex(Query(delete, keys), timeout: timeout)
                }
            }
            count += found.count
            try await passed()
        }
        return count
    }

    // MARK: - Tables

    static let all = [
        ErasureWalk(
            walk: .parkedEvents,
            delete: Statement(
                "erase_parked_events",
                """
                DELETE FROM parked_events AS x
                USING unnest($2::text[], $3::text[]) AS k (source, event_id)
                WHERE x.organization_id = $1 AND x.source = k.source AND x.event_id = k.event_id
                    AND x.owner_id = ANY ($4::uuid[])
                """
            )
        ),
        ErasureWalk(
            walk: .deliveries,
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
                    AND (\(NamingWalk.naming("x", "$4"))) AND (SELECT count(*) FROM held) >= 0
                """
            )
        ),
    ]
}
