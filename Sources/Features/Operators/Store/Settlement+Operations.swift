import FoundationEssentials
package import Postgres
package import SyncModel
import SyncStore

/// Settles mutations of one lane for an operation, and returns the numbers of settled and skipped mutations.
extension Settlement {
    /// - Parameters:
    ///   - screen: selects the lane's mutations that the operation found and still covers.
    ///   - note: a query that records the number of settled mutations. It runs in the transaction that settles them, so
    ///     that the count is exact even if the gateway is lost.
    /// - Throws: a problem that prevents all mutations from being settled at present, such as an unavailable database.
    package func operate(
        _ kind: OperationKind,
        on screen: OperationDisplay,
        of lane: LaneKey,
        in organization: Organization,
        dependants: DependantsChoice?,
        strategy: ResolveRequest.Strategy?,
        noting note: @Sendable @escaping (Int) -> Query
    ) async throws(Problem) -> OperationTally {
        var settlement = self
        settlement.screen = screen
        let ids = screen.found.map(\.id)
        return switch kind {
        case .retry: try await settlement.retry(inParts: ids, of: lane, note)
        case .discard: try await settlement.discard(ids, of: lane, dependants, note)
        case .resolve:
            try await settlement.resolve(ids, of: lane, in: organization, strategy ?? .serverWins, note)
        // an evaluation covers entities, not mutations
        case .evaluate: OperationTally()
        }
    }

    private func retry(
        inParts ids: [UUID],
        of lane: LaneKey,
        _ note: @Sendable (Int) -> Query
    ) async throws(Problem) -> OperationTally {
        let parts = try await parts(of: ids, in: lane)
        var tally = OperationTally()
        for part in parts { tally.add(try await retry(part, of: lane, note)) }
        // the mutations that were not found no longer exist
        tally.skip(.statusTransitionMustBeValid, Int64(ids.count - parts.reduce(0) { $0 + $1.count }))
        return tally
    }

    private func retry(
        _ ids: [UUID],
        of lane: LaneKey,
        _ note: @Sendable (Int) -> Query
    ) async throws(Problem) -> OperationTally {
        var tally = OperationTally()
        try await commit(lane, ids, "retry mutations") { reader, _, subjects, plan in
            // the count starts again, because the transaction may be retried
            tally = OperationTally()
            var graph: DependencyGraph?
            for subject in subjects {
                guard subject.record.status.isForAPerson else { continue }
                let knowledge = try await knowledge(about: subject, ContentEdit(), reader)
                do throws(Problem) {
                    let planner = try RestartPlanner.retry(subject, RetryRequest(), knowledge)
                    if !planner.addedDependencies.isEmpty {
                        graph = try await dependencies(knowing: graph, plan.lane, reader)
                        try planner.checkCycles(graph ?? DependencyGraph([]))
                    }
                    plan.add(planner.restart)
                    tally.done += 1
                } catch {
                    if error.code.status >= 500 { throw error }
                    tally.skip(error.code)
                }
            }
            return tally.done > 0 ? [note(Int(tally.done))] : []
        }
        tally.skip(.statusTransitionMustBeValid, Int64(ids.count) - tally.done - tally.skipped)
        return tally
    }

    /// Returns the lane's dependencies. The transaction reads them for the first mutation that needs them, and reuses
    /// them for the mutations after it.
    private func dependencies(
        knowing known: DependencyGraph?,
        _ lane: LaneState,
        _ reader: SettleReader
    ) async throws(Problem) -> DependencyGraph {
        if let known { return known }
        do {
            return try await reader.graph(lane, excluding: 1)
        } catch {
            throw failure.problem(error, doing: "read a lane's dependencies")
        }
    }

    private func discard(
        _ ids: [UUID],
        of lane: LaneKey,
        _ dependants: DependantsChoice?,
        _ note: @Sendable (Int) -> Query
    ) async throws(Problem) -> OperationTally {
        var tally = OperationTally()
        let wanted = Set(ids)
        @Sendable func own(_ discarded: [UUID]) -> Int { wanted.intersection(discarded).count }
        if let dependants {
            let discarded = try await discard(ids, dependants, lane) { found in
                found.filter { $0.record.status.isForAPerson }
            } recording: { discarded in
                [note(own(discarded))]
            }
            tally.done = Int64(own(discarded))
            tally.skip(.statusTransitionMustBeValid, Int64(ids.count) - tally.done)
        } else {
            let count = try await discardUnneeded(ids, lane) { _, found in
                found.filter { $0.record.status.isForAPerson }
            } forgetting: { discarded in
                [note(discarded.count)]
            }
            tally.done = Int64(count)
            // the remaining mutations have dependants, or are already settled
            tally.skip(.validationFailed, Int64(ids.count) - tally.done)
        }
        return tally
    }

    /// Resolves each mutation in a separate transaction, which locks the mutation's entity.
    private func resolve(
        _ ids: [UUID],
        of lane: LaneKey,
        in organization: Organization,
        _ strategy: ResolveRequest.Strategy,
        _ note: @Sendable (Int) -> Query
    ) async throws(Problem) -> OperationTally {
        var tally = OperationTally()
        let request = ResolveRequest(strategy)
        for id in ids {
            do throws(Problem) {
                let found = try await resolve(
                    id,
                    request,
                    organization: organization,
                    user: lane.user,
                    recording: [note(1)]
                )
                if found == nil { tally.skip(.notFound) } else { tally.done += 1 }
            } catch {
                // a problem of one mutation does not affect the other mutations
                if error.code.status >= 500 { throw error }
                tally.skip(error.code)
            }
        }
        return tally
    }
}
