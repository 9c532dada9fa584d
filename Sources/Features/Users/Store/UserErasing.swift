package import FoundationEssentials
import JSONText
import Logging
import Metrics
import Postgres
package import SyncModel
import SyncStore

/// Erases all stored data of one user in small steps.
///
/// An erasure can be interrupted at any point. The next call continues it, and gateways continue it without a call
/// (``ErasureService``). The steps are:
///
/// 1. The user is closed: no gateway serves the user again.
/// 2. Once every gateway has read the closure and no worker has the lane, the rows are deleted in batches under the
///    lane's lock. The lane itself is deleted last.
/// 3. The documents that the user owns or wrote last are deleted, or the user is removed from them.
/// 4. The upstream is notified.
/// 5. Only hashes remain: of the user, and of the user's subjects, idempotency keys, fingerprints and devices.
package struct UserErasing: Sendable {
    /// The time in seconds after which every gateway treats the user as closed. The same time applies to a join.
    package static let settlingSeconds = UserJoining.settlingSeconds
    /// The time in seconds after which another gateway may claim an abandoned erasure. Together with the time until the
    /// next search, this is about a minute.
    static let claimSeconds: Double = 40
    /// The maximum number of erasures that one search finds. The search tries to claim them in turn, because other
    /// gateways may claim some of them.
    static let candidates: Int64 = 16
    /// The maximum number of rows of a table that one transaction deletes.
    static let batch: Int64 = 1_000
    /// The maximum number of entities that one transaction writes while it locks the feed.
    private static let written = 500
    private static let statementTimeout: Duration = .seconds(60)

    let pool: Pool
    let catalog: Catalog
    let identities: Identities
    let notifier: ChangeNotifier
    let evaluation: ChannelEvaluation
    let now: TimeSource
    let failure: StoreFailure
    let logger: Logger
    /// Sends notifications to upstreams. If it is nil, gateways send them later.
    package var upstream: (any Upstream)?
    /// ``settlingSeconds`` by default. A test with one gateway may set a shorter time.
    package var settling = settlingSeconds
    private let tables: [StoredTable]
    private let rows: ErasedRows
    private let participants: [any CommitParticipant]
    private let erased = Counter(label: UserMetrics.erasedUsers)
    private let unpublished = Counter(label: UserMetrics.unpublishedErasures)

    init(_ store: Store) {
        pool = store.pool
        catalog = store.catalog
        identities = store.identities
        notifier = store.notifier
        evaluation = store.channelEvaluation
        participants = store.participants
        tables = store.tables
        rows = ErasedRows(tables)
        now = store.now
        failure = store.failure
        logger = store.logger
    }

    /// Erases a user, as far as that is possible immediately.
    ///
    /// Call this method again if the lane is busy, if some gateways may not have read the closure yet, or if the
    /// upstream cannot be notified.
    ///
    /// - Returns: the erasure; nil if there is no such organization, or no record of the user.
    /// - Throws: `not_found` for a user who was joined into another user; `overloaded` while the user is being joined;
    ///   `validation_failed` while an older gateway is running.
    package func erase(_ user: UUID, in organization: UUID) async throws(Problem) -> UserErasureRow? {
        // a reserved id marks data without an owner, which do not belong to a single person
        guard !Writer.isReserved(user) else { return nil }
        do {
            let lane = LaneKey(organization: organization, user: user)
            if let erasure = try await close(lane) { return try await proceed(erasure) }
            guard try await UserReferences.exist(of: lane, pool), let erasure = try await close(lane, isNamed: true)
            else {
                return nil
            }
            return try await proceed(erasure)
        } catch {
            throw failure.problem(error, doing: "erase a user")
        }
    }

    /// Erases a user, and waits for the end of the erasure for at most `timeout`.
    package func erase(
        _ user: UUID,
        in organization: UUID,
        timeout: Duration,
        progress: (UserErasureRow) -> Void = { _ in }
    ) async throws(Problem) -> UserErasureRow? {
        let deadline = ContinuousClock.now + timeout
        while true {
            let erasure = try await erase(user, in: organization)
            if let erasure { progress(erasure) }
            guard erasure?.state == .closing, ContinuousClock.now < deadline, !Task.isCancelled else { return erasure }
            try? await Task.sleep(for: min(.milliseconds(500), deadline - .now))
        }
    }

    /// Continues an abandoned erasure, including the request to its upstream. Returns false if no erasure is abandoned.
    package func continueAny() async throws(Problem) -> Bool {
        guard let erasure = try await claim(asks: true, excluding: []) else { return false }
        let remaining = try await eraseHere(erasure)
        if remaining.state == .telling { _ = try await sendToUpstream(remaining) }
        return true
    }

    /// Claims the abandoned erasure that has been due longest; returns nil if there is no such erasure.
    ///
    /// - Parameters:
    ///   - asks: whether to include erasures for which only the request to the upstream remains.
    ///   - organizations: the organizations for which these erasures are excluded, even if `asks` is true.
    func claim(asks: Bool, excluding organizations: Set<UUID>) async throws(Problem) -> UserErasureRow? {
        do {
            let moment = now()
            let due = ErasureStatements.due(
                now: moment,
                limit: Self.candidates,
                organizations: Array(organizations),
                asks_upstream: asks
            )
            for var found in try await pool.run([due])[0] {
                let claim = ErasureStatements.claim(
                    organization: try found.read("organization_id", as: UUID.self),
                    user_hash: UserHash(bytes: try found.read("user_hash")),
                    due_at: try found.read("due_at", as: Timestamp.self),
                    claimed_until: moment.adding(seconds: Self.claimSeconds)
                )
                let claimed = try await pool.run([claim])[0]
                if let erasure = try claimed.read(UserErasureRow.init).first { return erasure }
            }
            return nil
        } catch {
            throw failure.problem(error, doing: "claim an erasure")
        }
    }

    /// Continues a claimed erasure in the database, without a request to its upstream.
    func eraseHere(_ erasure: UserErasureRow) async throws(Problem) -> UserErasureRow {
        do {
            return try await erase(erasure)
        } catch {
            throw failure.problem(error, doing: "continue an erasure")
        }
    }

    /// Sends a claimed erasure to the upstream.
    ///
    /// - Returns: whether the upstream has accepted the erasure.
    func sendToUpstream(_ erasure: UserErasureRow) async throws(Problem) -> Bool {
        do {
            return try await publish(erasure).state == .done
        } catch {
            throw failure.problem(error, doing: "send an erasure to its upstream")
        }
    }

    /// Returns the number of erasures in progress, up to 1,000, and the time at which the first of them began.
    package func backlog() async throws(Problem) -> (count: Int64, since: Timestamp?) {
        do {
            let found = try await pool.run([Query(ErasureStatements.backlog)])[0]
            guard var row = found.first else { return (0, nil) }
            return (try row.read("count", as: Int64.self), try row.read("since", as: Timestamp?.self))
        } catch {
            throw failure.problem(error, doing: "count erasures")
        }
    }

    private func proceed(_ erasure: UserErasureRow) async throws -> UserErasureRow {
        let erasure = try await erase(erasure)
        return erasure.state == .telling ? try await publish(erasure) : erasure
    }

    private func erase(_ erasure: UserErasureRow) async throws -> UserErasureRow {
        var erasure = erasure
        if erasure.state == .closing {
            guard erasure.startedAt.adding(seconds: settling) <= now(),
                let next = try await eraseRows(erasure)
            else { return erasure }
            erasure = next
        }
        if erasure.state == .entities { erasure = try await eraseEntities(erasure) }
        return erasure
    }

    private func move(
        _ erasure: UserErasureRow,
        to state: UserErasureRow.State,
        scanned: Int64 = 0,
        on connection: Connection? = nil
    ) async throws -> UserErasureRow {
        let query = ErasureStatements.move(
            organization: erasure.organization,
            user_hash: erasure.hash,
            state: state.rawValue,
            walked_position: scanned,
            due_at: now().adding(seconds: Self.claimSeconds)
        )
        let rows = if let connection { try await connection.run(query) } else { try await pool.run([query])[0] }
        // there is no row if another gateway has already completed the erasure
        return try rows.read(UserErasureRow.init).first ?? erasure
    }

    // MARK: - 1: the user is not served

    /// Closes the user.
    ///
    /// - Parameter isNamed: whether documents or events contain the user's id. If they do, the user is closed even if
    ///   the organization has no record of the user.
    private func close(_ user: LaneKey, isNamed: Bool = false) async throws -> UserErasureRow? {
        let moment = now()
        let organization = user.organization
        let hash = UserHash(of: user)
        let facts = ErasureStatements.facts(
            organization: organization,
            user: user.user,
            migration: UserFacts.requiredMigration(for: tables),
            seconds: UserFacts.gatewayMemory
        )
        let erasure = try await pool.transaction { connection -> UserErasureRow? in
            let results = try await connection.runByIndex(
                [
                    ErasureStatements.find(organization: organization, user_hash: hash), facts,
                    JoinStatements.related(organization: organization, users: [user.user]),
                ],
                after: [JoinStatements.lockOrganization(organization: organization)]
            )
            let statuses: [OrganizationStatus] = try results[0].read { try $0.choice("status") }
            guard let status = statuses.first, status != .purging else { return nil }
            if let known = try results[1].read(UserErasureRow.init).first { return known }
            let joins = try results[3].read(UserJoinRow.init)
            try Self.check(user.user, joins, at: moment)
            guard var row = results[2].first, try row.read("is_known", as: Bool.self) || isNamed else { return nil }
            guard try !row.read("has_old_gateway") else {
                throw Problem.oldGateway(without: "erasures", rule: "erasure_old_gateway")
            }
            let followers = joins.filter { $0.target == user.user && $0.closedUntil == nil }.map(\.user)
            let made = try await connection.run([
                Identities.makeSalt(for: organization),
                ErasureStatements.close(
                    organization: organization,
                    user_hash: hash,
                    users: [user.user] + followers,
                    now: moment,
                    due_at: moment.adding(seconds: Self.claimSeconds)
                ),
            ])
            return try made[1].read(UserErasureRow.init).first
        }
        catalog.invalidate(organization)
        return erasure
    }

    /// - Throws: `not_found` for a user who was joined into another user, `overloaded` while the user is being joined.
    private static func check(_ user: UUID, _ joins: [UserJoinRow], at now: Timestamp) throws(Problem) {
        for join in joins {
            if let until = join.closedUntil {
                if now < until { throw .userIsJoining }
            } else if join.user == user {
                let target = join.target.lowercased
                throw Problem(.notFound, "The user is merged into \(target); erase that user.")
            }
        }
    }

    // MARK: - 2: the rows are deleted

    /// Deletes the user's rows; returns nil while a worker has the lane.
    private func eraseRows(_ erasure: UserErasureRow) async throws -> UserErasureRow? {
        guard let lane = erasure.lane else { return erasure }
        // joined users still have a few rows under their own ids, such as their subjects; requests from before the
        // closure may add rows during a pass, so passes are repeated until one deletes nothing
        var isClean = false
        while !isClean {
            isClean = true
            for (table, user) in rows.batches.flatMap({ table in erasure.users.map { (table, $0) } }) {
                var count: Int64 = Self.batch
                while count >= Self.batch {
                    let deleted = try await underLock(lane) { connection in
                        try await delete(table, of: user, erasure, on: connection)
                    }
                    guard let deleted else { return nil }
                    count = deleted
                    if count > 0 { isClean = false }
                }
            }
        }
        return try await underLock(lane) { connection in
            let withLane = rows.withLane.flatMap { statement in
                erasure.users.map { statement(organization: lane.organization, user: $0) }
            }
            _ = try await connection.run(withLane)
            return try await move(erasure, to: .entities, on: connection)
        }
    }

    /// Deletes a batch of a table's rows and inserts the hashes that remain. Returns the number of deleted rows.
    private func delete(
        _ table: ErasedRows.Deletion,
        of user: UUID,
        _ erasure: UserErasureRow,
        on connection: Connection
    ) async throws -> Int64 {
        let delete = table.delete(
            organization: erasure.organization,
            user: user,
            user_hash: erasure.hash,
            limit: Self.batch
        )
        let found = try await connection.run(delete, timeout: Self.statementTimeout)
        guard let keep = table.keep else {
            guard var row = found.first else { return 0 }
            return try row.read("count")
        }
        let hashes = try found.read {
            (own: try $0.read("hash", as: [UInt8].self), known: try $0.read("known_hash", as: [UInt8]?.self))
        }
        guard !hashes.isEmpty else { return 0 }
        let kept = keep(
            organization: erasure.organization,
            user_hash: erasure.hash,
            hashes: hashes.map { PostgresBytes($0.own) },
            known_hashes: hashes.map { PostgresBytes($0.known) }
        )
        _ = try await connection.run(kept, timeout: Self.statementTimeout)
        return Int64(hashes.count)
    }

    /// Runs a transaction under the lane's lock. If there is no lane, it runs without the lock. Returns nil if a worker
    /// has the lane.
    private func underLock<Value: Sendable>(
        _ lane: LaneKey,
        _ body: (Connection) async throws -> Value
    ) async throws -> Value? {
        try await pool.transaction { connection in
            let rows = try await connection.runByIndex(
                LaneRows.lock([lane]),
                timeout: Self.statementTimeout
            )
            guard try LaneRows.lanes(rows).values.allSatisfy(\.isAtRest) else { return nil }
            return try await body(connection)
        }
    }

    // MARK: - 3: the documents are deleted

    private func eraseEntities(_ erasure: UserErasureRow) async throws -> UserErasureRow {
        guard let lane = erasure.lane else { return erasure }
        let scan = EntityScan(pool: pool, organization: lane.organization, user: lane.user)
        try await scan.run(
            EntityScan.named,
            after: erasure.scanned,
            passed: { _ = try await move(erasure, to: .entities, scanned: $0) }
        ) { found in
            for start in stride(from: 0, to: found.count, by: Self.written) {
                try await write(found[start..<min(start + Self.written, found.count)], of: lane, erasure)
            }
        }
        try await eraseElsewhere(erasure)
        try await destroyKeys(erasure)
        // only the endpoint is read, because reading the upstream's sealed settings would require a data key. An
        // erasure without documents to keep must also succeed if the master key is missing.
        let endpoint = try await pool.run([ErasureStatements.endpoint(organization: lane.organization)])[0]
        if endpoint.isEmpty { return try await finish(erasure) }
        return try await move(erasure, to: .telling)
    }

    /// Destroys the user's keys. After that, values that were sealed with these keys cannot be decrypted in any copy of
    /// the database.
    private func destroyKeys(_ erasure: UserErasureRow) async throws {
        let destroy = UserKeyRows.destroyStatement(organization: erasure.organization, users: erasure.users)
        let gone = try await pool.run([destroy])[0]
        let users = try gone.read { LaneKey(organization: erasure.organization, user: try $0.read("made_for")) }
        catalog.userKeys.ring.forget(users)
    }

    /// Deletes rows that contain the user's id but are not stored under this id.
    private func eraseElsewhere(_ erasure: UserErasureRow) async throws {
        for (scan, delete) in rows.walks {
            // the scan is repeated until it finds no row, because a worker's last writes may be at positions that the
            // scan has passed
            var isClean = false
            while !isClean {
                isClean = true
                try await scan.run(pool, of: erasure.organization, naming: erasure.users) { found in
                    for start in stride(from: 0, to: found.count, by: Int(Self.batch)) {
                        let part = found[start..<min(start + Int(Self.batch), found.count)]
                        try await self.delete(part, by: delete, of: erasure)
                        isClean = false
                    }
                    _ = try await move(erasure, to: .entities)
                }
            }
        }
    }

    private func delete(
        _ keys: ArraySlice<NamingScan.Key>,
        by statement: Statement,
        of erasure: UserErasureRow
    ) async throws {
        let query = statement(
            organization: erasure.organization,
            first_keys: keys.map(\.first),
            second_keys: keys.map(\.second),
            users: erasure.users
        )
        try await pool.transaction { connection in
            _ = try await connection.runByIndex(query, timeout: Self.statementTimeout)
        }
    }

    private func write(_ keys: ArraySlice<EntityKey>, of lane: LaneKey, _ erasure: UserErasureRow) async throws {
        var rest = keys
        while !rest.isEmpty {
            let lock = ErasureStatements.lockEntities(
                organization: lane.organization,
                user: lane.user,
                types: rest.map(\.type),
                ids: rest.map(\.id),
                own_channels: erasure.users.map { ChannelID.of(user: $0).uuid },
                bytes: WorkBounds.bulkContents
            )
            let moment = now()
            let written = try await catalog.userKeys.fetchingMissingKeys { try await write(lock, of: lane, at: moment) }
            if written.count > 0 { notifier.changed([lane]) }
            rest = written.next.map { next in rest.drop { $0 != next } } ?? []
        }
    }

    /// Deletes locked entities, or removes the user from them, up to the first entity that exceeds a bound of the
    /// transaction.
    ///
    /// - Returns: the number of written entities, and the entity with which the next transaction begins.
    private func write(
        _ lock: Query,
        of lane: LaneKey,
        at moment: Timestamp
    ) async throws -> (count: Int, next: EntityKey?) {
        // the newest keys are needed to decrypt documents that are kept; if there are no such documents, a missing
        // master key does not matter
        catalog.invalidate(lane.organization)
        let seal = try? await catalog.seal(of: lane.organization)
        let types = seal == nil ? [:] : try await catalog.entry(lane.organization).types
        return try await pool.transaction { connection in
            let all = try await connection.runByIndex(lock).read(LockedEntity.init)
            var found = all.prefix { !$0.isBeyondBytes }
            try await keep(
                found.compactMap { one in one.document.map { (one.key, $0) } },
                of: lane,
                seal,
                on: connection
            )
            if let seal {
                let remaining = found.filter { !$0.isDeleted }.map(\.key)
                let count = try await evaluation.evaluate(
                    remaining,
                    ofChangedOwnersIn: lane.organization,
                    types,
                    seal,
                    change: ChannelEvaluation.OwnerChange(from: lane.user, to: UUID.least),
                    on: connection
                )
                if count < remaining.count { found = found.prefix { $0.key != remaining[count] } }
            }
            guard !found.isEmpty else { return (0, nil) }
            try await write(found, of: lane, at: moment, on: connection)
            return (found.count, all.dropFirst(found.count).first?.key)
        }
    }

    private func write(
        _ found: ArraySlice<LockedEntity>,
        of lane: LaneKey,
        at moment: Timestamp,
        on connection: Connection
    ) async throws {
        let raise = JoinStatements.raiseFeed(organization: lane.organization, count: Int64(found.count))
        let end: Int64 = try await connection.run(raise).read(0, 0)
        let (types, ids) = (found.map(\.key.type), found.map(\.key.id))
        let follow = ChannelStatements.follow(organization: lane.organization, types: types, ids: ids, feed_end: end)
        let write = ErasureStatements.writeEntities(
            organization: lane.organization,
            user: lane.user,
            types: types,
            ids: ids,
            goes: found.map(\.isDeleted),
            feed_end: end,
            no_user: UUID.least,
            now: moment
        )
        let endGrants = ChannelStatements.endGrantsOfDeleted(
            organization: lane.organization,
            sources: found.filter(\.isDeleted).map { GrantSource.entity($0.key).text },
            feed_end: end
        )
        _ = try await connection.run([follow, write, endGrants])
    }

    /// A row of ``ErasureStatements/lockEntities``.
    private struct LockedEntity {
        let key: EntityKey
        /// Whether the erasure deletes the entity.
        let isDeleted: Bool
        /// The document, if it is kept and sealed with the user's key.
        let document: [UInt8]?
        /// Whether a later transaction writes the entity, because the documents before it reach the limit of bytes.
        let isBeyondBytes: Bool

        init(_ row: inout RowReader) throws {
            key = try row.entityKey()
            isDeleted = try row.read("goes")
            document = try row.read("document")
            isBeyondBytes = try row.read("is_beyond_bytes")
        }
    }

    /// Seals documents with another key than their owner's key, because the documents are kept and the owner's key is
    /// destroyed later.
    private func keep(
        _ documents: [(key: EntityKey, document: [UInt8])],
        of lane: LaneKey,
        _ seal: Seal?,
        on connection: Connection
    ) async throws {
        guard !documents.isEmpty else { return }
        guard let seal else { throw StoreFailure.sealed }
        var renewal = Renewal(seal: seal)
        let queries = try documents.map { key, document in
            let renewed = try renewal.json(document, as: .document(type: key.type, id: key.id))
            return SealStatements.writeEntity(
                organization: lane.organization,
                entity_type: key.type,
                id: key.id,
                document: PostgresJSON(renewed)
            )
        }
        // throws an error if a value cannot be decrypted now, because the value would be lost with the owner's key
        try renewal.check()
        _ = try await connection.run(queries)
    }

    // MARK: - 4: the upstream is notified

    private func publish(_ erasure: UserErasureRow) async throws -> UserErasureRow {
        guard let upstream else { return erasure }
        let organization = try await catalog.organization(erasure.organization)
        guard let settings = organization?.upstream, let endpoint = settings.eraseEndpoint else {
            return try await finish(erasure)
        }
        // like all other requests, the notification waits until the organization is active
        guard organization?.status == .active else { return erasure }
        for user in erasure.users {
            let request = UpstreamRequest(
                organization: erasure.organization,
                user: user,
                method: "DELETE",
                path: EraseEndpoint.path(endpoint, of: user),
                idempotencyKey: UserHash(of: LaneKey(organization: erasure.organization, user: user)).idempotencyKey,
                timeout: .seconds(settings.timeoutSeconds)
            )
            if let reason = Self.reason(await upstream.send(request, to: settings)) {
                return try await fail(erasure, reason)
            }
        }
        return try await finish(erasure)
    }

    /// Returns the reason why the upstream was not notified; nil if it was notified.
    private static func reason(_ answer: UpstreamAnswer) -> String? {
        switch answer {
        case .response(let response) where ErasureRetry.isDone(status: response.status): nil
        case .response(let response): "the upstream answered \(response.status)"
        case .notSent(let reason), .refused(let reason), .unready(let reason), .unknown(let reason): reason
        }
    }

    private func fail(_ erasure: UserErasureRow, _ reason: String) async throws -> UserErasureRow {
        unpublished.increment()
        logger.warning(
            "An upstream was not notified of an erasure",
            metadata: metadata(erasure, ["reason": "\(reason)", "attempts": "\(erasure.attempts + 1)"])
        )
        let pause = ErasureRetry.pause(after: erasure.attempts + 1)
        let fail = ErasureStatements.fail(
            organization: erasure.organization,
            user_hash: erasure.hash,
            reason: String(reason.prefix(500)),
            due_at: now().adding(seconds: pause)
        )
        let rows = try await pool.run([fail])[0]
        return try rows.read(UserErasureRow.init).first ?? erasure
    }

    // MARK: - 5: no stored data identify the user

    private func finish(_ erasure: UserErasureRow) async throws -> UserErasureRow {
        let moment = now()
        let finished = try await pool.transaction { connection -> UserErasureRow? in
            let lock = ErasureStatements.lock(organization: erasure.organization, user_hash: erasure.hash)
            let locked = try await connection.run(lock)
            guard let open = try locked.read(UserErasureRow.init).first, let lane = open.lane else { return nil }
            let finish = ErasureStatements.finish(
                organization: lane.organization,
                user_hash: open.hash,
                now: moment
            )
            let queries =
                [
                    // a key may have been created since the user's keys were destroyed
                    UserKeyRows.destroyStatement(organization: lane.organization, users: open.users),
                    ErasureStatements.followers(
                        organization: lane.organization,
                        users: Array(open.users.dropFirst()),
                        started_at: open.startedAt,
                        finished_at: moment
                    ),
                ]
                + rows.last.map { $0(organization: lane.organization, users: open.users) }
                + participants.flatMap { $0.queries(forErased: open.users, of: lane.organization, at: moment) }
                + [finish]
            let results = try await connection.run(queries)
            return try results[queries.count - 1].read(UserErasureRow.init).first
        }
        catalog.invalidate(erasure.organization)
        identities.invalidate()
        guard let finished else {
            // another gateway has already completed the erasure
            let find = ErasureStatements.find(organization: erasure.organization, user_hash: erasure.hash)
            return try await pool.run([find])[0].read(UserErasureRow.init).first ?? erasure
        }
        erased.increment()
        logger.notice("user erased", metadata: metadata(finished))
        return finished
    }

    /// Returns metadata that identify the erasure, but not the user.
    private func metadata(_ erasure: UserErasureRow, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
        more.merging(
            ["organization": "\(erasure.organization.lowercased)", "erasure": "\(erasure.hash.name)"]
        ) { $1 }
    }
}
