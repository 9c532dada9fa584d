import Foundation
import Postgres
import SyncModel

/// The changes in a feed behind a position, and the users that may see them.
struct PendingFeedChanges: Sendable {
    /// Entities that are read; the owners of further ones stay unknown.
    static let limit: Int64 = 1_000

    let epoch: Int64
    let end: Int64
    /// Whether all changes were read.
    private let isComplete: Bool
    private var visibleToAll = Newest()
    private var visibleToOwner: [UUID: Newest] = [:]

    /// The newest change, in all and by type.
    private struct Newest {
        var position: Int64 = 0
        var byType: [ByteExactString: Int64] = [:]

        mutating func record(_ newer: Int64, _ type: String) {
            position = max(position, newer)
            byType[type] = max(byType[type] ?? 0, newer)
        }

        func of(_ types: Set<ByteExactString>) -> Int64 {
            types.isEmpty ? position : types.reduce(0) { max($0, byType[$1] ?? 0) }
        }
    }

    init?(_ rows: Rows) throws {
        guard var first = rows.first else { return nil }
        epoch = try first.int64("epoch")
        end = try first.int64("last_position")
        isComplete = rows.count < Self.limit
        for var row in rows {
            row.skip("epoch")
            row.skip("last_position")
            guard let position = try row.optionalInt64("feed_position") else { continue }
            let type = try row.string("entity_type")
            if let owner = try row.optionalUUID("only_for") {
                visibleToOwner[owner, default: Newest()].record(position, type)
            } else {
                visibleToAll.record(position, type)
            }
        }
    }

    /// The position of the newest change that the listener may see and has asked for.
    ///
    /// Nil if there is no such change.
    func newest(for interest: FeedInterest) -> Int64? {
        guard isComplete else { return end }
        let own = visibleToOwner[interest.user]?.of(interest.entityTypes) ?? 0
        let newest = max(own, visibleToAll.of(interest.entityTypes))
        return newest > 0 ? newest : nil
    }

    static func query(_ organization: UUID, after position: Int64) -> Query {
        return statement(organization: organization, after: position, limit: limit)
    }

    /// One row without an entity means that the feed has no such entity.
    static let statement = Statement(
        "feed_news",
        ["organization", "after", "limit"],
        """
        SELECT f.epoch, f.last_position, e.feed_position, e.entity_type, CASE WHEN e.is_private THEN e.owner_id END
                AS only_for
        FROM feeds f
        LEFT JOIN LATERAL (
            SELECT x.feed_position, x.entity_type, x.owner_id,
                x.entity_type = ANY (ARRAY(
                    SELECT t.name FROM entity_types t
                    WHERE t.organization_id = :organization AND t.visibility = 'user')) AS is_private
            FROM entities x
            WHERE x.organization_id = :organization AND x.feed_position > :after
            ORDER BY x.feed_position
            LIMIT :limit
        ) e ON true
        WHERE f.organization_id = :organization
        """
    )
}
