import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport

/// A lock that a test holds on a user's lane, so that the group that needs it waits and later pushes queue behind it.
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
