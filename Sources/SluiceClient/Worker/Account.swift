import Foundation
import GRDB

/// Whose database it is: that of the first token that was used with it.
enum Account {
    /// - Parameter device: the device id that the database had when the client was created; a sign-out gives the
    ///   database a new one.
    /// - Throws: ``SluiceError/otherAccount`` for a token that names another user, ``SluiceError/signedOut`` if the
    ///   database is no longer that device's.
    static func check(_ token: String, _ database: any DatabaseWriter, _ device: UUID) async throws {
        guard let owner = TokenOwner.of(token) else { return }
        // asked before each request: only the first token of a database is written down
        var known = try await database.read { try account($0, device) }
        if known == nil {
            known = try await database.write { db in
                try db.execute(
                    sql: "UPDATE sluice_device SET account = ? WHERE account IS NULL AND device_id = ?",
                    arguments: [owner, device.wire]
                )
                return try account(db, device)
            }
        }
        guard let known else { throw SluiceError.signedOut }
        guard known == owner else { throw SluiceError.otherAccount }
    }

    private static func account(_ db: Database, _ device: UUID) throws -> String? {
        try String.fetchOne(
            db,
            sql: "SELECT account FROM sluice_device WHERE device_id = ?",
            arguments: [device.wire]
        )
    }
}
