package import FoundationEssentials
package import Postgres
package import SyncModel

/// A person's decisions about stuck mutations: retry, discard, resolve.
///
/// The decisions implement product rules 4, 6 and 12. Each decision is one transaction under the lane's lock. A
/// mutation in flight is never changed.
package struct Settlement: Sendable {
    /// The maximum number of mutations that one transaction discards or releases.
    ///
    /// A transaction with this number of mutations locks the lane for less than a second.
    package static let batch = 5_000
    /// The maximum number of attempts at a transaction if other replicas insert rows with the same ids at the same
    /// time.
    package static let attempts = 3

    package let pool: Pool
    package let catalog: Catalog
    package let notifier: ChangeNotifier
    package let now: TimeSource
    package let failure: StoreFailure
    let metrics: ChannelMetrics
    /// The time limit for all statements of one transaction in total. The server's own timeout applies to each
    /// statement.
    package let writeTimeout: Duration
    /// Selects the found mutations that still match the request; used by bulk operations.
    package var screen: (any SettlementGuard)?

    /// Makes a failed or conflicting mutation pending again.
    ///
    /// The mutation becomes blocked if it has to wait for another mutation.
    ///
    /// - Parameter endsBackOff: whether a mutation that waits for its next attempt becomes due. Only operators can
    ///   request that.
    /// - Returns: the mutation afterwards; nil if the user has no mutation with that id.
    /// - Throws: `status_transition_must_be_valid`, `validation_failed`.
    package func retry(
        _ id: UUID,
        _ request: RetryRequest,
        organization: Organization,
        user: UUID,
        endsBackOff: Bool = false
    ) async throws(Problem) -> MutationDetail? {
        try await settle(id, organization, user, "retry a mutation") { reader, subject, plan in
            try await retry(subject, request, endsBackOff: endsBackOff, reader, &plan)
            return []
        }
    }

    private func retry(
        _ subject: SettleSubject,
        _ request: RetryRequest,
        endsBackOff: Bool,
        _ reader: SettleReader,
        _ plan: inout SettlePlan
    ) async throws {
        if endsBackOff, try RestartPlanner.endsBackOff(subject, request, now: now()) {
            return plan.endBackOff(of: subject.record.id)
        }
        let knowledge = try await knowledge(about: subject, request.edit, reader)
        var graph: DependencyGraph?
        try await add(try RestartPlanner.retry(subject, request, knowledge), reader, &graph, to: &plan)
    }

    /// Checks whether an operator's retry would be accepted in the present state. Changes nothing.
    ///
    /// - Returns: false if the user has no mutation with that id.
    /// - Throws: the errors of the retry.
    package func validate(
        _ id: UUID,
        _ request: RetryRequest,
        organization: Organization,
        user: UUID
    ) async throws(Problem) -> Bool {
        let lane = LaneKey(organization: organization.id, user: user)
        do {
            return try await catalog.opening(lane.organization) { seal in
                let entry = try await catalog.entry(lane.organization)
                return try await pool.transaction { connection in
                    let reader = SettleReader(connection: connection, lane: lane, seal: seal)
                    guard let (state, subjects) = try await reader.begin([id], nil, type: entry.type),
                        let subject = subjects.first
                    else { return false }
                    var plan = SettlePlan(state)
                    try await retry(subject, request, endsBackOff: true, reader, &plan)
                    return true
                }
            }
        } catch {
            throw failure.problem(error, doing: "validate a retry")
        }
    }

    /// Resolves a conflict: the server's or the client's version wins.
    ///
    /// - Parameter records: further queries to run in the same transaction.
    /// - Returns: the mutation afterwards; nil if the user has no mutation with that id.
    /// - Throws: `status_transition_must_be_valid`, `validation_failed`.
    package func resolve(
        _ id: UUID,
        _ request: ResolveRequest,
        organization: Organization,
        user: UUID,
        recording records: [Query] = []
    ) async throws(Problem) -> MutationDetail? {
        return try await settle(id, organization, user, "resolve a conflict") { reader, subject, plan in
            switch request.strategy {
            case .serverWins:
                return try await adopt(subject, reader, &plan, isOneOfMany: !records.isEmpty) + records
            case .clientWins:
                var knowledge = try await knowledge(about: subject, request.edit, reader)
                knowledge.isOvertaken = try await entity(of: subject, reader)?.isNewer ?? false
                let planner = try RestartPlanner.clientWins(subject, request.edit, knowledge)
                var graph: DependencyGraph?
                try await add(planner, reader, &graph, to: &plan)
                return records
            }
        }
    }

    /// Discards a mutation, with or without its dependants.
    ///
    /// If there are more dependants than one transaction may discard, they are discarded in several transactions.
    /// Dependants on which no other mutation depends are discarded first. The last transaction discards the mutation
    /// itself.
    ///
    /// - Returns: nil when the user has no mutation with that id.
    /// - Throws: `status_transition_must_be_valid`; `validation_failed` when there are dependants and the request does
    ///   not specify how to treat them.
    package func discard(
        _ id: UUID,
        _ request: DiscardRequest,
        organization: Organization,
        user: UUID
    ) async throws(Problem) -> DiscardedMutation? {
        let lane = LaneKey(organization: organization.id, user: user)
        var shown: MutationDetail?
        let discarded = try await discard([id], request.dependants, lane, showing: { shown = $0 }) {
            found throws(Problem) in
            if found.isEmpty { throw Problem(.notFound, "the mutation does not exist") }
            return found
        }
        return shown.map { DiscardedMutation(mutation: $0.seen(in: organization, at: now()), ids: discarded) }
    }

    // MARK: - Steps that bulk calls share

    /// Divides a list of one lane's mutations by the size of their contents.
    ///
    /// Each part is so small that one transaction can read its contents.
    package func parts(of ids: [UUID], in lane: LaneKey) async throws(Problem) -> [[UUID]] {
        do {
            return try await catalog.opening(lane.organization) { seal in
                try await pool.transaction { connection in
                    try await SettleReader(connection: connection, lane: lane, seal: seal).parts(of: ids)
                }
            }
        } catch {
            throw failure.problem(error, doing: "measure mutations to settle")
        }
    }

    /// Discards mutations of one lane.
    ///
    /// - Parameters:
    ///   - show: receives the mutation in its new state, if there is only one; see
    ///     ``commit(_:_:_:hasContents:showing:_:)``.
    ///   - choose: selects from the found mutations. It is called under the lane's lock, in each attempt.
    ///   - recording: returns further queries about the discarded mutations.
    /// - Returns: the ids of all discarded mutations.
    package func discard(
        _ ids: [UUID],
        _ choice: DependantsChoice?,
        _ lane: LaneKey,
        showing show: ((MutationDetail) -> Void)? = nil,
        _ choose: @Sendable ([SettleSubject]) throws(Problem) -> [SettleSubject],
        recording: ([UUID]) -> [Query] = { _ in [] }
    ) async throws(Problem) -> [UUID] {
        var discarded: [UUID] = []
        while true {
            let plan = try await commit(lane, ids, "discard mutations", hasContents: false, showing: show) {
                reader,
                state,
                found,
                plan in
                let subjects = try choose(found)
                guard !subjects.isEmpty else { return [] }
                let planner = try DiscardPlanner(
                    subjects,
                    graph: try await reader.graph(state, excluding: subjects.count),
                    choice: choice,
                    limit: Self.batch
                )
                let knowledge = DiscardPlanner.Knowledge(
                    unmet: try await reader.unmet(planner.kept.isEmpty ? [] : planner.dependencies),
                    lost: try await reader.needs(planner.kept.map(\.id), planner.lostReferences)
                )
                try await publish(planner, knowledge, reader, &plan)
                return plan.discards.isEmpty ? [] : recording(plan.discards.map(\.node.id))
            }
            discarded += plan?.discards.map(\.node.id) ?? []
            if plan?.isComplete ?? true { return discarded }
        }
    }

    /// Plans a discard, and adds the current state of each mutation's entity to the mutation's error.
    ///
    /// The client needs this state because it has to undo the discarded change, and the feed does not send an unchanged
    /// entity again.
    package func publish(
        _ planner: DiscardPlanner,
        _ knowledge: DiscardPlanner.Knowledge,
        _ reader: SettleReader,
        _ plan: inout SettlePlan
    ) async throws {
        planner.plan(knowledge, into: &plan)
        guard !plan.discards.isEmpty else { return }
        plan.show(try await reader.current(plan.discards.map(\.node.id)))
    }

    /// Returns the facts on which the plan of a restart depends.
    package func knowledge(
        about subject: SettleSubject,
        _ edit: ContentEdit,
        _ reader: SettleReader
    ) async throws -> RestartPlanner.Knowledge {
        let content = SettledContent(subject, edit)
        let device = subject.record.deviceID
        let local = Set(content.localIDs.map { $0.clientID(on: device) })
        let clientIDs = content.identifiers.filter { !local.contains($0) }
        return RestartPlanner.Knowledge(
            mappings: try await reader.mappings(clientIDs, content.localIDs, of: device),
            unmet: Set(try await reader.unmet(subject.record.dependsOn).keys)
        )
    }

    /// Adds a restart after checking that it creates no cycle of dependencies.
    ///
    /// - Parameter graph: the lane's dependencies. If the dependencies are needed and nil, they are read once for all
    ///   restarts of a transaction.
    package func add(
        _ planner: RestartPlanner,
        _ reader: SettleReader,
        _ graph: inout DependencyGraph?,
        to plan: inout SettlePlan
    ) async throws {
        if !planner.addedDependencies.isEmpty {
            let known = if let graph { graph } else { try await reader.graph(plan.lane, excluding: 1) }
            graph = known
            try planner.checkCycles(known)
        }
        plan.add(planner.restart)
    }

    /// Runs a transaction under a lane's lock. An empty plan changes nothing.
    ///
    /// - Parameters:
    ///   - hasContents: whether to read the mutations' payloads, responses and errors.
    ///   - show: receives each of the mutations in its new state before the commit, so that the response contains the
    ///     committed state even if a later step fails. It is called again if the transaction is retried.
    ///   - body: makes the plan from the read rows, and returns further queries to run.
    /// - Returns: the plan that was committed; nil if the lane does not exist.
    /// - Throws: `payload_too_large` if several mutations together take too long.
    @discardableResult
    package func commit(
        _ lane: LaneKey,
        _ ids: [UUID],
        _ what: StaticString,
        hasContents: Bool = true,
        showing show: ((MutationDetail) -> Void)? = nil,
        _ body: (SettleReader, LaneState, [SettleSubject], inout SettlePlan) async throws -> [Query]
    ) async throws(Problem) -> SettlePlan? {
        let plan: SettlePlan?
        do {
            plan = try await transaction(lane, ids, hasContents, show, body)
        } catch {
            throw failure.problem(
                error,
                doing: what,
                count: ids.count,
                advice: "these mutations take too long for one transaction; name fewer ids, or use an operation"
            )
        }
        guard let plan, !plan.isEmpty else { return plan }
        notifier.changed([lane])
        if plan.lane.isReady(at: now()) { notifier.ready([lane]) }
        return plan
    }

    private func transaction(
        _ lane: LaneKey,
        _ ids: [UUID],
        _ hasContents: Bool,
        _ show: ((MutationDetail) -> Void)?,
        _ body: (SettleReader, LaneState, [SettleSubject], inout SettlePlan) async throws -> [Query]
    ) async throws -> SettlePlan? {
        try await catalog.opening(lane.organization) { seal in
            try await transaction(lane, ids, seal, hasContents, show, body)
        }
    }

    private func transaction(
        _ lane: LaneKey,
        _ ids: [UUID],
        _ seal: Seal,
        _ hasContents: Bool,
        _ show: ((MutationDetail) -> Void)?,
        _ body: (SettleReader, LaneState, [SettleSubject], inout SettlePlan) async throws -> [Query]
    ) async throws -> SettlePlan? {
        let entry = try await catalog.entry(lane.organization)
        return try await Retry(Self.attempts).run { error, _ in
            (error as? PostgresError)?.sqlState == "23505"
        } _: {
            try await pool.transaction { connection in
                let reader = SettleReader(connection: connection, lane: lane, seal: seal)
                let found = try await reader.begin(ids, screen, hasContents: hasContents, type: entry.type)
                guard let (state, subjects) = found else { return nil }
                let moment = now()
                var plan = SettlePlan(state)
                let more = try await body(reader, state, subjects, &plan)
                plan.finish(now: moment)
                let writer = SettleWriter(lane: lane, now: moment, seal: seal)
                let queries = try writer.queries(plan) + more
                if !queries.isEmpty {
                    metrics.count(queries, try await connection.run(queries, timeout: writeTimeout))
                }
                if let show, !subjects.isEmpty { try await reader.details(ids).forEach(show) }
                return plan
            }
        }
    }

    // MARK: - One mutation

    /// - Returns: the mutation afterwards; nil if the user has no mutation with that id.
    private func settle(
        _ id: UUID,
        _ organization: Organization,
        _ user: UUID,
        _ what: StaticString,
        _ body: (SettleReader, SettleSubject, inout SettlePlan) async throws -> [Query]
    ) async throws(Problem) -> MutationDetail? {
        let lane = LaneKey(organization: organization.id, user: user)
        var shown: MutationDetail?
        try await commit(lane, [id], what, showing: { shown = $0 }) { reader, _, subjects, plan in
            guard let subject = subjects.first else { return [] }
            return try await body(reader, subject, &plan)
        }
        return shown?.seen(in: organization, at: now())
    }

    /// Locks the entity of a conflict, and determines whether it was written after the upstream's response.
    ///
    /// The result is nil if the entity is unknown.
    private func entity(
        of subject: SettleSubject,
        _ reader: SettleReader
    ) async throws -> (key: EntityKey, stored: EntityState?, isNewer: Bool)? {
        guard let key = subject.conflictingEntity else { return nil }
        guard let stored = try await reader.lockEntity(key) else { return (key, nil, false) }
        guard let isOvertaken = subject.isOvertaken(by: stored, for: reader.lane.user) else {
            return (key, stored, try await reader.isNewer(key, than: subject.record.id))
        }
        return (key, stored, isOvertaken)
    }

    /// Resolves a conflict with the server's version. Blocked mutations continue with the server's entity.
    private func adopt(
        _ subject: SettleSubject,
        _ reader: SettleReader,
        _ plan: inout SettlePlan,
        isOneOfMany: Bool
    ) async throws -> [Query] {
        var subject = subject
        var planner = try ServerWinsPlanner(subject)
        let waiters = try await reader.waiters(for: subject.record.id)
        let dependencies = Set(waiters.flatMap(\.dependsOn)).subtracting([subject.record.id])
        let unmet = Set(try await reader.unmet(Array(dependencies)).keys)
        var queries: [Query] = []
        var state: EntityState?
        if let (key, stored, isNewer) = try await entity(of: subject, reader) {
            state = stored
            subject.access = try await reader.access(to: Set(stored?.channels ?? []))
            planner = try ServerWinsPlanner(subject)
            if let next = planner.adoption(of: stored, isNewer: isNewer, user: reader.lane.user) {
                let placed = next.placed(by: subject.type.channelRules, key)
                state = placed
                let channels = Set(stored?.channels ?? []).union(placed.channels ?? [])
                if channels.count > stored?.channels?.count ?? 0 {
                    subject.access = try await reader.access(to: channels)
                    planner = try ServerWinsPlanner(subject)
                }
                let writer = SettleWriter(lane: reader.lane, now: now(), seal: reader.seal)
                queries = try writer.queries(key, placed)
            }
        }
        planner.plan(
            state,
            user: reader.lane.user,
            waiters: waiters,
            unmet: unmet,
            isOneOfMany: isOneOfMany,
            into: &plan
        )
        return queries
    }
}
