public import Foundation
import GRDB

/// The treatment, at a sign-out, of writes that the gateway has not confirmed.
public enum PendingWrites: Sendable {
    /// If there are such writes, nothing is erased, and the sign-out throws ``SluiceError/pendingWrites(_:)``.
    case refuse
    /// The writes are lost. Ask the user first, or ``SluiceClient/export()`` them.
    case discard
}

extension SluiceClient {
    /// Returns the writes that are pending or wait for a decision, one JSON object per line: the mutation as it is sent
    /// to the gateway, and its `status`. Use it as a backup before an erasure, and for support.
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

    /// Erases the user's data from the database: the synchronized tables' rows, and all data of the library.
    ///
    /// After that, another user may sign in with the same file, on a separate client. This client, and every other
    /// client that has the file open, no longer writes.
    ///
    /// To sign out and keep pending writes for the next sign-in of the same user, ``suspend()`` is sufficient: pending
    /// writes are never sent with another user's token.
    ///
    /// - Throws: ``SluiceError/pendingWrites(_:)`` if there are pending writes and `choice` does not discard them; then
    ///   nothing is erased, and synchronization is suspended.
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

    /// Deletes the user's data: the synchronized tables' rows, and all data of the library.
    ///
    /// Clients that have the file open for that user no longer write.
    static func wipe(_ map: EntityMap, _ db: Database) throws {
        try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
        for entity in map.entities { try db.execute(sql: "DELETE FROM \(entity.table.quotedDatabaseIdentifier)") }
        for table in all { try db.execute(sql: "DELETE FROM \(table)") }
    }
}
