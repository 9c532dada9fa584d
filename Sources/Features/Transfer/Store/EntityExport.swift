package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// Exports an organization's entities as NDJSON in the order of the feed.
///
/// Each page is read by a separate statement. Between pages, an export holds no transaction and no lock, and it has at
/// most one page in memory.
///
/// The statement of the last page also reads the feed's end. At that moment, the last line of each entity in the file
/// gives the entity's state. An entity that is written during the export moves to the end of the feed and is exported
/// again. An entity that is deleted during the export is exported as deleted, because an earlier line may contain it.
package struct EntityExport: Sendable {
    /// The selection of the exported entities.
    package struct Filter: Sendable, Hashable {
        /// The exported entity types; empty for all.
        @Exact package var types: [String] = []
        package var updatedSince: Timestamp?
        /// Whether to include entities that were deleted before the export began.
        package var hasTombstones = false

        package init() {}
    }

    /// The progress of an export.
    package struct Progress: Sendable, Hashable {
        /// The number of written lines, including tombstones.
        package var lines = 0
        package var tombstones = 0
        /// The number of documents that could not be decrypted and were left out.
        package var unreadable = 0
        /// The position in the feed, and the feed's current end.
        package var position: Int64 = 0
        package var end: Int64 = 0

        package init() {}
    }

    /// The total size of documents, in bytes, at which a page ends. The page includes the document that exceeds the
    /// total.
    static let pageBytes: Int64 = 2_097_152

    let pool: Pool
    let catalog: Catalog
    let failure: StoreFailure
    package let organization: UUID
    package let filter: Filter

    /// The beginning of every line.
    package static let lineBeginning = Array(#"{"entity_type":"#.utf8)

    /// Returns the cursor in the last line of an interrupted export.
    ///
    /// - Throws: `invalid_request` if the line is not from an export of the same entities.
    package func cursor(in line: [UInt8]) throws(Problem) -> FeedCursor {
        let text = (try? JSONTree(parsing: line, limits: .widest).root)?["cursor"]?.string
        guard let text, let cursor = FeedCursor(text) else {
            throw Problem(.invalidRequest, "its last line is not a line of an export")
        }
        guard cursor.filter == filterHash else {
            let detail =
                "it was exported from another organization, or with other --type, --updated-since or --tombstones"
            throw Problem(.invalidRequest, detail)
        }
        return cursor
    }

    /// Exports the lines. Each call of `write` gets a few lines, each with its line feed.
    ///
    /// - Parameters:
    ///   - start: the cursor of the last line that was already written; nil to start from the beginning.
    ///   - passed: called after each page. The export waits until `passed` returns, so `passed` can set the pace.
    /// - Throws: errors of `write` and `passed`; `cursor_expired`; `store_unavailable`.
    package func run(
        after start: FeedCursor?,
        limit: () -> Int,
        unreadable: (EntityKey) -> Void = { _ in },
        passed: (Progress, _ rows: Int, _ seconds: Double) async throws -> Void,
        _ write: ([UInt8]) throws -> Void
    ) async throws {
        // drops cached data keys, because another gateway may have just created a newer key
        catalog.invalidate(organization)
        var progress = Progress()
        var cursor = start
        while true {
            let began = ContinuousClock.now
            let page = try await page(after: cursor, limit: limit())
            var lines: [UInt8] = []
            for entity in page.entities {
                guard !entity.isUnreadable else {
                    progress.unreadable += 1
                    unreadable(entity.key)
                    continue
                }
                let place = FeedCursor(
                    epoch: page.next.epoch,
                    position: entity.position,
                    head: max(page.head, entity.position),
                    filter: filterHash
                )
                entity.appendLine(to: &lines, cursor: place)
                progress.lines += 1
                if entity.document == nil { progress.tombstones += 1 }
            }
            if !lines.isEmpty { try write(lines) }
            cursor = page.next
            (progress.position, progress.end) = (page.next.position, page.end)
            try await passed(progress, page.scanned, (.now - began) / .seconds(1))
            if page.isLast { return }
        }
    }

    /// A hash of the organization and the filter. An export accepts only cursors with the same hash.
    private var filterHash: UInt64 {
        var names = filter.types + ["+organization \(organization.lowercased)"]
        if let since = filter.updatedSince { names.append("+since \(since.microseconds)") }
        if filter.hasTombstones { names.append("+tombstones") }
        return FeedCursor.filter(names)
    }

    // MARK: - Pages

    struct Page {
        var entities: [ExportedEntity] = []
        var next: FeedCursor
        /// The end of the feed when the export began.
        let head: Int64
        let end: Int64
        /// The number of entities that were read.
        let scanned: Int
        let isLast: Bool
    }

    private func page(after cursor: FeedCursor?, limit: Int) async throws(Problem) -> Page {
        do {
            let rows = try await pool.runByIndex(Query(Self.statement, parameters(after: cursor, limit: limit)))
            return try await catalog.opening(organization) { try Page(rows, after: cursor, limit, filterHash, $0) }
        } catch {
            throw failure.problem(error, doing: "export entities")
        }
    }

    private func parameters(after cursor: FeedCursor?, limit: Int) -> Parameters {
        var parameters = Parameters(of: organization, cursor?.position ?? 0, limit, filter.types)
        parameters.add(filter.updatedSince)
        // the first page has no cursor, so its statement uses the feed's present end
        parameters.add(filter.hasTombstones ? 0 : cursor?.head)
        parameters.add(Self.pageBytes)
        return parameters
    }

    private static let past = RowBytes.stop(
        when: "q.bytes_to > :bytes",
        by: "q.feed_position",
        includesExceeding: true
    )

    private static let scanned = FeedOrder.entities(
        "e.feed_position",
        where: "e.organization_id = :organization AND e.feed_position > :after",
        limit: ":limit"
    )

    private static let exported = FeedOrder.entities(
        "e.*",
        where: """
            e.organization_id = :organization AND e.feed_position > :after
                AND e.feed_position <= s.scanned_to
                AND (cardinality(:types::text[]) = 0 OR e.entity_type = ANY (:types))
                AND (:since::timestamptz IS NULL OR e.updated_at >= :since)
                AND (NOT e.is_deleted OR e.feed_position > coalesce(:end::int8, f.last_position))
            """,
        limit: ":limit"
    )

    /// A page of up to `limit` entities after a position (`after`).
    ///
    /// The page contains entities with these properties:
    ///
    /// - The type is in `types`. If `types` is empty, the page contains all types.
    /// - The last change was at `since` or later. If `since` is null, the time does not matter.
    /// - The entity exists, or was deleted after the position `end`. If `end` is null, the feed's present end is used.
    ///
    /// The page ends earlier if its documents exceed `bytes` in total, and includes the document that exceeds this
    /// total. The first columns describe the feed and the position that was reached. If a page has no entities, it
    /// consists of one row whose entity is null.
    static let statement = Statement(
        "export_page",
        ["organization", "after", "limit", "types", "since", "end", "bytes"],
        """
        SELECT f.epoch, f.horizon, f.last_position, s.scanned, s.scanned_to, e.feed_position, e.is_cut, e.entity_type,
            e.id, e.id_is_integer, e.document, e.owner_id, e.updated_at, e.is_private
        FROM feeds f
        CROSS JOIN LATERAL (
            SELECT count(*) AS scanned, max(x.feed_position) AS scanned_to
            FROM \(scanned) x
        ) s
        LEFT JOIN LATERAL (
            SELECT r.*, r.bytes_to > :bytes AS is_cut,
                (SELECT t.visibility <> 'organization' FROM entity_types t
                 WHERE t.organization_id = :organization AND t.name = r.entity_type) IS TRUE AS is_private
            FROM (
                SELECT q.*, \(past) AS past
                FROM (
                    SELECT p.*, sum(\(RowBytes.of("p.document"))) OVER (
                            ORDER BY p.feed_position ROWS UNBOUNDED PRECEDING) AS bytes_to
                    FROM \(exported) p
                ) q
            ) r
            WHERE r.past < 1
        ) e ON true
        WHERE f.organization_id = :organization
        ORDER BY e.feed_position
        """
    )

    static let statements = [statement]
}

extension EntityExport.Page {
    /// The first columns, which are equal in every row.
    private static let feedColumns: [StaticString] = ["epoch", "horizon", "last_position", "scanned", "scanned_to"]

    /// Reads the rows of ``EntityExport/statement``.
    init(_ rows: Rows, after cursor: FeedCursor?, _ limit: Int, _ filter: UInt64, _ seal: Seal) throws {
        guard let first = rows.first else {
            throw Problem(.organizationUnknown, "the organization no longer exists")
        }
        var feed = first
        let epoch: Int64 = try feed.read("epoch")
        let horizon: Int64 = try feed.read("horizon")
        end = try feed.read("last_position")
        scanned = try feed.read("scanned")
        let scannedTo: Int64? = try feed.read("scanned_to")
        if let cursor {
            // cursors of exports and cursors of pulls expire under equal conditions: see ``FeedPage``
            guard cursor.epoch == epoch, cursor.position <= end, horizon <= cursor.reach else {
                let detail = "deletions since then are no longer stored, or the organization was purged or restored"
                throw Problem(.cursorExpired, detail + ": export it from the beginning")
            }
        }
        head = cursor?.head ?? end
        var cut: Int64?
        var lacking = LackingKeys()
        for var row in rows {
            for name in Self.feedColumns { row.skip(name) }
            guard let position: Int64 = try row.read("feed_position") else { continue }
            cut = try row.read("is_cut", as: Bool.self) ? position : nil
            let entity = try lacking.collect { try ExportedEntity(&row, at: position, seal) }
            if let entity { entities.append(entity) }
        }
        try lacking.check()
        let position = cut ?? (scanned >= limit ? scannedTo ?? end : end)
        next = FeedCursor(epoch: epoch, position: position, head: max(head, position), filter: filter)
        isLast = position >= end
    }
}

// MARK: - ExportedEntity

/// An entity to be exported as one line.
struct ExportedEntity {
    let position: Int64
    let key: EntityKey
    private let id: ServerID
    /// The document; nil for a tombstone, and for a document that cannot be decrypted.
    let document: [UInt8]?
    let isUnreadable: Bool
    /// The owner; nil for an entity without an owner.
    private let owner: UUID?
    private let updatedAt: Timestamp
    /// Whether only the owner sees the entity.
    private let isPrivate: Bool

    /// Reads the columns of ``EntityExport/statement`` after `is_cut`.
    init(_ row: inout RowReader, at position: Int64, _ seal: Seal) throws {
        self.position = position
        key = try row.entityKey()
        id = ServerID(text: key.id, isInteger: try row.read("id_is_integer"))
        var unreadable: [String] = []
        document = try seal.read(
            json: row.read("document"),
            as: .document(type: key.type, id: key.id),
            &unreadable
        )
        isUnreadable = !unreadable.isEmpty
        let owner: UUID = try row.read("owner_id")
        self.owner = owner == Writer.elsewhere.user || owner == .least ? nil : owner
        updatedAt = try row.read("updated_at")
        isPrivate = try row.read("is_private")
    }

    /// Appends the line in the form that ``EntityLine`` reads.
    ///
    /// The line contains the time of the last change, but not the version in the feed. An import would treat this
    /// version as one that a program outside of Sluice assigned to the entity.
    func appendLine(to lines: inout [UInt8], cursor: FeedCursor) {
        var writer = JSONWriter(capacity: 256 + (document?.count ?? 0))
        writer.beginObject()
        writer.member("entity_type", key.type)
        writer.member("id", id)
        if document == nil { writer.member("deleted", true) }
        if isPrivate { writer.member("private", true) }
        if let owner { writer.member("owner", owner) }
        writer.member("occurred_at", updatedAt.rfc3339)
        if let document { writer.member("document", raw: document.inOneLine) }
        writer.member("cursor", cursor.text)
        writer.endObject()
        lines += writer.bytes
        lines.append(0x0a)
    }
}
