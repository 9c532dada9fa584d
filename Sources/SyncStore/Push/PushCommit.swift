package import Foundation
import GroupCommit
import Postgres
import ServiceLifecycle
package import SyncModel

/// Accepts pushes and commits them in groups.
package final class PushCommit: Service {
    private let committers: Committers<PushWork>
    private let catalog: Catalog
    private let stuckMutations: FailureSearcher
    private let holds: LaneBlockerReader

    /// Why its committers cannot write; nil while they can.
    var writeFailure: PostgresError? { committers.writeFailure }

    init(
        committers: Committers<PushWork>,
        catalog: Catalog,
        stuckMutations: FailureSearcher,
        holds: LaneBlockerReader
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
    /// - Parameter traceparent: W3C trace context of the request; it is passed to the upstream.
    /// - Throws: the problem that refuses the whole push; `overloaded` and `store_unavailable` with `retryAfter`.
    package func submit(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool,
        traceparent: String? = nil
    ) async throws(Problem) -> PushAnswer {
        let place = try await catalog.entry(organization.id).place
        let answer = try await committers.submit(at: place) { reply in
            PushJob(
                push: push,
                organization: organization,
                user: user,
                isStrict: isStrict,
                traceparent: traceparent,
                reply: reply
            )
        }
        return await completed(answer, of: LaneKey(organization: organization.id, user: user))
    }

    /// Commits a push, together with others, without waiting for its answer.
    ///
    /// - Parameter receiver: takes the answer, on any thread; where it is not ``isComplete(_:)``, the rest comes from
    ///   ``completed(_:of:)``.
    /// - Returns: false where the cached organization is too old; then nothing has happened.
    package func submitAtOnce(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool,
        traceparent: String?,
        _ receiver: @escaping @Sendable (Result<PushAnswer, Problem>) -> Void
    ) -> Bool {
        guard let place = catalog.cachedEntry(organization.id)?.place else { return false }
        let reply = JobCompletion(to: receiver)
        let job = PushJob(
            push: push,
            organization: organization,
            user: user,
            isStrict: isStrict,
            traceparent: traceparent,
            reply: reply
        )
        committers.submit(job, at: place, reply)
        return true
    }

    /// Whether the answer to a committed push needs no further look-up, as is usual.
    package func isComplete(_ answer: PushAnswer) -> Bool {
        !answer.lane.mayBeHeld && !answer.verdicts.contains { $0.status == .blocked }
    }

    /// The answer to a committed push with the remaining look-ups.
    ///
    /// No error from here on may replace it.
    package func completed(_ answer: PushAnswer, of lane: LaneKey) async -> PushAnswer {
        var answer = answer
        answer.stuck = await stuckMutations.stuck(
            among: answer.verdicts,
            organization: lane.organization,
            user: lane.user
        )
        answer.blocker = await holds.blocker(of: lane, as: answer.lane)
        return answer
    }

    /// Runs the committers until graceful shutdown; pushes queued before are finished.
    package func run() async throws {
        try await committers.run()
    }

    /// Pushes that wait for a committer, for metrics.
    package var waiting: Int { committers.waiting }
}
