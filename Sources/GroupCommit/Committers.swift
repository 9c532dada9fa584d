package import Postgres
import ServiceLifecycle
package import SyncModel

/// Accepts jobs and commits them in groups.
///
/// While a committer is busy, arriving jobs are queued. When the committer is free, it takes the waiting jobs. An idle
/// committer adds no latency, because it starts immediately and not by a timer.
///
/// Jobs of an organization always go to the same committer, so that two groups of one process never wait for each
/// other. All organizations of a partition share a committer, because the first row that a statement writes to a
/// partition costs more than the next ten rows. Heavy jobs, which change much data, go to a separate committer on a
/// separate thread. While this committer commits a job of an organization, no other job of the organization is
/// committed.
package final class Committers<Work: GroupTransaction>: Service {
    private let queue: GroupQueue<Work.Job>
    private let committers: [Committer<Work>]
    private let timeout: Duration

    /// - Parameters:
    ///   - count: the number of committers of light jobs; each has its own connection.
    ///   - hasHeavyWorker: whether one more committer commits heavy jobs.
    ///   - limits: the limits of a group.
    ///   - timeout: the time after which a job that is queued or waits for the database is answered
    ///     `store_unavailable`.
    package init(
        _ count: Int,
        doing work: Work,
        hasHeavyWorker: Bool = false,
        limits: GroupLimits = GroupLimits(),
        database: CommitterDatabase,
        metrics: CommitMetrics,
        timeout: Duration
    ) {
        let routes = database.routes
        let workers = max(1, count)
        let queue = GroupQueue<Work.Job>(workers: workers, hasHeavyWorker: hasHeavyWorker, limits: limits)
        self.queue = queue
        self.timeout = timeout
        committers = (0..<(hasHeavyWorker ? workers + 1 : workers)).map { worker in
            Committer(
                work: work,
                queue: queue,
                worker: worker,
                connection: CommitterConnection(
                    database.connection,
                    isInPlace: worker < workers,
                    onFallback: routes?.onFallback
                ),
                metrics: metrics,
                routes: routes,
                probe: database.probe
            )
        }
    }

    /// Commits a job together with other jobs, and returns the job's answer.
    ///
    /// - Parameter place: the partition or shard of the job's organization. All jobs of the partition or shard go to
    ///   one committer.
    package func submit<Value: Sendable>(
        at place: Placement,
        _ job: (JobCompletion<Value>) -> Work.Job
    ) async throws(Problem) -> Value {
        let result = await withCheckedContinuation { continuation in
            let reply = JobCompletion<Value>(continuation)
            submit(job(reply), at: place, reply)
        }
        return try result.get()
    }

    /// Queues a job, which is committed together with other jobs. Does not wait for the answer.
    package func submit<Value: Sendable>(_ job: Work.Job, at place: Placement, _ reply: JobCompletion<Value>) {
        guard !queue.add(job, at: place) else { return }
        reply.send(.failure(Problem.overloaded("too many writes are waiting")))
    }

    /// Runs the committers until graceful shutdown. Jobs that were queued before the shutdown are still committed.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            for committer in committers {
                guard committer.worker == queue.workers else {
                    let thread = ThreadExecutor("desk")
                    group.addTask {
                        await withTaskExecutorPreference(thread) { await committer.run() }
                        thread.end()
                    }
                    continue
                }
                group.addTask(executorPreference: BackgroundExecutor.executor) { await committer.run() }
            }
            group.addTask {
                // while the database does not respond, this task answers jobs in time
                await withTaskCancellationOrGracefulShutdownHandler {
                    while !Task.isCancelled, !Task.isShuttingDownGracefully {
                        for committer in self.committers {
                            committer.expire(after: self.timeout)
                            committer.probeIfDue(at: .now)
                        }
                        try? await Task.sleep(for: .milliseconds(250))
                    }
                } onCancelOrGracefulShutdown: {
                    self.queue.close()
                }
                self.queue.close()
            }
        }
    }

    /// The reason why a committer cannot write; nil while all committers can write.
    package var writeFailure: PostgresError? {
        let now = ContinuousClock.now
        return committers.lazy.compactMap { $0.writeFailure(at: now) }.first
    }

    /// The number of waiting jobs, for metrics.
    package var waiting: Int { queue.count }
}

/// The database of committers.
package struct CommitterDatabase: Sendable {
    package let connection: ConnectionConfiguration
    /// The routing of groups if the database has several servers.
    package let routes: ShardRouting?
    /// A write of one row, which idle committers use to test whether they can write; empty if they must not send such
    /// probes.
    package let probe: [Query]

    package init(_ connection: ConnectionConfiguration, routes: ShardRouting?, probe: [Query]) {
        self.connection = connection
        self.routes = routes
        self.probe = probe
    }
}
