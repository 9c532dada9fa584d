import Foundation
import GRDB

/// The installation of the app that a database belongs to.
///
/// A backup can copy a database to another phone. Two phones with the same device id would give the same numbers to
/// different rows and mutations. For this reason, the copy gets a new device id before it sends anything.
struct Installation {
    private let map: EntityMap
    /// A text that identifies the installation; nil for a database in memory.
    private let text: String?
    private let keep: TimeInterval
    private let now: Date

    /// - Parameter path: the path of the database.
    init(_ map: EntityMap, _ configuration: SluiceClient.Configuration, _ path: String) {
        self.map = map
        text = configuration.installation ?? Self.number(ofFile: path)
        keep = configuration.keep.seconds
        now = configuration.now()
    }

    /// Returns the number of a file in its file system. A renamed file keeps its number, but a copy of the file has
    /// another number.
    private static func number(ofFile path: String) -> String? {
        let file = URL(filePath: path).resolvingSymlinksInPath().path
        return try? FileManager.default.attributesOfItem(atPath: file)[.systemFileNumber].map { "file \($0)" }
    }

    /// Returns the id of the database's device. If the database belongs to another installation, it gets a new device
    /// id.
    func claim(_ database: any DatabaseWriter) throws -> UUID {
        if let device = try database.read({ try Device.known($0) }), try database.read({ try isOwner($0) }) {
            return device
        }
        return try database.write { db in
            let device = try Device.id(db)
            if try isOwner(db) { return device }
            let isCopy = try String.fetchOne(db, sql: "SELECT installation FROM sluice_device") != nil
            try db.execute(sql: "UPDATE sluice_device SET installation = ?", arguments: [text])
            return isCopy ? try becomeAnotherDevice(db) : device
        }
    }

    private func isOwner(_ db: Database) throws -> Bool {
        try text == nil || text == String.fetchOne(db, sql: "SELECT installation FROM sluice_device")
    }

    // MARK: - A copy

    private func becomeAnotherDevice(_ db: Database) throws -> UUID {
        let device = UUID()
        try db.execute(
            sql: """
                UPDATE sluice_device
                SET device_id = ?, accepted_sequence = 0, next_sequence = ?, is_shared = 1
                """,
            arguments: [device.wire, try Device.nextSequence(db)]
        )
        // the row identifies a process of the other phone
        try db.execute(sql: "DELETE FROM sluice_flight")
        try refuseOldSent(db)
        if map.hasDeviceIDs { try forgetNumbers(db) }
        // after this, a later discard of one of these mutations is sent to the gateway
        try PushBatch.markSent(db)
        return device
    }

    /// Leaves the decision about old sent writes to a person. The gateway may have accepted these writes so long ago
    /// that it has deleted their idempotency records. It would then accept them again from another device.
    private func refuseOldSent(_ db: Database) throws {
        let problem: JSON = [
            "type": "urn:sluice:problem:sequence_already_used", "title": "The sequence number was used",
            "status": 409, "code": "sequence_already_used",
            "detail": "The write was sent before the backup, so long ago that it may have taken effect.",
        ]
        try db.execute(
            sql: "UPDATE sluice_mutations SET status = 'rejected', error = ? WHERE status = 'sent' AND created_at < ?",
            arguments: [problem.text, now.addingTimeInterval(-keep).rfc3339]
        )
    }

    /// Makes the phone use server ids for entities, until pulls have assigned local ids of this device. Rows keep their
    /// keys.
    private func forgetNumbers(_ db: Database) throws {
        try NumberReplacement(map, db).replaceInQueued()
        for entity in map.entities where entity.idSpace == .device {
            try db.execute(
                sql: """
                    UPDATE sluice_id_mappings SET client_id = NULL
                    WHERE entity_type = ? AND status = 'resolved' AND \(NumberReplacement.isReplaceable)
                    """,
                arguments: [entity.entityType]
            )
        }
        try DeviceNumbers.noteOthers(db)
        try Feed.startOver(Feed.read(db).filter, db, now: now)
    }
}
