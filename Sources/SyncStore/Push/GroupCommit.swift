public import Foundation
import Logging
import Metrics
import Postgres
public import ServiceLifecycle
public import SyncModel

/// Takes pushes in and commits them in groups: while a committer is busy, arrivals queue; when it is free it takes what
/// is there. No timer, so no added latency when idle.
///
/// An organization always goes to the same committer, so two groups of one process never wait for each other; and so do
/// all of a partition, for the first row that a statement writes to a partition costs more than the next ten.
public final class GroupCommit: Service {
    /// How long a push may wait, queued or for the database, before it is answered that the store is unavailable: the
    /// contract promises an answer within five seconds.
    static let patience: Duration = .milliseconds(4_500)

    private let committers: [Committer]
    private let catalog: Catalog
    private let settledness: Settledness
    private let failure: StoreFailure

    init(committers: [Committer], catalog: Catalog, settledness: Settledness, failure: StoreFailure) {
        self.committers = committers
        self.catalog = catalog
        self.settledness = settledness
        self.failure = failure
    }

    /// Commits a push, together with others.
    ///
    /// The answer comes once the commit is durable. A push that is abandoned by its client is committed all the same.
    ///
    /// - Throws: the problem that refuses the whole push; `overloaded` and `store_unavailable` with `retryAfter`.
    public func submit(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool
    ) async throws(Problem) -> PushAnswer {
        let committer = committers[try await catalog.entry(organization.id).partition % committers.count]
        let result = await withCheckedContinuation { continuation in
            let job = PushJob(
                push: push,
                organization: organization,
                user: user,
                isStrict: isStrict,
                enqueuedAt: .now,
                reply: PushReply(continuation)
            )
            if !committer.queue.add(job) {
                job.reply.send(.failure(StoreFailure.overloaded("too many pushes are waiting")))
            }
        }
        var answer = try result.get()
        answer.stuck = try await settledness.stuck(among: answer.verdicts, organization: organization.id, user: user)
        return answer
    }

    /// Runs the committers until graceful shutdown; what is queued by then is finished.
    public func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            for committer in committers {
                group.addTask { await committer.run() }
            }
            group.addTask {
                // jobs that a stuck database keeps waiting get their answer in time
                await withTaskCancellationOrGracefulShutdownHandler {
                    while !Task.isCancelled, !Task.isShuttingDownGracefully {
                        for committer in self.committers { committer.expire(after: Self.patience) }
                        try? await Task.sleep(for: .milliseconds(250))
                    }
                } onCancelOrGracefulShutdown: {
                    for committer in self.committers { committer.queue.close() }
                }
                for committer in self.committers { committer.queue.close() }
            }
        }
    }

    /// Pushes that wait in all queues, for metrics.
    public var waiting: Int { committers.reduce(0) { $0 + $1.queue.count } }
}
