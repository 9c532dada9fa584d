import Foundation
import GRDB

/// This installation of the app: its device id and its counter of mutations.
struct Device {
    /// Returns the device's id, which is created when the database is first used.
    static func id(_ db: Database) throws -> UUID {
        if let id = try known(db) { return id }
        let id = UUID()
        try db.execute(sql: "INSERT INTO sluice_device (id, device_id) VALUES (1, ?)", arguments: [id.wire])
        return id
    }

    /// Returns the device's id; nil before the database is first used, and after a sign-out.
    static func known(_ db: Database) throws -> UUID? {
        let statement = try db.cachedStatement(sql: "SELECT device_id FROM sluice_device")
        return try String.fetchOne(statement).map(UUID.init(wire:))
    }

    /// Returns the number of the next mutation.
    ///
    /// This method writes nothing, because each changed page would add to the write-ahead log. The number is used up
    /// when a mutation with this number is added to the outbox.
    ///
    /// - Parameter device: the device that needs the number; nil for the device of this file.
    /// - Throws: ``SluiceError/signedOut`` if there is no such device, because the user has signed out.
    static func nextSequence(_ db: Database, of device: UUID? = nil) throws -> Int64 {
        let next = try db.cachedStatement(
            sql: """
                SELECT max(next_sequence, 1 + coalesce((SELECT max(sequence_number) FROM sluice_mutations), 0))
                FROM sluice_device WHERE device_id = coalesce(?, device_id)
                """
        )
        guard let sequence = try Int64.fetchOne(next, arguments: [device?.wire]) else { throw SluiceError.signedOut }
        return sequence
    }
}
