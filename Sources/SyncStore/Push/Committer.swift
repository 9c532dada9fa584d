import Foundation
import Logging
import Postgres
import SyncModel
import Synchronization

/// Commits one group after another on a connection of its own. One group is two round trips: lock and read everything
/// that the group needs; decide; write everything and commit.
final class Committer: Sendable {
    /// Tries of one group at serialization failures, deadlocks, lock time-outs and races.
    static let attempts = 6

    let queue: PushQueue
    private let connection: CommitterConnection
    private let catalog: Catalog
    private let hints = WatermarkHints()
    private let ids = UUIDv7Generator()
    private let now: TimeSource
    private let failure: StoreFailure
    private let metrics: CommitMetrics
    private let logger: Logger
    /// The group that is being committed.
    private let inHand = Mutex([PushJob]())

    init(
        queue: PushQueue,
        connection: CommitterConnection,
        catalog: Catalog,
        now: @escaping TimeSource,
        failure: StoreFailure,
        metrics: CommitMetrics,
        logger: Logger
    ) {
        self.queue = queue
        self.connection = connection
        self.catalog = catalog
        self.now = now
        self.failure = failure
        self.metrics = metrics
        self.logger = logger
    }

    /// Runs until the queue is closed and empty.
    func run() async {
        while let group = await queue.next() {
            let start = ContinuousClock.now
            inHand.withLock { $0 = group }
            await commit(group)
            inHand.withLock { $0 = [] }
            metrics.group(pushes: group.count, mutations: group.reduce(0) { $0 + $1.weight }, took: .now - start)
        }
        connection.close()
    }

    /// Answers what has waited too long, in the queue or for a database that does not answer.
    func expire(after age: Duration) {
        let now = ContinuousClock.now
        let late = inHand.withLock { $0.filter { now - $0.enqueuedAt >= age } } + queue.expired(age, now: now)
        for job in late { job.reply.send(.failure(StoreFailure.unavailable)) }
    }

    // MARK: - One group

    /// What is to be done about a group that was not committed.
    private enum Setback: Error {
        /// Try again, this time looking up everything.
        case readAgain
        /// Try again after a little while.
        case contended(PostgresError)
        /// The types that the plan was made with are out of date.
        case staleTypes
        /// The database refuses something in it.
        case refused(PostgresError)
        case unavailable(PostgresError)
    }

    private func commit(_ group: [PushJob]) async {
        var probesAll = false
        var last: PostgresError?
        for attempt in 1...Self.attempts {
            // nobody waits for it any more, and others wait behind it
            if attempt > 1, group.allSatisfy(\.reply.isSent) { return }
            do {
                return try await tryOnce(group, probesAll: probesAll)
            } catch Setback.readAgain {
                metrics.retry("read_again")
                probesAll = true
            } catch Setback.staleTypes {
                metrics.retry("stale_types")
                for job in group { catalog.invalidate(job.organization.id) }
            } catch Setback.contended(let error) {
                metrics.retry("contended")
                last = error
                try? await Task.sleep(for: .milliseconds(Int.random(in: 1...10) * attempt))
            } catch Setback.refused(let error) {
                return await bisect(group, error)
            } catch Setback.unavailable(let error) {
                // a connection that was cut while idle is the usual case after a restart: one more try on a new one
                metrics.retry("connection")
                if attempt > 1 { return fail(group, error) }
                last = error
            } catch {
                return fail(group, error)
            }
        }
        fail(group, last ?? PostgresError(.timedOut, "the group could not be committed"))
    }

    /// A group that the database refuses is halved until the culprit stands alone, so that it fails nobody else.
    private func bisect(_ group: [PushJob], _ error: PostgresError) async {
        guard group.count > 1 else { return fail(group, error) }
        metrics.retry("bisected")
        await commit(Array(group[..<(group.count / 2)]))
        await commit(Array(group[(group.count / 2)...]))
    }

    private func fail(_ group: [PushJob], _ error: any Error) {
        let problem = failure.problem(error, doing: "commit pushes")
        for job in group { job.reply.send(.failure(problem)) }
        // nobody behind gets another answer while the database is away: tell them now
        guard (error as? PostgresError)?.isUnavailable == true else { return }
        for job in queue.drain() { job.reply.send(.failure(problem)) }
    }

    private func tryOnce(_ group: [PushJob], probesAll: Bool) async throws {
        let moment = now()
        var contexts: [PushPlanner.Context] = []
        for job in group {
            let entry = try await catalog.entry(job.organization.id)
            contexts.append(
                PushPlanner.Context(
                    organization: job.organization,
                    types: entry.types,
                    user: job.user,
                    isStrict: job.isStrict,
                    now: moment,
                    makeID: { [ids] in ids.make(at: moment) }
                )
            )
        }
        let connection = try await connected()
        do {
            let reader = GroupReader(group, contexts: contexts, hints: probesAll ? nil : hints)
            var snapshot = try reader.snapshot(await connection.run(reader.queries))
            let comparisons = reader.comparisons(snapshot)
            if !comparisons.isEmpty {
                try reader.add(await connection.run(comparisons), to: &snapshot)
            }
            let plan = GroupPlan(group, contexts: contexts, snapshot: snapshot, isCertain: probesAll)
            if plan.needsProbe {
                _ = try await connection.run([.rollback])
                throw Setback.readAgain
            }
            let writer = GroupWriter(group, plan: plan, now: moment)
            let feeds = try writer.feeds(await connection.run(writer.queries))
            finish(group, plan, feeds)
        } catch let error as PostgresError {
            throw await setback(error, connection)
        }
    }

    private func connected() async throws -> Connection {
        do throws(PostgresError) {
            return try await connection.open()
        } catch {
            throw Setback.unavailable(error)
        }
    }

    /// Leaves the connection outside a transaction and says what to do.
    private func setback(_ error: PostgresError, _ connection: Connection) async -> Setback {
        if connection.isUsable {
            do { _ = try await connection.run([.rollback]) } catch { connection.close() }
        }
        if error.statement == GroupStatements.useTypes.name, error.sqlState == "23502" { return .staleTypes }
        if error.sqlState == "23505" { return .readAgain }
        if error.isRetryable { return .contended(error) }
        if error.isUnavailable { return .unavailable(error) }
        return .refused(error)
    }

    private func finish(_ group: [PushJob], _ plan: GroupPlan, _ feeds: [UUID: FeedCursor]) {
        for (index, job) in group.enumerated() {
            switch plan.outcomes[index] {
            case .failure(let problem): job.reply.send(.failure(problem))
            case .success(let planned):
                let device = WatermarkHints.Device(lane: job.lane, device: job.push.deviceID)
                hints.note(planned.acceptedSequence, of: device)
                if !planned.typesToRegister.isEmpty {
                    catalog.markInUse(planned.typesToRegister, in: job.organization.id)
                }
                let answer = PushAnswer(
                    acceptedSequence: planned.acceptedSequence,
                    feed: feeds[job.organization.id]?.text ?? "",
                    push: job.push,
                    verdicts: planned.verdicts,
                    mappings: planned.touchedMappings
                )
                job.reply.send(.success(answer))
            }
        }
    }
}
