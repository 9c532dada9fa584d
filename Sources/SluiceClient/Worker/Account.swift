import GRDB

/// Whose database it is: that of the first token that was used with it.
enum Account {
    /// - Throws: ``SluiceError/otherAccount`` for a token that names another user.
    static func check(_ token: String, _ database: any DatabaseWriter) async throws {
        guard let owner = TokenOwner.of(token) else { return }
        // asked before each request: only the first token of a database is written down
        var known = try await database.read { try account($0) }
        if known == nil {
            known = try await database.write { db in
                _ = try Device.id(db)
                try db.execute(sql: "UPDATE sluice_device SET account = ? WHERE account IS NULL", arguments: [owner])
                return try account(db)
            }
        }
        guard known == owner else { throw SluiceError.otherAccount }
    }

    private static func account(_ db: Database) throws -> String? {
        try String.fetchOne(db, sql: "SELECT account FROM sluice_device")
    }
}
