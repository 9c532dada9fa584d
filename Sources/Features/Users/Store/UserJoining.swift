package import FoundationEssentials
import JSONText
import Logging
import Metrics
import Postgres
package import SyncModel
import SyncStore

/// Joins a user into another user, the target. Their lanes become one lane, and no mutation runs twice.
///
/// At first neither user is served. Once every gateway has read the closure and no worker has one of the lanes, one
/// transaction moves all rows of the user to the target. The user's mutations come after the target's, as if they had
/// been accepted later. They keep their records and the idempotency keys of their requests to the upstream. Because of
/// this, if a phone pushed as the joined user and repeats the push as the target, the outcomes are the same.
///
/// If a join is interrupted, the next call continues it. Without another call, the join is given up.
package struct UserJoining: Sendable {
    /// The time in seconds for which a call closes both users. If no call continues the join within this time, the join
    /// is given up.
    package static let closedSeconds: Double = 120
    /// The interval in seconds at which the gateway checks that the user of a waiting request (a long poll) is still
    /// served.
    package static let waitSeconds = Catalog.waitSeconds
    /// The time in seconds after which every gateway treats the users as closed, and requests that began before the
    /// closure no longer read.
    ///
    /// It is the sum of three times: the time for which the catalog caches an organization, the interval at which a
    /// waiting request checks its user (``waitSeconds``), and one second for differences between clocks.
    package static let settlingSeconds = Catalog.settlingSeconds
    /// The maximum number of entities that one transaction moves to the feed's end while it locks the feed.
    private static let shown = 500
    private static let statementTimeout: Duration = .seconds(60)

    let pool: Pool
    let catalog: Catalog
    let notifier: ChangeNotifier
    let evaluation: ChannelEvaluation
    private let tables: [StoredTable]
    let rows: MergedRows
    let now: TimeSource
    let failure: StoreFailure
    let logger: Logger
    /// ``settlingSeconds`` by default. A test with one gateway may set a shorter time.
    package var settling = settlingSeconds
    private let joined = Counter(label: UserMetrics.joinedUsers)

    init(_ store: Store) {
        pool = store.pool
        catalog = store.catalog
        notifier = store.notifier
        evaluation = store.channelEvaluation
        tables = store.tables
        rows = MergedRows(tables)
        now = store.now
        failure = store.failure
        logger = store.logger
    }

    /// Joins a user into another, as far as that is possible immediately.
    ///
    /// Call this method again if a lane is busy, or if some gateways may not have read the join yet.
    ///
    /// - Returns: the join; nil if there is no such organization, or if it has no record of the user.
    /// - Throws: `validation_failed` if the two users cannot be joined. In this case, both users are served as before.
    package func join(
        _ user: UUID,
        into target: UUID,
        in organization: UUID
    ) async throws(Problem) -> UserJoinRow? {
        guard !Writer.isReserved(user) else { return nil }
        guard !Writer.isReserved(target) else { throw MergePreconditions.unknownTarget }
        do {
            do {
                guard let join = try await close(user, target, organization) else { return nil }
                guard join.state == .closing else { return try await finish(join, organization) }
                guard join.startedAt.adding(seconds: settling) <= now(),
                    let moved = try await move(user, target, organization)
                else { return join }
                return try await finish(moved, organization)
            } catch let problem as Problem where problem.code == .validationFailed {
                _ = try await pool.run([JoinStatements.open(organization: organization, user: user, into: target)])
                catalog.invalidate(organization)
                throw problem
            }
        } catch {
            throw failure.problem(error, doing: "join users")
        }
    }

    /// Joins a user into another, and waits for the join for at most `timeout`.
    package func join(
        _ user: UUID,
        into target: UUID,
        in organization: UUID,
        timeout: Duration
    ) async throws(Problem) -> UserJoinRow? {
        let deadline = ContinuousClock.now + timeout
        while true {
            let join = try await join(user, into: target, in: organization)
            guard join?.state == .closing, ContinuousClock.now < deadline, !Task.isCancelled else { return join }
            try? await Task.sleep(for: min(.milliseconds(500), deadline - .now))
        }
    }

    // MARK: - 1: neither user is served

    private func close(_ user: UUID, _ target: UUID, _ organization: UUID) async throws -> UserJoinRow? {
        let moment = now()
        let facts = JoinStatements.facts(
            organization: organization,
            user: user,
            into: target,
            migration: UserFacts.requiredMigration(for: tables),
            seconds: UserFacts.gatewayMemory
        )
        let close = JoinStatements.close(
            organization: organization,
            user: user,
            into: target,
            now: moment,
            closed_until: moment.adding(seconds: Self.closedSeconds)
        )
        let join = try await pool.transaction { connection -> UserJoinRow? in
            let results = try await connection.runByIndex(
                [facts, JoinStatements.related(organization: organization, users: [user, target])],
                after: [JoinStatements.lockOrganization(organization: organization)]
            )
            let statuses: [OrganizationStatus] = try results[0].read { try $0.choice("status") }
            guard let status = statuses.first, status != .purging, var facts = results[1].first
            else { return nil }
            let related = try results[2].read(UserJoinRow.init)
            let own = related.first { $0.user == user }
            let isUserKnown: Bool = try facts.read("is_user_known")
            guard isUserKnown || own != nil || user == target else { return nil }
            let situation = MergePreconditions(
                user: user,
                target: target,
                isOrganizationActive: status == .active,
                isTargetKnown: try facts.read("is_target_known"),
                joins: related.map {
                    MergePreconditions.Join(user: $0.user, target: $0.target, closedUntil: $0.closedUntil)
                },
                count: try facts.read("joins"),
                hasOldGateway: try facts.read("has_old_gateway"),
                isOneShutOut: try facts.read("is_one_shut_out")
            )
            switch try situation.decide(at: moment) {
            case .hasMoved: return own
            case .close:
                return try await connection.run(close).read(UserJoinRow.init).first
            }
        }
        catalog.invalidate(organization)
        return join
    }

    // MARK: - 2: the rows move

    /// Moves the rows. Returns nil while a worker has one of the lanes, or if the joined user's lane has changed.
    private func move(_ user: UUID, _ target: UUID, _ organization: UUID) async throws -> UserJoinRow? {
        let lanes = [user, target].map { LaneKey(organization: organization, user: $0) }
        let before = try await LaneRows.lanes(pool.run([LaneRows.find(lanes)])[0])
        guard before.values.allSatisfy(\.isAtRest) else { return nil }
        var entities: [EntityKey] = []
        try await EntityScan(pool: pool, organization: organization, user: user).run(EntityScan.named) { found in
            entities += found
            guard Int64(entities.count) <= MergePreconditions.rowLimit else { throw Self.tooLarge }
        }
        // the closure is extended, because the scan may have taken longer than the closure lasts
        guard try await close(user, target, organization)?.state == .closing else { return nil }
        // the cache is refreshed because another gateway may just have created a data key
        catalog.invalidate(organization)
        let seal = try await catalog.seal(of: organization)
        let known = entities.inLockingOrder
        try await catalog.userKeys.prepare([lanes[1]]) { _ in seal }
        let join = try await catalog.userKeys.fetchingMissingKeys {
            try await pool.transaction { connection -> UserJoinRow? in
                let move = JoinMove(
                    connection: connection,
                    rows: rows,
                    user: lanes[0],
                    target: lanes[1],
                    seal: seal,
                    now: now(),
                    timeout: Self.statementTimeout
                )
                return try await move.run(known, expecting: before[lanes[0]])
            }
        }
        guard let join else { return nil }
        catalog.invalidate(organization)
        notifier.changed([lanes[1]])
        notifier.ready([lanes[1]])
        joined.increment()
        logger.notice(
            "users joined",
            metadata: [
                "organization": "\(organization.lowercased)", "user": "\(user.lowercased)",
                "into": "\(target.lowercased)",
            ]
        )
        return join
    }

    static var tooLarge: Problem {
        MergePreconditions.refusal(
            "join_too_large",
            "the user has more than \(MergePreconditions.rowLimit) rows, too many to move at once; merge the smaller user "
                + "into the larger one, or wait until retention has deleted old rows"
        )
    }

    // MARK: - 3: devices receive private entities

    private func finish(_ join: UserJoinRow, _ organization: UUID) async throws -> UserJoinRow {
        guard let end = join.feedEnd, join.finishedAt == nil else { return join }
        let seal = try await catalog.seal(of: organization)
        let scan = EntityScan(pool: pool, organization: organization, user: join.target)
        try await scan.run(EntityScan.unseen, upTo: end) { found in
            for start in stride(from: 0, to: found.count, by: Self.shown) {
                var rest = found[start..<min(start + Self.shown, found.count)]
                while !rest.isEmpty {
                    let next = try await show(Array(rest), join, end, organization, seal)
                    rest = next.map { next in rest.drop { $0 != next } } ?? []
                }
            }
        }
        notifier.changed([LaneKey(organization: organization, user: join.target)])
        let finish = JoinStatements.finish(organization: organization, user: join.user, into: join.target, now: now())
        let finished = try await pool.run([finish])[0]
        return try finished.read(UserJoinRow.init).first ?? join
    }

    /// Moves entities to the feed's end, so that the target's devices receive the joined user's entities. Without this
    /// move, they would not receive these entities, because the cursors of both users' devices are past them. The
    /// channels of entities that depend on the owner are evaluated again.
    ///
    /// - Returns: the first entity that a further transaction must move.
    private func show(
        _ keys: [EntityKey],
        _ join: UserJoinRow,
        _ end: Int64,
        _ organization: UUID,
        _ seal: Seal
    ) async throws -> EntityKey? {
        let lock = JoinStatements.lockUnseen(
            organization: organization,
            user: join.target,
            types: keys.map(\.type),
            ids: keys.map(\.id),
            feed_end: end
        )
        let types = try await catalog.entry(organization).types
        return try await pool.transaction { connection in
            let locked = try await connection.runByIndex(lock)
            let all = try locked.read { try $0.entityKey() }
            guard !all.isEmpty else { return nil }
            let count = try await evaluation.evaluate(
                all,
                ofChangedOwnersIn: organization,
                types,
                seal,
                on: connection
            )
            let found = all.prefix(count)
            let raise = JoinStatements.raiseFeed(organization: organization, count: Int64(found.count))
            let raised = try await connection.run(raise)
            let show = JoinStatements.show(
                organization: organization,
                types: found.map(\.type),
                ids: found.map(\.id),
                feed_end: try raised.read(0, 0, as: Int64.self)
            )
            let follow = ChannelStatements.follow(
                organization: organization,
                types: found.map(\.type),
                ids: found.map(\.id),
                feed_end: try raised.read(0, 0, as: Int64.self)
            )
            _ = try await connection.run([follow, show])
            return all.dropFirst(count).first
        }
    }
}
