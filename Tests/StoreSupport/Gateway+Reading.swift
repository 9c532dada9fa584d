package import Foundation
package import Postgres
import TestSupport

extension Gateway {
    /// Rows of a statement, on a separate connection.
    package func read(_ sql: String, _ parameters: Parameters = Parameters()) async throws -> Rows {
        let connection = try await database.connect()
        let rows = try await connection.run(Query(Statement("", sql), parameters))
        await connection.closeAndWait()
        return rows
    }

    package func count(_ table: String, of organization: UUID) async throws -> Int64 {
        var parameters = Parameters()
        parameters.add(organization)
        let column = table == "organizations" ? "id" : "organization_id"
        return try await read("SELECT count(*) FROM \(table) WHERE \(column) = $1", parameters).read(
            0,
            0,
            as: Int64.self
        )
    }

    /// Waits until `count` sessions of this database wait for a lock, or `isOver` returns that they never will.
    package func waitForLocks(_ count: Int64, unless isOver: @Sendable () -> Bool = { false }) async throws {
        let sessions = try await DatabaseSessions(database)
        try await sessions.await(count, waitingFor: "Lock", unless: isOver)
        await sessions.close()
    }

    /// Ends the sessions that wait for a lock.
    package func killWaiters() async throws {
        let sessions = try await DatabaseSessions(database)
        try await sessions.terminate(waitingFor: "Lock")
        await sessions.close()
    }
}
