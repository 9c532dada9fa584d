import FoundationEssentials
package import Postgres
package import SyncModel

/// Locks, reads and writes rows of `lanes`. Every change of a lane locks its row first.
package enum LaneRows {
    private static let columns = Columns<LaneRow>(
        .lane(\.key),
        .value("next_position", \.state.nextPosition),
        .value("change_position", \.state.changePosition),
        .value("queued_count", \.state.queue.count),
        .value("open_count", \.state.openCount),
        .value("halted_by", \.state.haltedBy),
        .value("ready_at", \.state.readyAt),
        .value("lease_owner", \.state.lease.owner),
        .value("lease_token", \.state.lease.token),
        .value("lease_step", \.state.lease.step),
        .value("in_flight_id", \.state.inFlight),
        .value("head_position", \.state.queue.head),
        .value("queued_since", \.state.queue.since)
    )

    /// The lane's key and the columns of a ``LaneState``, for a table `x`.
    package static let list = columns.names(of: "x")

    /// Reads the columns of ``list``.
    package static func read(_ row: inout RowReader) throws -> LaneRow {
        let key = try row.lane()
        let (next, change): (Int64, Int64) = (try row.read("next_position"), try row.read("change_position"))
        var queue = LaneState.Queue(count: try row.read("queued_count"))
        let (open, haltedBy): (Int32, UUID?) = (try row.read("open_count"), try row.read("halted_by"))
        let readyAt: Timestamp? = try row.read("ready_at")
        var lease = LaneState.Lease(owner: try row.read("lease_owner"), token: try row.read("lease_token"))
        lease.step = try row.read("lease_step")
        let inFlight: UUID? = try row.read("in_flight_id")
        queue.head = try row.read("head_position")
        queue.since = try row.read("queued_since")
        return LaneRow(
            key: key,
            state: LaneState(
                nextPosition: next,
                changePosition: change,
                queue: queue,
                openCount: open,
                haltedBy: haltedBy,
                readyAt: readyAt,
                lease: lease,
                inFlight: inFlight
            )
        )
    }

    /// SQL for whether a mutation is pending or in flight.
    ///
    /// With this condition, PostgreSQL can use the index `runnable_mutations`, which does not contain the mutations
    /// that wait for other mutations or for a person.
    package static func isRunnable(_ table: String) -> String {
        "\(table).blocked_on IS NULL AND \(table).stuck_at IS NULL AND \(table).synced_at IS NULL"
    }

    static let lock = reading("lanes_lock", fence: "FOR UPDATE")

    static let find = reading("lanes_look", fence: "OFFSET 0")

    /// Locks lanes of one organization in a Citus cluster.
    private static let lockOfOne = readingOfOne("lanes_lock_of_one", fence: "FOR UPDATE")
    private static let findOfOne = readingOfOne("lanes_look_of_one", fence: "")

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
    /// The statement is an upsert, because an upsert finds rows by key, independent of the tables' size.
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
    package static func find(_ lanes: [LaneKey]) -> Query { query(find, findOfOne, lanes) }

    private static func query(_ statement: Statement, _ ofOne: Statement, _ lanes: [LaneKey]) -> Query {
        let lanes = lanes.sorted()
        return Query(statement, keys(lanes)).orOfOne(lanes, \.organization) {
            ofOne(organization: $0, users: lanes.map(\.user))
        }
    }

    /// Reads the result of ``lock`` or ``find``.
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

    /// Creates a lane if it is missing and the organization accepts new lanes.
    package static func make(_ lane: LaneKey) -> Query { Query(GroupStatements.makeLanes, keys([lane])) }

    static let statements = [lock, lockOfOne, find, findOfOne, write]
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

    static let columns = Columns<JobRow>(.value("job", \.job), .lane(\.lane))
}

/// The input for the search of a lane's next head.
struct HeadRow {
    let job: Int32
    let lane: LaneKey
    let headPosition: Int64

    static let columns = Columns<HeadRow>(
        .value("job", \.job),
        .lane(\.lane),
        .value("head_position", \.headPosition)
    )
}

/// The input for the search of the next mutations, for a lane that may have several mutations in flight.
struct WindowRow {
    let job: Int32
    let lane: LaneKey
    let headPosition: Int64
    /// The maximum number of due mutations to find.
    let room: Int32

    static let columns = Columns<WindowRow>(
        .value("job", \.job),
        .lane(\.lane),
        .value("head_position", \.headPosition),
        .value("room", \.room)
    )
}

/// A mutation that is marked as in flight.
struct FlightRow {
    let dispatch: Dispatch

    static let columns = Columns<FlightRow>(
        .lane(\.dispatch.lane),
        .value("id", \.dispatch.mutation.id),
        .value("attempt_count", \.attempts)
    )

    /// A write to the built-in store does not count as an attempt.
    private var attempts: Int16 {
        guard case .upstream = dispatch.destination else { return dispatch.mutation.attemptCount }
        return dispatch.attempts
    }
}

/// A done mutation for which other mutations wait. ``LaneStatements/unblock`` releases these waiters.
struct BlockerRow {
    let job: Int32
    let lane: LaneKey
    let blocker: UUID
    let changePosition: Int64
    /// The maximum cost of releasing the waiters, in look-ups.
    var budget: Int64 = 0

    static let columns = Columns<BlockerRow>(
        .value("job", \.job),
        .lane(\.lane),
        .value("blocker", \.blocker),
        .value("change_position", \.changePosition),
        .value("budget", \.budget)
    )

    /// The maximum number of look-ups of one statement over all lanes. This number of look-ups takes about a tenth of a
    /// second.
    ///
    /// Without this limit, a lane with many blocked mutations would delay the other jobs of the same commit.
    static let wholeBudget = 16_384

    static func query(_ rows: [BlockerRow], _ now: Timestamp) -> Query {
        var rows = rows
        for index in rows.indices { rows[index].budget = Int64(wholeBudget / rows.count) }
        return columns.query(LaneStatements.unblock, rows, at: now)
    }
}

/// The dependencies of a mutation, as responses show them.
package enum Dependencies {
    /// SQL for the dependencies of a mutation `m` that are not known to be done.
    ///
    /// In a long list, the entries before `blocked_on` are done, but still stored. The result omits these entries.
    package static let open = """
        CASE WHEN cardinality(m.depends_on) > \(LaneStatements.shortList)
                THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
                ELSE m.depends_on END
        """

    /// SQL for the first `count` entries of ``open``.
    package static func first(_ count: Int) -> String { "(\(open))[1:\(count)]" }
}
