import Foundation
import GRDB

/// This installation: its id, and the numbers that it counts.
struct Device {
    /// The device's id, made at first sight of the database.
    static func id(_ db: Database) throws -> UUID {
        if let id = try String.fetchOne(db, sql: "SELECT device_id FROM sluice_device") { return try UUID(wire: id) }
        let id = UUID()
        try db.execute(sql: "INSERT INTO sluice_device (id, device_id) VALUES (1, ?)", arguments: [id.wire])
        return id
    }

    /// The number of the next mutation, which is given once.
    static func takeSequence(_ db: Database) throws -> Int64 {
        // two statements: for RETURNING, SQLite makes a table each time
        let next = try db.cachedStatement(sql: "SELECT next_sequence FROM sluice_device")
        guard let sequence = try Int64.fetchOne(next) else {
            _ = try id(db)
            return try takeSequence(db)
        }
        try db.cachedStatement(sql: "UPDATE sluice_device SET next_sequence = next_sequence + 1").execute()
        return sequence
    }
}
