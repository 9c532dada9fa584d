package import FoundationEssentials
import Postgres
package import SyncModel

/// One page of a feed.
package struct FeedPage: Sendable {
    /// The changes, in the feed's order.
    package var changes: [FeedChange]
    /// The cursor of the next page.
    package var next: FeedCursor
    /// Whether the page reaches the present end of the feed.
    package private(set) var isUpToDate: Bool
    /// The next local id that the device assigns, by entity type; nil on a page in permanent ids.
    ///
    /// The number of a type is nil if the type has no numbers left.
    package var nextLocalIDs: [(type: String, next: Int64?)]?
    /// The position up to which tombstones may have been deleted.
    let horizon: Int64
    /// Whether the organization has types with channels. If so, ``FeedReader/statement`` does not find all changes.
    let hasChannels: Bool
    /// The position of each change in the feed.
    private let positions: [Int64]
    /// Returns the cursor after the change at a position.
    private let cursor: @Sendable (_ position: Int64) -> FeedCursor

    /// The columns of ``FeedReader/statement`` about the feed and the scan.
    private struct Head {
        let epoch: Int64
        let horizon: Int64
        /// The feed's end.
        let last: Int64
        let scanned: Int64
        let scannedTo: Int64?
        /// The maximum number of entities to read.
        let room: Int64
        let hasChannels: Bool

        init(_ row: inout RowReader) throws {
            epoch = try row.read("epoch")
            horizon = try row.read("horizon")
            last = try row.read("last_position")
            scanned = try row.read("scanned")
            scannedTo = try row.read("scanned_to")
            room = try row.read("looked_at")
            hasChannels = try row.read("has_channels")
        }

        private static let names: [StaticString] = [
            "epoch", "horizon", "last_position", "scanned", "scanned_to", "looked_at", "has_channels",
        ]

        /// Skips these columns, because every row has the same values.
        static func skip(_ row: inout RowReader) {
            for name in names { row.skip(name) }
        }
    }

    /// Reads the rows of ``FeedReader/statement``.
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
        var positions: [Int64] = []
        var end: (position: Int64, isCut: Bool)?
        for var row in rows {
            Head.skip(&row)
            // a row without an entity means that no entity passed the filter
            guard let position: Int64 = try row.read("feed_position") else { continue }
            end = (position, try row.read("is_cut", as: Bool.self))
            changes.append(try FeedChange(&row))
            positions.append(position)
        }
        self.changes = changes
        self.positions = positions
        // if the page is full, the scan ends at the last change of the page; if not, it ends where the statement
        // stopped, or at the end of the feed if the statement read everything
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
        let filter = request.filter
        self.cursor = { position in
            let end = max(isFirstPull ? started : position, position)
            return FeedCursor(epoch: head.epoch, position: position, head: end, filter: filter)
        }
        hasChannels = head.hasChannels
        next = self.cursor(position)
        isUpToDate = position >= head.last
    }

    /// Creates a page from changes that another statement found.
    ///
    /// - Parameters:
    ///   - positions: the position of each change, in the order of the page.
    ///   - cursor: returns the cursor after the change at a position.
    init(
        _ changes: [FeedChange],
        at positions: [Int64],
        next: FeedCursor,
        isUpToDate: Bool,
        horizon: Int64,
        cursor: @escaping @Sendable (_ position: Int64) -> FeedCursor
    ) {
        (self.changes, self.positions, self.next, self.isUpToDate) = (changes, positions, next, isUpToDate)
        (self.horizon, self.cursor, hasChannels) = (horizon, cursor, true)
    }

    /// Returns a page with only the first changes. The returned page ends after the last of these changes.
    func first(_ count: Int) -> FeedPage {
        guard count > 0, count < changes.count else { return self }
        var page = self
        page.changes = Array(changes[..<count])
        page.next = cursor(positions[count - 1])
        page.isUpToDate = false
        return page
    }

    /// Returns the page with decrypted documents.
    func opened(_ seal: Seal) throws -> FeedPage {
        var page = self
        for place in page.changes.indices {
            page.changes[place].show(try page.changes[place].document(seal))
        }
        return page
    }
}

