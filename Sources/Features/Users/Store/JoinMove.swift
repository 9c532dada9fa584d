package import FoundationEssentials
import Postgres
package import SyncModel
import SyncStore

/// The transaction that moves all rows of a user to another user.
struct JoinMove {
    /// The maximum number of entities that one statement writes.
    private static let entities = 5_000
    /// The number of rows that are sealed again in one round trip.
    private static let sealed = 100

    let connection: Connection
    let rows: MergedRows
    let user: LaneKey
    let target: LaneKey
    let seal: Seal
    let now: Timestamp
    let timeout: Duration

    /// - Parameters:
    ///   - entities: the entities that the user owns or wrote last, sorted.
    ///   - expected: the state of the user's lane before the search for these entities.
    /// - Returns: nil if a worker has claimed a lane, or if the user's lane has changed.
    /// - Throws: `validation_failed` if the two users cannot be joined.
    func run(_ entities: [EntityKey], expecting expected: LaneState?) async throws -> UserJoinRow? {
        let parties = Parameters(of: user, target.user)
        let results = try await connection.runByIndex(
            [
                LaneRows.make(target), LaneRows.lock([user, target]),
                Query(JoinStatements.lock, parties),
            ],
            timeout: timeout
        )
        let lanes = try LaneRows.lanes(results[1])
        let join = try results[2].read(UserJoinRow.init).first
        guard let join, join.state == .closing, now < join.closedUntil ?? now, var lane = lanes[target] else {
            return nil
        }
        guard lanes.values.allSatisfy(\.isAtRest), lanes[user]?.changePosition == expected?.changePosition,
            lanes[user]?.nextPosition == expected?.nextPosition
        else { return nil }
        try await check(lanes, entities.count, parties)
        try await own(entities)
        if !seal.isPlain { try await reseal() }
        // documents sealed with the user's key are not sealed again, because the key moves with them
        _ = try await connection.run(Query(UserKeyRows.moveStatement, parties))
        let shift = lane.absorb(lanes[user] ?? LaneState(), now: now)
        let moved = try await connection.run(
            rows.queries(from: user, to: target.user, shift, at: now) + [
                LaneRows.write(target, lane),
                JoinStatements.leaveLanes(organization: user.organization, user: user.user),
                Query(JoinStatements.followers, parties), Query(JoinStatements.markMoved, parties),
            ],
            timeout: timeout
        )
        return try moved[moved.count - 1].read(UserJoinRow.init).first
    }

    /// - Throws: `validation_failed` if rows of the two users have the same key, or there are too many rows.
    private func check(_ lanes: [LaneKey: LaneState], _ entities: Int, _ parties: Parameters) async throws {
        if lanes.values.count(where: { $0.haltedBy != nil }) > 1 {
            throw MergePreconditions.refusal(
                "join_both_halted",
                "the lanes of both users are halted: settle one of the two mutations first"
            )
        }
        let results = try await connection.run(
            [rows.count(organization: user.organization, user: user.user), Query(rows.collisions, parties)],
            timeout: timeout
        )
        guard try results[0].read(0, 0, as: Int64.self) + Int64(entities) <= MergePreconditions.rowLimit else {
            throw UserJoining.tooLarge
        }
        if try results[1].read(0, 0) { throw MergePreconditions.oneIsShutOut }
        for (place, collision) in rows.collided.enumerated() where try results[1].read(0, place + 1) {
            throw MergePreconditions.refusal(collision.rule, "both users have \(collision.what) with the same id")
        }
    }

    private func own(_ entities: [EntityKey]) async throws {
        for start in stride(from: 0, to: entities.count, by: Self.entities) {
            let part = entities[start..<min(start + Self.entities, entities.count)]
            let lock = JoinStatements.lockEntities(
                organization: user.organization,
                user: user.user,
                types: part.map(\.type),
                ids: part.map(\.id)
            )
            let locked = try await connection.run(lock, timeout: timeout)
            let keys = try locked.read { try $0.entityKey() }
            guard !keys.isEmpty else { continue }
            let own = JoinStatements.ownEntities(
                organization: user.organization,
                user: user.user,
                into: target.user,
                types: keys.map(\.type),
                ids: keys.map(\.id)
            )
            _ = try await connection.run(own, timeout: timeout)
        }
    }

    /// Decrypts the user's sealed values and encrypts them for the target. This is necessary because a value can be
    /// decrypted only with the id of the user for whom it was encrypted.
    ///
    /// A value stays unchanged if its data key or user's key no longer exists, or if the value is damaged.
    ///
    /// - Throws: `store_unavailable` if a value needs a master key that is not configured in this process.
    private func reseal() async throws {
        let target = target.user
        var renewal = Renewal(seal: seal) { $0.moved(to: target) }
        for table in rows.sealed {
            let rows = SealedLaneRows(table: table, lane: user)
            var next: UUID? = rows.first
            while let start = next {
                let ids = try await page(of: rows, from: start)
                guard let last = ids.last else { break }
                for start in stride(from: 0, to: ids.count, by: Self.sealed) {
                    try await seal(Array(ids[start..<min(start + Self.sealed, ids.count)]), of: rows, &renewal)
                }
                next = rows.next(after: last)
            }
        }
        try renewal.check()
    }

    private func page(of rows: SealedLaneRows, from start: UUID) async throws -> [UUID] {
        var parameters = rows.place(start)
        parameters.add(SealedLaneRows.scan)
        rows.add(seal.number ?? 0, seal, to: &parameters)
        return try await connection.run(Query(rows.page, parameters), timeout: timeout).read { try rows.key(&$0) }
    }

    private func seal(_ ids: [UUID], of rows: SealedLaneRows, _ renewal: inout Renewal) async throws {
        let read = rows.read(ids)
        let found = try await connection.run(read, timeout: timeout)[read.count - 1]
        let queries = try found.readSealed { try rows.renewed(&$0, &renewal) }.compactMap(\.self)
        if !queries.isEmpty { _ = try await connection.run(queries, timeout: timeout) }
    }
}

/// A join of two users as operators see it.
package struct UserJoinRow: Sendable, Hashable {
    package enum State: String, Sendable, Hashable {
        /// Neither user is served. The rows move once no worker has one of the lanes.
        case closing
        /// All rows belong to the target. The target's devices have not received the joined user's private entities
        /// yet.
        case moved
        case done
    }

    static let list = "j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at"

    package let user: UUID
    package let target: UUID
    package let startedAt: Timestamp
    /// Nil once the rows have moved.
    package let closedUntil: Timestamp?
    /// The feed's end when the rows moved.
    let feedEnd: Int64?
    package let finishedAt: Timestamp?

    package var state: State { closedUntil != nil ? .closing : finishedAt == nil ? .moved : .done }

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        user = try row.read("user_id")
        target = try row.read("into_id")
        startedAt = try row.read("started_at")
        closedUntil = try row.read("closed_until")
        feedEnd = try row.read("feed_end")
        finishedAt = try row.read("finished_at")
    }
}
