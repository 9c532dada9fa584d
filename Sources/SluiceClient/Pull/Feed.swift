import Foundation
import GRDB

/// The phone's position in the feed.
struct Feed: Sendable {
    var cursor: String?
    var generation: Int64
    /// Whether the pull from the beginning, or after a 410, is still in progress.
    var isSnapshot: Bool
    /// The number of changes that this pull has returned so far.
    var snapshotRows: Int64
    /// The entity types and channels for which the cursor is valid.
    var filter: Filter

    /// The restriction of a pull.
    struct Filter: Sendable, Equatable {
        /// Sorted, with commas between them.
        var types: String
        /// Sorted; empty for no restriction.
        var channels: [String]

        init(types: String, channels: [String]) {
            (self.types, self.channels) = (types, channels)
        }

        /// Reads ``text``. No name has a line feed.
        init(_ text: String) {
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            self.init(types: lines.first ?? "", channels: Array(lines.dropFirst()))
        }

        var text: String { ([types] + channels).joined(separator: "\n") }

        /// The gateway compares names by their bytes.
        static func == (left: Filter, right: Filter) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }
    }
}

extension Feed {
    static func read(_ db: Database) throws -> Feed {
        _ = try Device.id(db)
        let row = try Row.fetchOne(
            db,
            sql: "SELECT cursor, generation, is_snapshot, snapshot_rows, pulled_types FROM sluice_device"
        )
        guard let row else { throw SluiceError.configuration("the library's tables are missing") }
        return Feed(
            cursor: row["cursor"],
            generation: row["generation"],
            isSnapshot: row["is_snapshot"],
            snapshotRows: row["snapshot_rows"],
            filter: Filter(row["pulled_types"])
        )
    }

    /// Starts a pull from the beginning. Entities that it does not contain are removed at its end, not before.
    static func startOver(_ filter: Filter, _ db: Database, now: Date) throws {
        _ = try Device.id(db)
        try db.execute(
            sql: """
                UPDATE sluice_device
                SET cursor = NULL, generation = generation + 1, is_snapshot = 1, snapshot_rows = 0, pulled_types = ?,
                    snapshot_began_at = ?
                """,
            arguments: [filter.text, now.rfc3339]
        )
    }

    /// Marks edits that took effect before a pull begins. The pull contains their effects, unless a restored gateway
    /// has lost them, or a pull from the beginning has no tombstone of their entities. Times are not compared, because
    /// clocks can be set back.
    static func markOutdated(_ db: Database) throws {
        try db.execute(sql: "UPDATE sluice_mutations SET is_outdated = 1 WHERE is_shown AND status = 'succeeded'")
    }
}
