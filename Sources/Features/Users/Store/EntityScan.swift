import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Searches an organization's entities for the entities of a user.
///
/// The scan reads all entities in the order of the feed, a page at a time and without locks. There is no index by
/// owner, because such an index would make each write slower.
///
/// If the user's lane is idle, the scan misses no entity of the user. Such a user writes nothing, and the owner of an
/// entity does not change. An entity that is written during the scan gets a later position, and the scan finds it
/// again.
struct EntityScan {
    /// The number of entities that one statement reads.
    static let page: Int64 = 5_000

    let pool: Pool
    let organization: UUID
    let user: UUID

    /// Calls `found` with the sorted keys of each page, up to a position in the feed.
    ///
    /// - Parameters:
    ///   - statement: ``named`` or ``unseen``.
    ///   - start: the position after which the scan begins.
    ///   - passed: called with the last position of each page, after `found`.
    func run(
        _ statement: Statement,
        after start: Int64 = 0,
        upTo end: Int64 = .max,
        passed: (Int64) async throws -> Void = { _ in },
        _ found: ([EntityKey]) async throws -> Void
    ) async throws {
        var position = start
        while position < end, let page = try await page(statement, after: position, upTo: end) {
            if !page.found.isEmpty { try await found(page.found.inLockingOrder) }
            position = page.last
            try await passed(position)
        }
    }

    /// Whether the statement finds any entity.
    func findsAny(_ statement: Statement) async throws -> Bool {
        var position: Int64 = 0
        while let page = try await page(statement, after: position, upTo: .max) {
            if !page.found.isEmpty { return true }
            position = page.last
        }
        return false
    }

    private func page(
        _ statement: Statement,
        after start: Int64,
        upTo end: Int64
    ) async throws -> (found: [EntityKey], last: Int64)? {
        let query = statement(organization: organization, user: user, after: start, end: end, limit: Self.page)
        let rows = try await pool.runByIndex(query)
        guard var row = rows.first, let last = try row.read("last", as: Int64?.self) else { return nil }
        let types: [String] = try row.read("entity_types") ?? []
        let ids: [String] = try row.read("ids") ?? []
        return (zip(types, ids).map { EntityKey(type: $0, id: $1) }, last)
    }

    /// Entities that the user owns, or wrote last.
    static let named = walking("entity_walk_named", "x.owner_id = :user OR x.updated_by = :user")

    /// Existing entities that the user owns, if only owners see entities of the type, or if the owner determines the
    /// channels of the entity.
    static let unseen = walking(
        "entity_walk_unseen",
        """
        x.owner_id = :user AND NOT x.is_deleted AND x.entity_type = ANY (ARRAY(
                    SELECT t.name FROM entity_types t
                    WHERE t.organization_id = :organization AND (t.visibility = 'user' OR t.visibility = 'channels'
                        AND (t.channels::text LIKE '%{owner}%' OR t.grants::text LIKE '%{owner}%'))))
        """
    )

    private static let entities = FeedOrder.entities(
        "e.*",
        where: "e.organization_id = :organization AND e.feed_position > :after AND e.feed_position <= :end",
        limit: ":limit"
    )

    private static func walking(_ name: String, _ isWanted: String) -> Statement {
        Statement(
            name,
            ["organization", "user", "after", "end", "limit"],
            """
            SELECT max(x.feed_position) AS last,
                array_agg(x.entity_type) FILTER (WHERE \(isWanted)) AS entity_types,
                array_agg(x.id::text) FILTER (WHERE \(isWanted)) AS ids
            FROM \(entities) x
            """
        )
    }

    static let statements = [named, unseen]
}

extension [EntityKey] {
    /// The keys in the order in which entities are locked.
    var inLockingOrder: [EntityKey] {
        sorted { left, right in
            left.type != right.type
                ? left.type.utf8.lexicographicallyPrecedes(right.type.utf8)
                : left.id.utf8.lexicographicallyPrecedes(right.id.utf8)
        }
    }
}
