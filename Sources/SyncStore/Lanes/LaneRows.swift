import Foundation
package import Postgres
package import SyncModel

/// Locks, reads and writes rows of `lanes`. Every change of a lane takes this lock first.
package enum LaneRows {
    private static let columns = Columns<LaneRow>(
        .lane(\.key),
        .int8("next_position", \.state.nextPosition),
        .int8("change_position", \.state.changePosition),
        .int4("queued_count", \.state.queuedCount),
        .int4("open_count", \.state.openCount),
        .uuid("halted_by", \.state.haltedBy),
        .moment("ready_at", \.state.readyAt),
        .uuid("lease_owner", \.state.leaseOwner),
        .int8("lease_token", \.state.leaseToken),
        .int8("lease_step", \.state.leaseStep),
        .uuid("in_flight_id", \.state.inFlight),
        .int8("head_position", \.state.headPosition),
        .moment("queued_since", \.state.queuedSince)
    )

    /// The columns of a ``LaneState``, behind the lane's key; for a table `x`.
    package static let list = columns.names(of: "x")

    /// Reads the columns of ``list``.
    package static func read(_ row: inout RowReader) throws -> LaneRow {
        LaneRow(
            key: try row.lane(),
            state: LaneState(
                nextPosition: try row.int64("next_position"),
                changePosition: try row.int64("change_position"),
                queuedCount: try row.int32("queued_count"),
                openCount: try row.int32("open_count"),
                haltedBy: try row.optionalUUID("halted_by"),
                readyAt: try row.optionalMoment("ready_at"),
                leaseOwner: try row.optionalUUID("lease_owner"),
                leaseToken: try row.int64("lease_token"),
                leaseStep: try row.int64("lease_step"),
                inFlight: try row.optionalUUID("in_flight_id"),
                headPosition: try row.int64("head_position"),
                queuedSince: try row.optionalMoment("queued_since")
            )
        )
    }

    static let lock = reading("lanes_lock", fence: "FOR UPDATE")

    static let find = reading("lanes_look", fence: "OFFSET 0")

    /// The same of lanes of one organization, on a cluster.
    private static let lockOfOne = readingOfOne("lanes_lock_of_one", fence: "FOR UPDATE")
    private static let lookOfOne = readingOfOne("lanes_look_of_one", fence: "")

    private static func readingOfOne(_ name: String, fence: String) -> Statement {
        Statement(
            name,
            ["organization", "users"],
            """
            SELECT \(list)
            FROM lanes x
            WHERE x.organization_id = :organization AND x.user_id = ANY (:users)
            ORDER BY x.user_id
            \(fence)
            """
        )
    }

    private static func reading(_ name: String, fence: String) -> Statement {
        Statement(
            name,
            Columns.lanes.inputs,
            """
            SELECT l.*
            FROM \(Columns.lanes.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT \(list)
                FROM lanes x
                WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
                \(fence)
            ) l
            """
        )
    }

    /// Writes existing, locked lanes.
    ///
    /// An upsert finds them by key, independent of the tables' size.
    static let write = Statement(
        "lanes_write",
        columns.inputs,
        """
        INSERT INTO lanes AS l (\(columns.names))
        SELECT k.*
        FROM \(columns.unnested(as: "k"))
        ON CONFLICT (organization_id, user_id) DO UPDATE
        SET \(columns.overwritten(except: ["organization_id", "user_id"]))
        """
    )

    /// The parameters that name lanes, which must be sorted.
    package static func keys(_ lanes: [LaneKey]) -> Parameters { Columns.lanes.parameters(lanes) }

    /// Locks lanes in key order and reads them.
    package static func lock(_ lanes: [LaneKey]) -> Query { query(lock, lockOfOne, lanes) }

    /// Reads lanes without waiting for row locks.
    package static func find(_ lanes: [LaneKey]) -> Query { query(find, lookOfOne, lanes) }

    private static func query(_ statement: Statement, _ ofOne: Statement, _ lanes: [LaneKey]) -> Query {
        let lanes = lanes.sorted()
        return Query(statement, keys(lanes)).orOfOne(lanes, \.organization) {
            ofOne(organization: $0, users: lanes.map(\.user))
        }
    }

    /// The lanes that ``lock`` or ``find`` found.
    package static func lanes(_ rows: Rows) throws -> [LaneKey: LaneState] {
        var lanes = [LaneKey: LaneState](minimumCapacity: rows.count)
        for var row in rows {
            let lane = try read(&row)
            lanes[lane.key] = lane.state
        }
        return lanes
    }

    /// The query that writes lanes, in key order.
    static func write(_ lanes: [LaneRow]) -> Query {
        columns.query(write, lanes.sorted { $0.key < $1.key })
    }

    /// Writes one existing, locked lane.
    package static func write(_ key: LaneKey, _ state: LaneState) -> Query { write([LaneRow(key: key, state: state)]) }

    /// Creates a lane where it is missing and the organization takes one.
    package static func make(_ lane: LaneKey) -> Query { Query(GroupStatements.makeLanes, keys([lane])) }

    static let statements = [lock, lockOfOne, find, lookOfOne, write]
}

