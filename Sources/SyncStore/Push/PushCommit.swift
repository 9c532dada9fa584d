package import Foundation
import GroupCommit
import ServiceLifecycle
package import SyncModel

/// Accepts pushes and commits them in groups.
package final class PushCommit: Service {
    private let committers: Committers<PushWork>
    private let catalog: Catalog
    private let stuckMutations: StuckMutations
    private let holds: HoldReader

    init(
        committers: Committers<PushWork>,
        catalog: Catalog,
        stuckMutations: StuckMutations,
        holds: HoldReader
    ) {
        self.committers = committers
        self.catalog = catalog
        self.stuckMutations = stuckMutations
        self.holds = holds
    }

    /// Commits a push, together with others.
    ///
    /// The answer comes once the commit is durable. A push whose client went away is committed all the same.
    ///
    /// - Parameter traceparent: W3C trace context of the request; goes on to the upstream.
    /// - Throws: the problem that refuses the whole push; `overloaded` and `store_unavailable` with `retryAfter`.
    package func submit(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool,
        traceparent: String? = nil
    ) async throws(Problem) -> PushAnswer {
        let partition = try await catalog.entry(organization.id).partition
        var answer = try await committers.submit(ofPartition: partition) { reply in
            PushJob(
                push: push,
                organization: organization,
                user: user,
                isStrict: isStrict,
                traceparent: traceparent,
                enqueuedAt: .now,
                reply: reply
            )
        }
        // committed: no error from here on may replace the answer
        answer.stuck = await stuckMutations.stuck(among: answer.verdicts, organization: organization.id, user: user)
        answer.hold = await holds.hold(of: LaneKey(organization: organization.id, user: user), as: answer.lane)
        return answer
    }

    /// Runs the committers until graceful shutdown; pushes queued by then are finished.
    package func run() async throws {
        try await committers.run()
    }

    /// Pushes that wait for a committer, for metrics.
    package var waiting: Int { committers.waiting }
}
