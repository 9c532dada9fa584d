import Foundation
import Postgres
import SyncModel

/// Locking, reading and writing rows of `lanes`: the lock that everything which changes a lane takes first.
enum LaneRows {
    /// What a ``LaneState`` is made of, behind the lane's key; for a table that is called `x`.
    static let columns = """
        x.organization_id, x.user_id, x.next_position, x.change_position, x.queued_count, x.open_count,
                x.halted_by, x.ready_at, x.lease_owner, x.lease_token, x.in_flight_id, x.head_position, x.queued_since
        """

    /// How many columns there are.
    static let columnCount = 13

    /// Locks lanes in key order and reads them. Input: organizations, users, sorted.
    static let lock = reading("lanes_lock", fence: "FOR UPDATE")

    /// Reads lanes, whoever has locked them.
    static let look = reading("lanes_look", fence: "OFFSET 0")

    private static func reading(_ name: String, fence: String) -> Statement {
        Statement(
            name,
            """
            SELECT l.*
            FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
            CROSS JOIN LATERAL (
                SELECT \(columns)
                FROM lanes x
                WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
                \(fence)
            ) l
            """
        )
    }

    /// Writes lanes that are there and locked. An upsert all the same: it finds them by key whatever the tables' size.
    static let write = Statement(
        "lanes_write",
        """
        INSERT INTO lanes AS l (
            organization_id, user_id, next_position, change_position, queued_count, open_count, halted_by, ready_at,
            lease_owner, lease_token, in_flight_id, head_position, queued_since)
        SELECT k.*
        FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::int4[], $6::int4[], $7::uuid[],
                $8::timestamptz[], $9::uuid[], $10::int8[], $11::uuid[], $12::int8[], $13::timestamptz[])
            AS k (organization_id, user_id, next_position, change_position, queued_count, open_count, halted_by,
                ready_at, lease_owner, lease_token, in_flight_id, head_position, queued_since)
        ON CONFLICT (organization_id, user_id) DO UPDATE
        SET next_position = excluded.next_position, change_position = excluded.change_position,
            queued_count = excluded.queued_count, open_count = excluded.open_count, halted_by = excluded.halted_by,
            ready_at = excluded.ready_at, lease_owner = excluded.lease_owner, lease_token = excluded.lease_token,
            in_flight_id = excluded.in_flight_id, head_position = excluded.head_position,
            queued_since = excluded.queued_since
        """
    )

    /// The parameters that name lanes, which must be sorted.
    static func keys(_ lanes: [LaneKey]) -> Parameters {
        var keys = Parameters()
        keys.add(lanes.map(\.organization))
        keys.add(lanes.map(\.user))
        return keys
    }

    /// The query that locks lanes.
    static func lock(_ lanes: [LaneKey]) -> Query {
        Query(lock, keys(lanes.sorted()))
    }

    /// The lanes that ``lock`` or ``look`` found.
    static func lanes(_ rows: Rows) throws -> [LaneKey: LaneState] {
        var lanes = [LaneKey: LaneState](minimumCapacity: rows.count)
        for row in 0..<rows.count {
            lanes[LaneKey(organization: try rows.uuid(row, 0), user: try rows.uuid(row, 1))] = try state(rows, row)
        }
        return lanes
    }

    /// Reads a lane from ``columns``.
    static func state(_ rows: Rows, _ row: Int) throws -> LaneState {
        var lane = LaneState()
        lane.nextPosition = try rows.int64(row, 2)
        lane.changePosition = try rows.int64(row, 3)
        lane.queuedCount = try rows.int32(row, 4)
        lane.openCount = try rows.int32(row, 5)
        lane.haltedBy = try rows.optionalUUID(row, 6)
        lane.readyAt = try rows.optionalTimestamp(row, 7).map(Timestamp.init(microseconds:))
        lane.leaseOwner = try rows.optionalUUID(row, 8)
        lane.leaseToken = try rows.int64(row, 9)
        lane.inFlight = try rows.optionalUUID(row, 10)
        lane.headPosition = try rows.int64(row, 11)
        lane.queuedSince = try rows.optionalTimestamp(row, 12).map(Timestamp.init(microseconds:))
        return lane
    }

    /// The query that writes lanes, in key order.
    static func write(_ lanes: [(key: LaneKey, state: LaneState)]) -> Query {
        let sorted = lanes.sorted { $0.key < $1.key }
        var parameters = keys(sorted.map(\.key))
        parameters.add(sorted.map(\.state.nextPosition))
        parameters.add(sorted.map(\.state.changePosition))
        parameters.add(sorted.map(\.state.queuedCount))
        parameters.add(sorted.map(\.state.openCount))
        parameters.add(sorted.map(\.state.haltedBy))
        parameters.add(timestamps: sorted.map { $0.state.readyAt?.microseconds })
        parameters.add(sorted.map(\.state.leaseOwner))
        parameters.add(sorted.map(\.state.leaseToken))
        parameters.add(sorted.map(\.state.inFlight))
        parameters.add(sorted.map(\.state.headPosition))
        parameters.add(timestamps: sorted.map { $0.state.queuedSince?.microseconds })
        return Query(write, parameters)
    }
}
