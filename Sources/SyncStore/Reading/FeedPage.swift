import Foundation
import JSONText
import Postgres
import SyncModel

/// One page of a feed.
struct FeedPage: FeedView {
    private let rows: Rows
    /// The rows that hold a change, in the feed's order.
    let changes: Range<Int>
    let next: FeedCursor
    let isUpToDate: Bool
    /// Tombstones at or below it may be gone.
    let horizon: Int64
    var isEmpty: Bool { changes.isEmpty }

    /// Reads what ``FeedReader/statement`` answers.
    static func reading(
        _ rows: Rows,
        after cursor: FeedCursor?,
        _ request: FeedRequest
    ) throws -> FeedReader.Reading {
        guard rows.count > 0 else { throw Problem(.organizationUnknown, "the organization has no feed") }
        let (epoch, horizon, last) = (try rows.int64(0, 0), try rows.int64(0, 1), try rows.int64(0, 2))
        if let cursor {
            guard cursor.epoch == epoch, cursor.position <= last else { return .expired(isOfThisEpoch: false) }
            guard horizon <= cursor.reach else { return .expired(isOfThisEpoch: true) }
        }
        return .page(try FeedPage(rows, epoch: epoch, horizon: horizon, last: last, after: cursor, request))
    }

    private init(
        _ rows: Rows,
        epoch: Int64,
        horizon: Int64,
        last: Int64,
        after cursor: FeedCursor?,
        _ request: FeedRequest
    ) throws {
        self.rows = rows
        self.horizon = horizon
        let hasEntities = !rows.isNull(0, 5)
        changes = 0..<(hasEntities ? rows.count : 0)
        let isCut = hasEntities ? try rows.bool(rows.count - 1, 15) : false
        let scanned = try rows.int64(0, 3)
        // where the scan ended: at the last change shown if the page is full, else where it stopped looking, else at the
        // feed's end
        let position: Int64
        if isCut {
            position = try rows.int64(rows.count - 1, 5)
        } else if try scanned >= rows.int64(0, 16) {
            position = try rows.int64(0, 4)
        } else {
            position = last
        }
        let started = cursor?.head ?? last
        let isFirstPull = cursor.map { $0.position < $0.head } ?? true
        next = FeedCursor(
            epoch: epoch,
            position: position,
            head: isFirstPull ? max(started, position) : position,
            filter: FeedCursor.filter(request.entityTypes)
        )
        isUpToDate = position >= last
    }

    // MARK: - Changes

    func entityType(_ row: Int) throws -> String { try rows.string(row, 6) }

    func id(_ row: Int) throws -> ServerID {
        ServerID(text: try rows.string(row, 7), isInteger: try rows.bool(row, 8))
    }

    func isDeleted(_ row: Int) throws -> Bool { try rows.bool(row, 11) }

    /// The entity's document as it was written; nil for a tombstone, and where it cannot be opened.
    func document(_ row: Int, _ seal: Seal) throws -> [UInt8]? {
        let (type, id) = (try rows.string(row, 6), try rows.string(row, 7))
        var unreadable: [String] = []
        return try seal.read(json: rows.optionalBytes(row, 12), as: .document(type: type, id: id), &unreadable)
    }

    /// Writes a change.
    ///
    /// - Parameters:
    ///   - document: as it is to be shown.
    ///   - localID: a device's own number of the entity, in the place of the creator's client id.
    func write(_ row: Int, document: [UInt8]?, localID: Int64?, to writer: inout JSONWriter) throws {
        writer.beginObject()
        writer.member("entity_type", try entityType(row))
        writer.member("id", try rows.serverID(row, 7))
        if let localID {
            writer.member("local_id", localID)
        } else if let clientID = try rows.optionalUUID(row, 9) {
            writer.member("client_id", clientID)
        }
        writer.member("version", try rows.int64(row, 10))
        writer.member("etag", try rows.optionalString(row, 17))
        writer.member("deleted", try rows.bool(row, 11))
        writer.member("document", raw: document)
        if document == nil, !rows.isNull(row, 12) { writer.unreadable(["document"]) }
        writer.member("updated_at", Timestamp(microseconds: try rows.timestamp(row, 13)).rfc3339)
        writer.member("updated_by", try rows.uuid(row, 14))
        writer.endObject()
    }
}
