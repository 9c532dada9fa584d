import Foundation
import JSONText
import Postgres
import SyncModel

/// One page of a feed.
struct FeedPage: FeedView {
    /// In the feed's order.
    let changes: [FeedChange]
    let next: FeedCursor
    let isUpToDate: Bool
    /// Tombstones at or below it may be gone.
    let horizon: Int64
    var isEmpty: Bool { changes.isEmpty }

    /// What each row of ``FeedReader/statement`` says of the feed and of the scan.
    private struct Head {
        let epoch: Int64
        let horizon: Int64
        /// The feed's end.
        let last: Int64
        let scanned: Int64
        let scannedTo: Int64?
        /// How many are looked at.
        let room: Int64

        init(_ row: inout RowReader) throws {
            epoch = try row.int64("epoch")
            horizon = try row.int64("horizon")
            last = try row.int64("last_position")
            scanned = try row.int64("scanned")
            scannedTo = try row.optionalInt64("scanned_to")
            room = try row.int64("looked_at")
        }

        private static let names: [StaticString] = [
            "epoch", "horizon", "last_position", "scanned", "scanned_to", "looked_at",
        ]

        /// Passes over it: every row says the same.
        static func skip(_ row: inout RowReader) {
            for name in names { row.skip(name) }
        }
    }

    /// Reads what ``FeedReader/statement`` answers.
    static func reading(
        _ rows: Rows,
        after cursor: FeedCursor?,
        _ request: FeedRequest
    ) throws -> FeedReader.Reading {
        guard var first = rows.first else { throw Problem(.organizationUnknown, "the organization has no feed") }
        let head = try Head(&first)
        if let cursor {
            guard cursor.epoch == head.epoch, cursor.position <= head.last else {
                return .expired(isOfThisEpoch: false)
            }
            guard head.horizon <= cursor.reach else { return .expired(isOfThisEpoch: true) }
        }
        return .page(try FeedPage(rows, head, after: cursor, request))
    }

    private init(_ rows: Rows, _ head: Head, after cursor: FeedCursor?, _ request: FeedRequest) throws {
        horizon = head.horizon
        var changes: [FeedChange] = []
        changes.reserveCapacity(rows.count)
        var end: (position: Int64, isCut: Bool)?
        for var row in rows {
            Head.skip(&row)
            // a row without an entity says that nothing passed
            guard let position = try row.optionalInt64("feed_position") else { continue }
            end = (position, try row.bool("is_cut"))
            changes.append(try FeedChange(&row))
        }
        self.changes = changes
        // where the scan ended: at the last change shown if the page is full, else where it stopped looking, else at the
        // feed's end
        let position: Int64
        if let end, end.isCut {
            position = end.position
        } else if let scannedTo = head.scannedTo, head.scanned >= head.room {
            position = scannedTo
        } else {
            position = head.last
        }
        let started = cursor?.head ?? head.last
        let isFirstPull = cursor.map { $0.position < $0.head } ?? true
        next = FeedCursor(
            epoch: head.epoch,
            position: position,
            head: isFirstPull ? max(started, position) : position,
            filter: FeedCursor.filter(request.entityTypes)
        )
        isUpToDate = position >= head.last
    }
}

/// An entity as a feed shows it.
struct FeedChange {
    let entityType: String
    let id: ServerID
    let isDeleted: Bool
    /// The creator's client id, shown to the creator only.
    private let clientID: UUID?
    private let version: Int64
    /// As it is stored.
    private let document: [UInt8]?
    private let updatedAt: Timestamp
    private let updatedBy: UUID
    private let etag: String?

    fileprivate init(_ row: inout RowReader) throws {
        entityType = try row.string("entity_type")
        id = ServerID(text: try row.string("server_id"), isInteger: try row.bool("server_id_is_integer"))
        clientID = try row.optionalUUID("client_id")
        version = try row.int64("version")
        isDeleted = try row.bool("is_deleted")
        document = try row.optionalBytes("document")
        updatedAt = try row.moment("updated_at")
        updatedBy = try row.uuid("updated_by")
        etag = try row.optionalString("etag")
    }

    /// The entity's document as it was written; nil for a tombstone, and where it cannot be opened.
    func document(_ seal: Seal) throws -> [UInt8]? {
        var unreadable: [String] = []
        return try seal.read(json: document, as: .document(type: entityType, id: id.text), &unreadable)
    }

    /// Writes a change.
    ///
    /// - Parameters:
    ///   - shown: the document as it is to be shown.
    ///   - localID: a device's own number of the entity, in the place of the creator's client id.
    func write(document shown: [UInt8]?, localID: Int64?, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("entity_type", entityType)
        writer.member("id", id)
        if let localID {
            writer.member("local_id", localID)
        } else if let clientID {
            writer.member("client_id", clientID)
        }
        writer.member("version", version)
        writer.member("etag", etag)
        writer.member("deleted", isDeleted)
        writer.member("document", raw: shown)
        if shown == nil, document != nil { writer.unreadable(["document"]) }
        writer.member("updated_at", updatedAt.rfc3339)
        writer.member("updated_by", updatedBy)
        writer.endObject()
    }
}
