package import Foundation
import JSONText
import Postgres
package import SyncModel

/// Lists a user's id mappings in the order in which they last changed.
///
/// Whatever changes a mapping raises the lane's change position under the lane's lock and stamps it, and one statement
/// reads that position and the mappings in one snapshot: whatever is at or below the position that a reader sees is
/// committed, so a page never passes over a writer that is still under way. A mapping that changes again comes again.
extension MappingReader {
    /// Mappings that one page looks at for each that it may hold: bounds the work when a filter lets little through.
    static let scanFactor = 10

    /// A page of mappings: `{"id_mappings":[…],"next","up_to_date"}`. With a filter a page may hold fewer than the limit,
    /// or none, and not be the last.
    ///
    /// - Parameters:
    ///   - since: `next` of the page before; nil starts at the beginning.
    ///   - statuses: empty for all.
    ///   - limit: 1 to 1,000.
    /// - Throws: `invalid_request` for a cursor that is not ours or was made with another filter; `cursor_expired`.
    package func list(
        since: String?,
        statuses: [IDMapping.Status],
        limit: Int,
        organization: UUID,
        user: UUID
    ) async throws(Problem) -> [UInt8] {
        let filter = FeedCursor.filter(statuses.map(\.rawValue))
        let cursor = try Self.cursor(since, filter)
        // one more than a page holds tells whether there are more
        let scan = statuses.isEmpty ? limit + 1 : limit * Self.scanFactor
        let start = Start(cursor?.place)
        var parameters = Parameters(of: LaneKey(organization: organization, user: user))
        parameters.add(start.change)
        parameters.add(start.clientID)
        parameters.add(start.entityType)
        parameters.add(statuses.map(\.rawValue))
        parameters.add(Int64(scan))
        parameters.add(Int64(limit + 1))
        do {
            let rows = try await pool.run([Query(Self.listStatement, parameters)])[0]
            return try MappingPage(rows, limit: limit, cursor: cursor, filter: filter, statuses: statuses).json()
        } catch {
            throw failure.problem(error, doing: "list id mappings")
        }
    }

    private static func cursor(_ text: String?, _ filter: UInt64) throws(Problem) -> MappingCursor? {
        guard let text else { return nil }
        guard let cursor = MappingCursor(text), !cursor.place.isAtMutation else {
            let detail = "since is not a cursor of this list"
            throw Problem(.invalidRequest, pointer: "", rule: "parameter_invalid", detail)
        }
        guard cursor.filter == filter else {
            let detail = "since was made with another status filter; start over without since"
            throw Problem(.invalidRequest, pointer: "", rule: "parameter_invalid", detail)
        }
        return cursor
    }

    /// The first columns describe the lane and, where the scan was cut off, how far it went; a row without a mapping says
    /// that nothing passed.
    static let listStatement = Statement(
        "mappings_list",
        """
        WITH s AS MATERIALIZED (
            SELECT x.client_id, x.entity_type, x.server_id, x.server_id_is_integer, x.status, x.mutation_id,
                x.change_position
            FROM id_mappings x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.change_position >= $3
                AND (x.change_position, x.client_id, x.entity_type) > ($3, $4, $5)
            ORDER BY x.change_position, x.client_id, x.entity_type
            LIMIT $7
        )
        SELECT f.epoch, coalesce(l.change_position, 0) AS head, e.change_position AS seen_to,
            e.client_id AS seen_client_id, e.entity_type AS seen_type, i.change_position, \(list)
        FROM feeds f
        LEFT JOIN lanes l ON l.organization_id = $1 AND l.user_id = $2
        LEFT JOIN LATERAL (
            SELECT y.change_position, y.client_id, y.entity_type
            FROM s y
            ORDER BY y.change_position, y.client_id, y.entity_type
            OFFSET $7 - 1
        ) e ON true
        LEFT JOIN LATERAL (
            SELECT z.*
            FROM s z
            WHERE cardinality($6::text[]) = 0 OR z.status = ANY ($6)
            ORDER BY z.change_position, z.client_id, z.entity_type
            LIMIT $8
        ) i ON true
        WHERE f.organization_id = $1
        ORDER BY i.change_position, i.client_id, i.entity_type
        """
    )
}

/// The mapping that a page begins behind.
private struct Start {
    var change: Int64 = 0
    var clientID = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// No type is called so: it comes before all of them.
    var entityType = ""

    init(_ place: LanePlace?) {
        guard let place else { return }
        if case .mapping(let clientID, let entityType) = place.last {
            (change, self.clientID, self.entityType) = (place.change, clientID, entityType)
        } else {
            // all of that change was seen
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

/// What one page says.
private struct MappingPage {
    /// What ``MappingReader/listStatement`` answers.
    private struct Row {
        let epoch: Int64
        let head: Int64
        /// Where the scan was cut off, if it was.
        let seen: LanePlace?
        let mapping: (change: Int64, mapping: IDMapping)?

        init(_ row: inout RowReader) throws {
            epoch = try row.int64("epoch")
            head = try row.int64("head")
            let seen = try row.optionalInt64("seen_to")
            let (clientID, type) = (try row.optionalUUID("seen_client_id"), try row.optionalString("seen_type"))
            if let seen, let clientID, let type {
                self.seen = LanePlace(change: seen, last: .mapping(clientID: clientID, entityType: type))
            } else {
                self.seen = nil
            }
            mapping = try row.optionalInt64("change_position").map { ($0, try MappingReader.mapping(&row)) }
        }
    }

    private let mappings: [IDMapping]
    private let next: MappingCursor
    private let isUpToDate: Bool

    init(_ rows: Rows, limit: Int, cursor: MappingCursor?, filter: UInt64, statuses: [IDMapping.Status]) throws {
        guard rows.count > 0 else { throw Problem(.organizationUnknown, "the organization has no feed") }
        let found = try rows.read(Row.init)
        let (epoch, head) = (found[0].epoch, found[0].head)
        if let cursor, cursor.epoch != epoch || cursor.place.change > head { throw Self.expired(statuses) }
        let changed = found.compactMap(\.mapping)
        mappings = changed.prefix(limit).map(\.mapping)
        // where the scan ended: at the last mapping shown if the page is full, else where it stopped looking, else at all
        // that there is
        let place: LanePlace
        if changed.count > limit {
            let (change, last) = changed[limit - 1]
            place = LanePlace(change: change, last: .mapping(clientID: last.clientID, entityType: last.entityType))
        } else {
            place = found[0].seen ?? LanePlace(change: head)
        }
        next = MappingCursor(epoch: epoch, filter: filter, place: place)
        isUpToDate = place.last == nil
    }

    private static func expired(_ statuses: [IDMapping.Status]) -> Problem {
        var problem = Problem(.cursorExpired, "this cursor is from another time; start over from snapshot")
        let query = statuses.isEmpty ? "" : "?status=" + statuses.map(\.rawValue).joined(separator: ",")
        problem.snapshot = "/v1/id-mappings" + query
        return problem
    }

    func json() -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + mappings.count * 192)
        writer.beginObject()
        writer.idMappings(mappings)
        writer.member("next", next.text)
        writer.member("up_to_date", isUpToDate)
        writer.endObject()
        return writer.bytes
    }
}
