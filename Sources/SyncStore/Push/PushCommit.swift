public import Foundation
public import ServiceLifecycle
public import SyncModel

/// Takes pushes in and commits them in groups.
public final class PushCommit: Service {
    private let committers: Committers<PushWork>
    private let settledness: Settledness

    init(committers: Committers<PushWork>, settledness: Settledness) {
        self.committers = committers
        self.settledness = settledness
    }

    /// Commits a push, together with others.
    ///
    /// The answer comes once the commit is durable. A push that is abandoned by its client is committed all the same.
    ///
    /// - Parameter traceparent: W3C trace context of the request; goes on to the upstream.
    /// - Throws: the problem that refuses the whole push; `overloaded` and `store_unavailable` with `retryAfter`.
    public func submit(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool,
        traceparent: String? = nil
    ) async throws(Problem) -> PushAnswer {
        var answer = try await committers.submit(to: organization.id) { reply in
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
        answer.stuck = try await settledness.stuck(among: answer.verdicts, organization: organization.id, user: user)
        return answer
    }

    /// Runs the committers until graceful shutdown; what is queued by then is finished.
    public func run() async throws {
        try await committers.run()
    }

    /// Pushes that wait for a committer, for metrics.
    public var waiting: Int { committers.waiting }
}
