package import FoundationEssentials
import JSONText
import Logging
import Metrics
import Postgres
package import SyncModel
import SyncStore

/// Processes operations step by step. Each step settles a few mutations lane by lane, records the operation's progress,
/// and pauses.
///
/// If a step is interrupted, the next gateway that claims the operation repeats the step. Each settled mutation counts
/// exactly once, because the transaction that settles it also counts it.
package struct OperationRun: Sendable {
    /// The time in seconds for which a lease is valid without renewal. After this time, another gateway can claim the
    /// operation.
    package static let leaseSeconds: Double = 30
    /// The time in seconds until an operation continues after a failed step.
    static let pause: Double = 15
    /// The maximum number of operations that one search finds. The search tries to claim them in turn, because other
    /// gateways may claim some of them.
    static let candidates: Int64 = 16
    /// The number of consecutive failures, of steps and of mutations, after which an operation ends as failed.
    static let maxConsecutiveFailures: Int64 = 100

    let pool: Pool
    let catalog: Catalog
    let settling: Settlement
    let evaluation: ChannelEvaluation
    let notifier: ChangeNotifier
    let now: TimeSource
    let failure: StoreFailure
    let logger: Logger
    /// The id of this process.
    let gateway: UUID
    private let metrics = OperationMetrics()
    private let setbacks = OperationSetbacks()

    init(of store: Store, gateway: UUID) {
        pool = store.pool
        catalog = store.catalog
        settling = store.settling
        evaluation = store.channelEvaluation
        notifier = store.notifier
        now = store.now
        failure = store.failure
        logger = store.logger
        self.gateway = gateway
    }

    /// Claims the operation that has been due longest; nil if no operation is due.
    ///
    /// - Parameter organizations: the organizations whose operations are excluded.
    package func claim(excluding organizations: [UUID] = []) async throws(Problem) -> OperationRow? {
        let moment = now()
        let find = OperationStatements.due(now: moment, limit: Self.candidates, except: organizations)
        return try await failure.reporting("claim an operation") {
            for var found in try await pool.run([find])[0] {
                let taken = try await pool.run([
                    OperationStatements.claim(
                        organization: try found.read("organization_id", as: UUID.self),
                        id: try found.read("id", as: UUID.self),
                        due_at: try found.read("due_at", as: Timestamp.self),
                        owner: gateway,
                        until: moment.adding(seconds: Self.leaseSeconds),
                        now: moment
                    )
                ])[0]
                guard let claimed = try taken.read(OperationRow.init).first else { continue }
                logger.notice(
                    claimed.matched > 0 ? "Operation resumed" : "Operation started",
                    metadata: metadata(claimed)
                )
                return claimed
            }
            return nil
        }
    }

    /// Whether an operation of any other organization is due.
    func isAnyDue(excluding organizations: [UUID]) async -> Bool {
        let find = OperationStatements.due(now: now(), limit: 1, except: organizations)
        return (try? await pool.run([find])[0].count) ?? 0 > 0
    }

    /// Processes a claimed operation until it ends, another gateway claims it, or `shouldStop` returns true.
    ///
    /// After `shouldStop` has returned true, the operation is released, and another gateway can continue it
    /// immediately.
    ///
    /// - Parameter rest: pauses for some seconds.
    package func work(
        on claimed: OperationRow,
        shouldStop: @Sendable () -> Bool,
        rest: @Sendable (Double) async -> Void
    ) async {
        let pace = OperationPace(perSecond: Int(claimed.perSecond))
        var operation = claimed
        while !shouldStop() {
            let began = ContinuousClock.now
            do throws(Problem) {
                let limit = setbacks.limit(of: operation.id, atMost: pace.limit)
                let isEvaluation = operation.kind == .evaluate
                let found = isEvaluation ? try await evaluate(operation) : try await step(operation, limit: limit)
                guard let step = found else {
                    setbacks.remove(operation.id)
                    logger.notice("Operation was cancelled, or taken over", metadata: metadata(operation))
                    return
                }
                metrics.count(operation.kind, step.tally)
                let failures = setbacks.record(step.tally, of: operation.id)
                operation = step.operation
                notifier.operatorChanges.operationMoved(operation.id, of: operation.organization)
                if step.isLast { return try await end(operation, as: .done) }
                if failures >= Self.maxConsecutiveFailures {
                    let reason = "stopped: \(failures) consecutive mutations could not be settled"
                    return try await end(operation, as: .failed, because: reason)
                }
                let seconds = Double((ContinuousClock.now - began).nanoseconds) / 1e9
                await rest(pace.pause(after: Int(step.tally.done), in: seconds))
            } catch {
                if await hasGivenUp(operation, after: error) { return }
                logger.warning(
                    "Operation was interrupted and will be resumed",
                    metadata: metadata(operation, ["code": "\(error.code.rawValue)"])
                )
                return await release(operation, until: now().adding(seconds: Self.pause))
            }
        }
        await release(operation, until: now())
    }

    /// Counts a failed step, and ends the operation after too many failed steps. A step that failed because the
    /// database is unavailable is not counted.
    private func hasGivenUp(_ operation: OperationRow, after problem: Problem) async -> Bool {
        guard problem.code != .storeUnavailable else { return false }
        let failures = setbacks.recordFailure(of: operation.id)
        guard failures >= Self.maxConsecutiveFailures else { return false }
        let reason =
            "stopped: \(failures) consecutive failures, the last with \(problem.code.rawValue): \(problem.detail)"
        return (try? await end(operation, as: .failed, because: reason)) != nil
    }

    // MARK: - Steps

    private struct Step {
        let operation: OperationRow
        let tally: OperationTally
        let isLast: Bool
    }

    /// Processes one step. Returns nil if another gateway has claimed the operation, or if the operation has ended.
    private func step(_ operation: OperationRow, limit: Int) async throws(Problem) -> Step? {
        guard let organization = try await catalog.organization(operation.organization) else { return nil }
        let found: [FailureQuery.Place]
        let edge: FailureQuery.Place?
        do {
            let looks = FailureQuery(operation.filter, ids: operation.ids, of: operation.organization)
                .oldest(behind: operation.place, until: operation.createdAt, limit: limit)
            let held = Query(OperationStatements.held, operation.lease)
            let results = try await pool.readByIndex([held] + looks)
            guard results[0].count > 0 else { return nil }
            found = try results[1].read(FailureQuery.Place.init)
            edge = try results[2].read(FailureQuery.Place.init).first
        } catch {
            throw failure.problem(error, doing: "look for an operation's mutations")
        }
        var tally = OperationTally()
        for (user, places) in Dictionary(grouping: found, by: \.user).sorted(by: { $0.key < $1.key }) {
            tally.add(try await settle(places, of: user, in: organization, operation))
        }
        // a full page ends at its last mutation; a page that is not full ends at the last mutation that was read (the
        // edge), or is the last page if there is no edge
        let place = found.count == limit ? found.last : edge
        guard let next = try await advance(operation, tally, to: place ?? found.last ?? operation.place) else {
            return nil
        }
        return Step(operation: next, tally: tally, isLast: place == nil)
    }

    /// Evaluates the channels of some entities of a type. Returns nil if another gateway has claimed the operation, or
    /// if the operation has ended.
    private func evaluate(_ operation: OperationRow) async throws(Problem) -> Step? {
        let most = min(ChannelEvaluation.limit, max(1, Int(operation.perSecond)))
        let isHeld = try await failure.reporting("continue an operation") {
            try await pool.run([Query(OperationStatements.held, operation.lease)])[0].count > 0
        }
        guard isHeld, let type = operation.filter.entityType else { return nil }
        let step = try await evaluation.step(
            of: type,
            in: operation.organization,
            after: operation.entityPlace ?? "",
            limit: setbacks.limit(of: operation.id, atMost: most)
        )
        var tally = OperationTally()
        tally.done = Int64(step?.examined ?? 0) - Int64(step?.unreadable ?? 0)
        tally.skip(.validationFailed, Int64(step?.unreadable ?? 0))
        let moment = now()
        var parameters = operation.lease
        parameters.add(tally.done)
        parameters.add(tally.skipped)
        parameters.add(
            PostgresJSON(OperationTally.json(of: operation.reasons.merging(tally.reasons, uniquingKeysWith: +)))
        )
        parameters.add(step?.next ?? operation.entityPlace)
        parameters.add(moment.adding(seconds: Self.leaseSeconds))
        parameters.add(moment)
        let query = Query(OperationStatements.advanceEntities, parameters)
        let next = try await failure.reporting("record the progress of an operation") {
            try await pool.run([query])[0].read(OperationRow.init).first
        }
        return next.map { Step(operation: $0, tally: tally, isLast: step?.next == nil) }
    }

    /// Settles the mutations of one lane. If settling fails, these mutations count as failed, and the step continues
    /// with the other lanes. But if the database is unavailable, or if the lane takes too long, the step ends and is
    /// repeated with fewer mutations.
    private func settle(
        _ places: [FailureQuery.Place],
        of user: UUID,
        in organization: Organization,
        _ operation: OperationRow
    ) async throws(Problem) -> OperationTally {
        let lane = LaneKey(organization: organization.id, user: user)
        let moment = now()
        do throws(Problem) {
            return try await settling.operate(
                operation.kind,
                on: OperationDisplay(
                    organization: organization.id,
                    operation: operation.id,
                    lease: operation.token,
                    found: places
                ),
                of: lane,
                in: organization,
                dependants: operation.dependants,
                strategy: operation.strategy
            ) { count in
                OperationStatements.count(
                    organization: operation.organization,
                    id: operation.id,
                    count: Int64(count),
                    now: moment
                )
            }
        } catch {
            let isTooMuch = [.overloaded, .payloadTooLarge].contains(error.code)
            if error.code == .storeUnavailable || isTooMuch && !setbacks.leavesMutation(of: operation.id) {
                throw error
            }
            logger.warning(
                "An operation failed for mutations of a user",
                metadata: metadata(operation, ["user": "\(user.lowercased)", "code": "\(error.code.rawValue)"])
            )
            var tally = OperationTally()
            tally.fail(error.code, Int64(places.count))
            return tally
        }
    }

    private func advance(
        _ operation: OperationRow,
        _ tally: OperationTally,
        to place: FailureQuery.Place?
    ) async throws(Problem) -> OperationRow? {
        let moment = now()
        var parameters = operation.lease
        parameters.add(tally.skipped)
        parameters.add(tally.failed)
        parameters.add(
            PostgresJSON(OperationTally.json(of: operation.reasons.merging(tally.reasons, uniquingKeysWith: +)))
        )
        parameters.add(place?.at)
        parameters.add(place?.user)
        parameters.add(place?.id)
        parameters.add(moment.adding(seconds: Self.leaseSeconds))
        parameters.add(moment)
        return try await failure.reporting("record the progress of an operation") {
            try await pool.run([Query(OperationStatements.advance, parameters)])[0].read(OperationRow.init).first
        }
    }

    private func end(
        _ operation: OperationRow,
        as state: OperationState,
        because reason: String? = nil
    ) async throws(Problem) {
        var parameters = operation.lease
        parameters.add(state.rawValue)
        parameters.add(reason)
        parameters.add(now())
        let ended = try await failure.reporting("end an operation") {
            try await pool.run([Query(OperationStatements.end, parameters)])[0].read(OperationRow.init).first
        }
        setbacks.remove(operation.id)
        guard let ended else { return }
        metrics.ended(ended.kind, state)
        notifier.operatorChanges.operationMoved(ended.id, of: ended.organization)
        logger.log(
            level: state == .done ? .notice : .error,
            state == .done ? "Operation completed" : "Operation failed",
            metadata: metadata(ended, reason.map { ["reason": "\($0)"] } ?? [:])
        )
    }

    /// Releases the lease. If this fails, the lease expires later.
    private func release(_ operation: OperationRow, until moment: Timestamp) async {
        var parameters = operation.lease
        parameters.add(moment)
        do {
            _ = try await pool.run([Query(OperationStatements.release, parameters)])
        } catch {
            logger.debug("An operation's lease was not released", metadata: ["error": "\(error)"])
        }
    }

    private func metadata(_ operation: OperationRow, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
        more.merging(
            [
                "organization": "\(operation.organization.lowercased)", "operation": "\(operation.id.lowercased)",
                "kind": "\(operation.kind.rawValue)", "actor": "\(operation.actor)", "done": "\(operation.tally.done)",
                "skipped": "\(operation.tally.skipped)", "failed": "\(operation.tally.failed)",
            ]
        ) { $1 }
    }
}
