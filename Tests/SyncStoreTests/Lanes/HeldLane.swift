import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport

/// A test's lock on a user's lane. The group that needs the lane waits for the lock, and later pushes queue after that
/// group.
struct HeldLane {
    private let connection: Connection

    init(_ phone: Phone) async throws {
        connection = try await phone.gateway.database.connect()
        try await connection.execute(
            script: """
                BEGIN;
                SELECT 1 FROM lanes WHERE organization_id = '\(phone.organization.id.lowercased)'
                    AND user_id = '\(phone.user.lowercased)' FOR UPDATE
                """
        )
    }

    func release() async throws {
        try await connection.execute(script: "ROLLBACK")
        await connection.closeAndWait()
    }
}
