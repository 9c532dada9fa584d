package import Foundation
import Postgres
package import SyncModel

/// Lists a user's id mappings in the order in which they last changed.
///
/// Every change of a mapping raises the lane's change position under the lane's lock and stamps the mapping with it.
/// One statement reads that position and the mappings in one snapshot. So every change at or below the position that a
/// reader sees is committed, and a page never skips a writer that is still under way. A mapping that changes again is
/// listed again.
extension MappingReader {
    /// Mappings that one page reads for each that it may hold.
    ///
    /// Bounds the work when a filter admits little.
    static let scanFactor = 10

    /// A page of mappings. With a filter a page may hold fewer than the limit, or none, and not be the last.
    ///
    /// - Parameters:
    ///   - since: `next` of the page before; nil starts at the beginning.
    ///   - statuses: empty for all.
    ///   - limit: 1 to 1,000.
    /// - Throws: `invalid_request` for an invalid cursor or one made with another filter; `cursor_expired`.
    package func list(
        since: String?,
        statuses: [IDMapping.Status],
        limit: Int,
        organization: UUID,
        user: UUID
    ) async throws(Problem) -> MappingPage {
        let filter = FeedCursor.filter(statuses.map(\.rawValue))
        let cursor = try Self.cursor(since, filter)
        // one more than a page holds shows whether there are more
        let scan = statuses.isEmpty ? limit + 1 : limit * Self.scanFactor
        let start = Start(cursor?.place)
        do {
            let rows = try await pool.run([
                Self.listStatement(
                    organization: LaneKey(organization: organization, user: user).organization,
                    user: LaneKey(organization: organization, user: user).user,
                    position: start.change,
                    client: start.clientID,
                    entity_type: start.entityType,
                    statuses: statuses.map(\.rawValue),
                    scan: Int64(scan),
                    limit: Int64(limit + 1)
                )
            ])[0]
            return try MappingPage(rows, of: user, limit: limit, cursor: cursor, filter: filter, statuses: statuses)
        } catch {
            throw failure.problem(error, doing: "list id mappings")
        }
    }

    private static func cursor(_ text: String?, _ filter: UInt64) throws(Problem) -> MappingCursor? {
        guard let text else { return nil }
        guard let cursor = MappingCursor(text), !cursor.place.isAtMutation else {
            throw .invalidParameter("since is not a cursor of this list")
        }
        guard cursor.filter == filter else {
            throw .invalidParameter("since was issued for another status filter; start over without since")
        }
        return cursor
    }

    /// The first columns describe the lane and how far a cut-off scan went.
    ///
    /// A row without a mapping means that no mapping passed the filter.
    static let listStatement = Statement(
        "mappings_list",
        ["organization", "user", "position", "client", "entity_type", "statuses", "scan", "limit"],
        """
        WITH s AS MATERIALIZED (
            SELECT x.client_id, x.entity_type, x.server_id, x.server_id_is_integer, x.status, x.mutation_id,
                x.change_position
            FROM id_mappings x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.change_position >= :position
                AND (x.change_position, x.client_id, x.entity_type) > (:position, :client, :entity_type)
            ORDER BY x.change_position, x.client_id, x.entity_type
            LIMIT :scan
        )
        SELECT f.epoch, coalesce(l.change_position, 0) AS head, e.change_position AS seen_to,
            e.client_id AS seen_client_id, e.entity_type AS seen_type, i.change_position, \(list)
        FROM feeds f
        LEFT JOIN lanes l ON l.organization_id = :organization AND l.user_id = :user
        LEFT JOIN LATERAL (
            SELECT y.change_position, y.client_id, y.entity_type
            FROM s y
            ORDER BY y.change_position, y.client_id, y.entity_type
            OFFSET :scan - 1
        ) e ON true
        LEFT JOIN LATERAL (
            SELECT z.*
            FROM s z
            WHERE cardinality(:statuses::text[]) = 0 OR z.status = ANY (:statuses)
            ORDER BY z.change_position, z.client_id, z.entity_type
            LIMIT :limit
        ) i ON true
        WHERE f.organization_id = :organization
        ORDER BY i.change_position, i.client_id, i.entity_type
        """
    )
}

/// The mapping behind which a page begins.
private struct Start {
    var change: Int64 = 0
    var clientID = UUID.least
    /// No type has this name: it sorts before all of them.
    var entityType = ""

    init(_ place: LanePlace?) {
        guard let place else { return }
        if case .mapping(let clientID, let entityType) = place.last {
            (change, self.clientID, self.entityType) = (place.change, clientID, entityType)
        } else {
            // all mappings of that change were seen
            change = min(place.change, .max - 1) + 1
        }
    }
}

extension LanePlace {
    /// Whether it is a place in another list.
    fileprivate var isAtMutation: Bool {
        if case .mutation = last { true } else { false }
    }
}
