package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// Lists an organization's entities as stored in the feed, without their documents. It also reads a single entity with
/// its document.
///
/// A list of all types is ordered by position in the feed, and begins with the latest change. A list of one type is
/// ordered by id, in descending order. Both orders have an index, so a page reads only its own rows.
package struct EntityListing: Sendable {
    package struct Page: Sendable {
        package let entities: [ListedEntity]
        package let next: String?
    }

    let pool: Pool
    let catalog: Catalog
    let failure: StoreFailure

    /// - Parameters:
    ///   - type: restricts the list to this type; nil lists all types.
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the previous page.
    /// - Throws: `invalid_request` for a cursor that is invalid or was made with another filter.
    package func page(
        of organization: UUID,
        type: String?,
        limit: Int,
        cursor: String?
    ) async throws(Problem) -> Page {
        let start = try EntityCursor(cursor, type, organization)
        let query =
            if let type {
                Self.ofType(organization: organization, type: type, before: start.id, limit: limit + 1)
            } else {
                Self.recent(organization: organization, before: start.position, limit: limit + 1)
            }
        do {
            let found = try await pool.readByIndex(query).read(ListedEntity.init)
            let page = Array(found.prefix(limit))
            return Page(entities: page, next: found.count > limit ? page.last.map(start.next) : nil)
        } catch {
            throw failure.problem(error, doing: "list entities")
        }
    }

    /// Returns an entity, with its document if requested; nil if no such entity is stored.
    package func entity(
        _ key: EntityKey,
        in organization: UUID,
        withDocument: Bool
    ) async throws(Problem) -> ListedEntity? {
        do {
            let query = Self.one(organization: organization, type: key.type, id: key.id)
            guard withDocument else { return try await pool.readByIndex(query).read(ListedEntity.init).first }
            return try await catalog.opening(organization) { seal in
                let find = EntityRows.find(at: [(organization: organization, key: key)])
                let results = try await pool.readByIndex([query, find])
                guard var entity = try results[0].read(ListedEntity.init).first else { return nil }
                // a document that cannot be decrypted is shown as null, without waiting for a newer key
                let seals = SealTable([organization: seal.withoutKeyRefresh])
                entity.document = try results[1].read { try EntityRows.read(&$0, seals).state.document }.first ?? nil
                return entity
            }
        } catch {
            throw failure.problem(error, doing: "read an entity")
        }
    }

    // MARK: - Statements

    static let recent = Statement(
        "entities_recent",
        ["organization", "before", "limit"],
        """
        SELECT \(ListedEntity.list)
        FROM \(latest) e
        ORDER BY e.feed_position DESC
        """
    )

    private static let latest = FeedOrder.entities(
        "e.*",
        where: "e.organization_id = :organization AND e.feed_position < :before",
        limit: ":limit",
        isDescending: true
    )

    static let ofType = Statement(
        "entities_of_type",
        ["organization", "type", "before", "limit"],
        """
        SELECT \(ListedEntity.list)
        FROM entities e
        WHERE e.organization_id = :organization AND e.entity_type = :type AND (:before::text IS NULL OR e.id < :before::text)
        ORDER BY e.id DESC
        LIMIT :limit
        """
    )

    static let one = Statement(
        "entities_one",
        ["organization", "type", "id"],
        """
        SELECT \(ListedEntity.list)
        FROM entities e
        WHERE e.organization_id = :organization AND e.entity_type = :type AND e.id = :id::text
        """
    )

    static let statements = [recent, ofType, one]
}

/// An entity or its tombstone in a list.
package struct ListedEntity: Sendable {
    @Exact package private(set) var type: String
    package let id: ServerID
    package let version: Int64
    package let isDeleted: Bool
    package let owner: UUID
    package let clientID: UUID?
    package let lastWriter: Writer
    package let feedPosition: Int64
    package let createdAt: Timestamp
    package let updatedAt: Timestamp
    /// The document; nil if it was not requested, or if the entity is deleted.
    package internal(set) var document: [UInt8]?

    static let list = """
        e.entity_type, e.id::text AS id, e.id_is_integer, e.version, e.is_deleted, e.owner_id, e.client_id, e.updated_by,
            e.updated_on, e.feed_position, e.created_at, e.updated_at
        """

    init(_ row: inout RowReader) throws {
        let key = try row.entityKey()
        let isInteger: Bool = try row.read("id_is_integer")
        let version: Int64 = try row.read("version")
        (type, id, self.version) = (key.type, ServerID(text: key.id, isInteger: isInteger), version)
        isDeleted = try row.read("is_deleted")
        owner = try row.read("owner_id")
        clientID = try row.read("client_id")
        let user: UUID = try row.read("updated_by")
        lastWriter = Writer(user: user, device: try row.read("updated_on"))
        feedPosition = try row.read("feed_position")
        createdAt = try row.read("created_at")
        updatedAt = try row.read("updated_at")
    }
}

/// A position in a list of entities. It is valid only for the filter and the organization with which it was made.
private struct EntityCursor {
    /// The position in the feed, in a list of all types.
    let position: Int64
    /// The last id of the previous page, in a list of one type.
    let id: String?
    private let isOfType: Bool
    private let filter: UInt64

    init(_ text: String?, _ type: String?, _ organization: UUID) throws(Problem) {
        filter = FeedCursor.filter(["o" + organization.lowercased, "t" + (type ?? "")])
        isOfType = type != nil
        guard let text else {
            (position, id) = (.max, nil)
            return
        }
        // an id can contain dots
        let parts = text.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, parts[0] == "e1", let made = UInt64(parts[1], radix: 36) else { throw .foreignCursor }
        guard made == filter else { throw .cursorOfAnotherFilter }
        if isOfType {
            guard (1...ServerID.maximumBytes).contains(parts[2].utf8.count), !ExternalName.hasControls(parts[2]) else {
                throw .foreignCursor
            }
            (position, id) = (.max, parts[2])
        } else {
            guard let position = Int64(parts[2], radix: 36) else { throw .foreignCursor }
            (self.position, id) = (position, nil)
        }
    }

    func next(_ entity: ListedEntity) -> String {
        let place = isOfType ? entity.id.text : String(entity.feedPosition, radix: 36)
        return ["e1", String(filter, radix: 36), place].joined(separator: ".")
    }
}