// MARK: - FeedChange

/// An entity as it appears in a feed.
package struct FeedChange: Sendable {
    package let entityType: String
    package let id: ServerID
    package let isDeleted: Bool
    /// The creator's client id, which only the creator sees.
    package let clientID: UUID?
    /// A device's local id of the entity, which replaces the creator's client id.
    package private(set) var localID: Int64?
    package let version: Int64
    /// The document, in stored form until ``show(_:localID:)`` replaces it.
    package private(set) var document: [UInt8]?
    /// Whether the stored document cannot be decrypted.
    package private(set) var isUnreadable = false
    package let updatedAt: Timestamp
    package let updatedBy: UUID
    package let etag: String?
    /// Whether the user no longer sees the entity. If so, the change contains only the entity's type and id.
    package let isRemoved: Bool

    init(_ row: inout RowReader) throws {
        entityType = try row.read("entity_type")
        id = ServerID(text: try row.read("server_id"), isInteger: try row.read("server_id_is_integer"))
        clientID = try row.read("client_id")
        version = try row.read("version")
        isDeleted = try row.read("is_deleted")
        document = try row.read("document")
        updatedAt = try row.read("updated_at")
        updatedBy = try row.read("updated_by")
        etag = try row.read("etag")
        isRemoved = false
    }

    /// Reads the type and the id of an entity that the user no longer sees.
    init(removed row: inout RowReader) throws {
        entityType = try row.read("entity_type")
        id = ServerID(text: try row.read("server_id"), isInteger: try row.read("server_id_is_integer"))
        (clientID, document, etag) = (nil, nil, nil)
        (version, updatedAt, updatedBy) = (0, Timestamp(microseconds: 0), Writer.erased)
        (isDeleted, isRemoved) = (true, true)
    }

    /// Returns the entity's document as it was written; nil for a tombstone, and for a document that cannot be
    /// decrypted.
    func document(_ seal: Seal) throws -> [UInt8]? {
        var unreadable: [String] = []
        return try seal.read(json: document, as: .document(type: entityType, id: id.text), &unreadable)
    }

    /// Replaces the stored document by the document for the reader.
    mutating func show(_ shown: [UInt8]?, localID: Int64? = nil) {
        isUnreadable = shown == nil && document != nil
        document = shown
        self.localID = localID
    }
}

/// The requested part of a feed, and its reader.
struct FeedRequest: Sendable {
    let organization: UUID
    let user: UUID
    /// The requested entity types; empty for all.
    let entityTypes: [String]
    /// The channels to which the pull is restricted; nil for all.
    var channels: [String]?
    /// Whether a pull that is restricted to channels also includes entities without channels, and entities in the
    /// user's own channel.
    var includesOthers = false
    /// The maximum number of changes, 1 to 1,000.
    let limit: Int

    /// A hash of the requested types and channels.
    var filter: UInt64 {
        // no channel can have the added name
        FeedCursor.filter(entityTypes, channels: channels.map { includesOthers ? $0 + ["\u{2}"] : $0 } ?? [])
    }

    var interest: FeedInterest {
        FeedInterest(organization: organization, user: user, entityTypes: Set(entityTypes))
    }

    /// Reads `since`.
    ///
    /// - Throws: `invalid_request` for an invalid cursor, or for a cursor of another filter.
    func cursor(_ since: String?, pointer: String = "") throws(Problem) -> FeedCursor? {
        guard let since else { return nil }
        guard let cursor = FeedCursor(since) else {
            throw .invalidParameter("since is not a cursor of this feed", pointer: pointer)
        }
        guard cursor.filter == filter else {
            let detail = "since was issued for another entity_type or channel filter; start over without since"
            throw .invalidParameter(detail, pointer: pointer)
        }
        return cursor
    }
}
