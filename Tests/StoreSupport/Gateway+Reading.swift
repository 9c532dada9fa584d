package import Foundation
package import Postgres
import TestSupport

extension Gateway {
    /// Rows of a statement, by a connection of its own.
    package func read(_ sql: String, _ parameters: Parameters = Parameters()) async throws -> Rows {
        let connection = try await database.connect()
        let rows = try await connection.run(Query(Statement("test_read", sql), parameters))
        await connection.closeAndWait()
        return rows
    }

    package func count(_ table: String, of organization: UUID) async throws -> Int64 {
        var parameters = Parameters()
        parameters.add(organization)
        let column = table == "organizations" ? "id" : "organization_id"
        return try await read("SELECT count(*) FROM \(table) WHERE \(column) = $1", parameters).int64(0, 0)
    }

    /// Waits until `count` backends of this database wait for a lock, or `isOver` says that it will not come to that.
    package func waitForLocks(_ count: Int, unless isOver: @Sendable () -> Bool = { false }) async throws {
        let connection = try await database.connect()
        let statement = Statement(
            "test_waiting",
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()
            """
        )
        while !isOver(), try await connection.run(Query(statement)).int64(0, 0) < count {
            try await connection.execute(script: "SELECT pg_sleep(0.002)")
        }
        await connection.closeAndWait()
    }
}
