public import Foundation
import GRDB

/// How a sign-out treats writes that the gateway has not confirmed.
public enum PendingWrites: Sendable {
    /// If there are such writes, nothing is erased, and the sign-out throws ``SluiceError/pendingWrites(_:)``.
    case refuse
    /// The writes are lost. Ask the user first, or back up the writes by ``SluiceClient/export()``.
    case discard
}

extension SluiceClient {
    /// Returns the writes that are pending or wait for a decision, as text with one line for each write. A line is a
    /// JSON object, which contains the mutation as it is sent to the gateway, and the mutation's `status`. Use the text
    /// for support, or as a backup before an erasure.
    public func export() async throws -> Data {
        try await database.read { db in
            var lines = Data()
            let rows = try Row.fetchCursor(
                db,
                sql: """
                    SELECT \(OutboxRow.columns), status FROM sluice_mutations
                    WHERE \(WriteStatus.isUnfinished) ORDER BY sequence_number
                    """
            )
            while let row = try rows.next() {
                var entry = try OutboxRow(row).entry
                entry["status"] = .string(row["status"])
                lines.append(contentsOf: entry.utf8 + [UInt8(ascii: "\n")])
            }
            return lines
        }
    }

    /// Erases the user's data from the database: the rows of the synchronized tables, and all data of the library.
    ///
    /// After that, another user can sign in with the same file and a new client. This client and all other clients that
    /// have the file open no longer write to it.
    ///
    /// To keep pending writes for the next sign-in of the same user, call ``suspend()`` instead. The pending writes are
    /// never sent with another user's token.
    ///
    /// - Throws: ``SluiceError/pendingWrites(_:)`` if there are pending writes and `choice` does not discard them. In
    ///   that case nothing is erased, but synchronization is suspended.
    public func signOut(pending choice: PendingWrites = .refuse) async throws {
        await stop()
        try await database.write { [map] db in
            let pending = try Int.fetchOne(
                db,
                sql: "SELECT count(*) FROM sluice_mutations WHERE \(WriteStatus.isUnfinished)"
            )
            if case .refuse = choice, let pending, pending > 0 { throw SluiceError.pendingWrites(pending) }
            try LibraryTables.wipe(map, db)
        }
        hub.update { $0 = SyncStatus() }
        await gateway.tokens.forget()
    }
}

/// The library's own tables.
enum LibraryTables {
    static let all = [
        "sluice_device", "sluice_flight", "sluice_mutations", "sluice_intents", "sluice_id_mappings", "sluice_base",
        "sluice_held", "sluice_others", "sluice_captured",
    ]

    /// Deletes the user's data: the rows of the synchronized tables, and all data of the library.
    ///
    /// Clients that still have the file open for this user no longer write.
    static func wipe(_ map: EntityMap, _ db: Database) throws {
        try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
        for entity in map.entities { try db.execute(sql: "DELETE FROM \(entity.table.quotedDatabaseIdentifier)") }
        for table in all { try db.execute(sql: "DELETE FROM \(table)") }
    }
}