extension Columns where Row == LaneKey {
    package static let lanes = Columns(.lane { $0 })
}

package struct LaneRow {
    let key: LaneKey
    package let state: LaneState
}

struct JobRow {
    let job: Int32
    let lane: LaneKey

    static let columns = Columns<JobRow>(.int4("job", \.job), .lane(\.lane))
}

/// A lane whose next head is searched for.
struct HeadRow {
    let job: Int32
    let lane: LaneKey
    let headPosition: Int64

    static let columns = Columns<HeadRow>(
        .int4("job", \.job),
        .lane(\.lane),
        .int8("head_position", \.headPosition)
    )
}

/// A lane that may have several mutations in flight, whose next ones are searched for.
struct WindowRow {
    let job: Int32
    let lane: LaneKey
    let headPosition: Int64
    /// Mutations that are due to find at most.
    let room: Int32

    static let columns = Columns<WindowRow>(
        .int4("job", \.job),
        .lane(\.lane),
        .int8("head_position", \.headPosition),
        .int4("room", \.room)
    )
}

/// A mutation that is marked as in flight.
struct FlightRow {
    let dispatch: Dispatch

    static let columns = Columns<FlightRow>(
        .lane(\.dispatch.lane),
        .uuid("id", \.dispatch.mutation.id),
        .int2("attempt_count", \.attempts)
    )

    /// Writes to the built-in store count as no attempt.
    private var attempts: Int16 {
        guard case .upstream = dispatch.destination else { return dispatch.mutation.attemptCount }
        return dispatch.attempts
    }
}

/// A mutation whose waiters are released.
struct BlockerRow {
    let job: Int32
    let lane: LaneKey
    let blocker: UUID
    let changePosition: Int64
    /// The cost of releasing them, in look-ups.
    var budget: Int64 = 0

    static let columns = Columns<BlockerRow>(
        .int4("job", \.job),
        .lane(\.lane),
        .uuid("blocker", \.blocker),
        .int8("change_position", \.changePosition),
        .int8("budget", \.budget)
    )

    /// Look-ups that one statement may cost, over all lanes: a tenth of a second.
    ///
    /// So jobs in the same commit hardly wait for a lane with much to release.
    static let wholeBudget = 16_384

    static func query(_ rows: [BlockerRow], _ now: Timestamp) -> Query {
        var rows = rows
        for index in rows.indices { rows[index].budget = Int64(wholeBudget / rows.count) }
        return columns.query(LaneStatements.unblock, rows, at: now)
    }
}

/// The dependencies of a mutation, as they are shown.
package enum Dependencies {
    /// Of a mutation `m`: its `depends_on` without those known to be done.
    ///
    /// In a long list, entries before `blocked_on` are done and still there.
    package static let open = """
        CASE WHEN cardinality(m.depends_on) > \(LaneStatements.shortList)
                THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
                ELSE m.depends_on END
        """

    /// The first of them.
    package static func first(_ count: Int) -> String { "(\(open))[1:\(count)]" }
}
