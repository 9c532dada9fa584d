import Foundation
import GRDB

/// The phone's position in the feed.
struct Feed: Sendable {
    var cursor: String?
    var generation: Int64
    /// Whether a pull from the beginning, such as after a 410, is still in progress.
    var isSnapshot: Bool
    /// The number of changes that the pull from the beginning has returned so far.
    var snapshotRows: Int64
    /// The entity types and channels for which the cursor is valid.
    var filter: Filter

    /// The restriction of a pull.
    struct Filter: Sendable, Equatable {
        /// The sorted entity types, with commas between them.
        var types: String
        /// The sorted channels; empty for no restriction.
        var channels: [String]

        init(types: String, channels: [String]) {
            (self.types, self.channels) = (types, channels)
        }

        /// Reads ``text``, in which line feeds separate the names. Names contain no line feeds.
        init(_ text: String) {
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            self.init(types: lines.first ?? "", channels: Array(lines.dropFirst()))
        }

        var text: String { ([types] + channels).joined(separator: "\n") }

        /// Compares names by their bytes, as the gateway does.
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

    /// Starts a pull from the beginning. Entities that the pull does not contain are removed when the pull ends, and
    /// not before.
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

    /// Marks edits that took effect before a pull begins. The pull contains the effects of these edits, with two
    /// exceptions: a restored gateway may have lost the edits, and a pull from the beginning contains no tombstones.
    /// The edits are marked, instead of comparing times, because clocks can be set back.
    static func markOutdated(_ db: Database) throws {
        try db.execute(sql: "UPDATE sluice_mutations SET is_outdated = 1 WHERE is_shown AND status = 'succeeded'")
    }
}
