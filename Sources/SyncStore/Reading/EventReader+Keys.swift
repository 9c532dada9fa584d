import Foundation
import Postgres
import SyncModel

/// The changes in a lane behind a place, in order.
///
/// Names only, read with the lane in one snapshot.
extension EventReader {
    /// A change without the subject's state.
    struct Key {
        let place: LanePlace
        /// The mutation's id, or the mapping's client id.
        let id: UUID
        let bytes: Int
    }

    struct Keys {
        let head: Int64
        let epoch: Int64
        let feed: Int64
        let list: [Key]

        /// As many as fit a page.
        var taken: [Key] {
            var bytes = 0
            let count = list.prefix { key in
                defer { bytes += key.bytes }
                return bytes <= EventReader.pageBytes
            }.count
            return Array(list.prefix(max(1, count)))
        }
    }

    func end(of lane: LaneKey) async throws(Problem) -> EventCursor {
        do {
            let rows = try await pool.run([Self.endStatement(organization: lane.organization, user: lane.user)])[0]
            guard var row = rows.first else { throw Problem(.organizationUnknown, "the organization has no feed") }
            return EventCursor(
                epoch: LaneEpoch.mixed(try row.int64("epoch"), lane.user),
                feed: try row.int64("last_position"),
                place: LanePlace(change: try row.int64("head"))
            )
        } catch {
            throw failure.problem(error, doing: "read a lane")
        }
    }

    func keys(after cursor: EventCursor, _ lane: LaneKey) async throws(Problem) -> Keys {
        var (position, client, type) = (Int64.max, UUID.greatest, "~")
        switch cursor.place.last {
        case nil: break
        case .mutation(let last): (position, client, type) = (last, UUID.least, "")
        case .mapping(let last, let lastType): (client, type) = (last, lastType)
        }
        do {
            let rows = try await pool.run([
                Self.keysStatement(
                    organization: lane.organization,
                    user: lane.user,
                    from: cursor.place.change,
                    position: position,
                    client: client,
                    entity_type: type,
                    limit: Int64(Self.pageEvents)
                )
            ])[0]
            guard rows.count > 0 else { throw Problem(.organizationUnknown, "the organization has no feed") }
            let found = try rows.read { row in
                (
                    epoch: LaneEpoch.mixed(try row.int64("epoch"), lane.user), feed: try row.int64("last_position"),
                    head: try row.int64("head"),
                    key: try Self.key(&row)
                )
            }
            return Keys(
                head: found[0].head,
                epoch: found[0].epoch,
                feed: found[0].feed,
                list: found.compactMap(\.key)
            )
        } catch {
            throw failure.problem(error, doing: "read what changed in a lane")
        }
    }

    /// Nil where the row reports no change.
    private static func key(_ row: inout RowReader) throws -> Key? {
        guard let change = try row.optionalInt64("change_position") else { return nil }
        let position = try row.optionalInt64("position")
        let id = try row.uuid("id")
        let type = try row.optionalString("entity_type")
        let last: LanePlace.Last
        switch (type, position) {
        case (let type?, _): last = .mapping(clientID: id, entityType: type)
        case (nil, let position?): last = .mutation(position: position)
        case (nil, nil): throw PostgresError(.decoding, "a change is of a mutation or of a mapping")
        }
        return Key(place: LanePlace(change: change, last: last), id: id, bytes: Int(try row.int32("bytes")))
    }

    // MARK: - Statements

    static let endStatement = Statement(
        "events_end",
        ["organization", "user"],
        """
        SELECT f.epoch, f.last_position, coalesce((
            SELECT l.change_position FROM lanes l WHERE l.organization_id = :organization AND l.user_id = :user), 0) AS head
        FROM feeds f
        WHERE f.organization_id = :organization
        """
    )

    /// Input: the place, as the last mutation and mapping at its change position.
    ///
    /// One row without a change means that nothing changed.
    static let keysStatement = Statement(
        "events_keys",
        ["organization", "user", "from", "position", "client", "entity_type", "limit"],
        """
        SELECT f.epoch, f.last_position, coalesce((
                SELECT l.change_position FROM lanes l WHERE l.organization_id = :organization AND l.user_id = :user), 0) AS head,
            k.change_position, k.position, k.id, k.entity_type, k.bytes
        FROM feeds f
        LEFT JOIN LATERAL (
            SELECT u.*
            FROM (
                SELECT m.change_position, m.position, m.id, NULL::text AS entity_type,
                    \(RecordColumns.contentBytes(of: "m")) AS bytes
                FROM (
                    SELECT x.change_position, x.position, x.id, x.response_body, x.error, x.depends_on
                    FROM mutations x
                    WHERE x.organization_id = :organization AND x.user_id = :user AND x.change_position >= :from
                        AND (x.change_position, x.position) > (:from, :position)
                    ORDER BY x.change_position, x.position
                    LIMIT :limit
                ) m
                UNION ALL
                (
                    SELECT x.change_position, NULL, x.client_id, x.entity_type, 0
                    FROM id_mappings x
                    WHERE x.organization_id = :organization AND x.user_id = :user AND x.change_position >= :from
                        AND (x.change_position, x.client_id, x.entity_type) > (:from, :client, :entity_type)
                    ORDER BY x.change_position, x.client_id, x.entity_type
                    LIMIT :limit
                )
            ) u
            ORDER BY u.change_position, u.entity_type IS NOT NULL, u.position, u.id, u.entity_type
            LIMIT :limit
        ) k ON true
        WHERE f.organization_id = :organization
        """
    )

    static let statements = [endStatement, keysStatement]
}
