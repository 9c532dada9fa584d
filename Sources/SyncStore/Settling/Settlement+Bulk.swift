package import FoundationEssentials
package import Postgres
package import SyncModel

/// Settles mutations of all users of an organization, lane by lane.
///
/// Each transaction settles a limited number of mutations. If a call ends early, the mutations settled so far remain
/// settled, and the call can be repeated.
extension Settlement {
    /// Retries all mutations of the request that can be retried.
    package func retry(_ request: BulkRequest, organization: Organization) async throws(Problem) -> BulkOutcome {
        try await settle(request, organization.id, isReversed: false) { lane, ids throws(Problem) in
            var count = 0
            for part in try await parts(of: ids, in: lane) { count += try await retry(part, of: lane, request) }
            return count
        }
    }

    private func retry(_ ids: [UUID], of lane: LaneKey, _ request: BulkRequest) async throws(Problem) -> Int {
        let plan = try await commit(lane, ids, "retry mutations") { reader, _, subjects, plan in
            var graph: DependencyGraph?
            for subject in subjects where request.statuses.contains(subject.record.status) {
                let knowledge = try await knowledge(about: subject, ContentEdit(), reader)
                do {
                    let planner = try RestartPlanner.retry(subject, RetryRequest(), knowledge)
                    try await add(planner, reader, &graph, to: &plan)
                } catch is Problem {
                    // a person must decide on a mutation that cannot be retried unchanged
                    continue
                }
            }
            return []
        }
        return plan?.restarts.count ?? 0
    }

    /// Discards all mutations of the request that can be discarded.
    ///
    /// A mutation with dependants is discarded only if the request specifies how to treat the dependants.
    ///
    /// Each lane is processed from its end, so that dependants within the request are discarded before their
    /// dependencies.
    package func discard(_ request: BulkRequest, organization: Organization) async throws(Problem) -> BulkOutcome {
        try await settle(request, organization.id, isReversed: true) { lane, ids throws(Problem) in
            if request.dependants == nil {
                return try await discardUnneeded(ids, lane) { _, found in
                    found.filter { request.statuses.contains($0.record.status) }
                }
            }
            return try await discard(ids, request.dependants, lane) { found in
                found.filter { request.statuses.contains($0.record.status) }
            }.count
        }
    }

    /// Discards the given mutations, except mutations on which a remaining mutation depends.
    ///
    /// - Parameters:
    ///   - choose: selects from the found mutations. It is called under the lane's lock.
    ///   - forgetting: returns further queries about the discarded mutations.
    package func discardUnneeded(
        _ ids: [UUID],
        _ lane: LaneKey,
        _ choose: (SettleReader, [SettleSubject]) async throws -> [SettleSubject],
        forgetting: ([UUID]) -> [Query] = { _ in [] }
    ) async throws(Problem) -> Int {
        var count = 0
        while true {
            let plan = try await commit(lane, ids, "discard mutations", hasContents: false) {
                reader,
                state,
                found,
                plan in
                var meant = try await choose(reader, found)
                let graph = try await reader.graph(state, excluding: meant.count)
                // all direct and indirect dependencies of a remaining mutation also remain
                let unneeded = graph.unneeded(among: Set(meant.map(\.record.id)))
                meant.removeAll { !unneeded.contains($0.record.id) }
                guard !meant.isEmpty else { return [] }
                let planner = try DiscardPlanner(meant, graph: graph, choice: nil, limit: Self.batch)
                try await publish(planner, DiscardPlanner.Knowledge(), reader, &plan)
                return forgetting(plan.discards.map(\.node.id))
            }
            count += plan?.discards.count ?? 0
            if plan?.isComplete ?? true { return count }
        }
    }

    private func settle(
        _ request: BulkRequest,
        _ organization: UUID,
        isReversed: Bool,
        _ work: (LaneKey, [UUID]) async throws(Problem) -> Int
    ) async throws(Problem) -> BulkOutcome {
        let candidates = SettleCandidates(
            pool: pool,
            organization: organization,
            request: request,
            isReversed: isReversed
        )
        var outcome = BulkOutcome()
        var place: SettleCandidates.Place?
        repeat {
            let page: SettleCandidates.Page
            do {
                page = try await candidates.page(after: place)
            } catch {
                throw failure.problem(error, doing: "look for mutations to settle")
            }
            for (user, ids) in page.lanes {
                outcome.matched += ids.count
                outcome.settled += try await work(LaneKey(organization: organization, user: user), ids)
            }
            place = page.next
        } while place != nil
        return outcome
    }
}

/// The result of a bulk call.
package struct BulkOutcome: Sendable {
    /// The number of mutations that matched the request when they were searched.
    package var matched = 0
    /// The number of mutations that were settled.
    ///
    /// The number is lower than `matched` if some mutations could not be settled, and higher if dependants were
    /// discarded too.
    package var settled = 0
}

/// The result of a discard.
package struct DiscardedMutation: Sendable {
    /// The mutation after the discard.
    package let mutation: MutationDetail
    /// The ids of all mutations that this call discarded.
    ///
    /// The ids include the dependants, and the mutation itself unless it was discarded before.
    package let ids: [UUID]
}

/// A condition that mutations must still meet once their lane is locked.
package protocol SettlementGuard: Sendable {
    /// Returns a query for the ids of the mutations that meet the condition.
    ///
    /// - Parameter user: the user whose lane is locked.
    func query(of user: UUID) -> Query
}
