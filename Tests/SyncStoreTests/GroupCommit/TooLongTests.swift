import Foundation
import Logging
import Postgres
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import GroupCommit
@testable import SyncStore

/// Work that takes as long as its jobs specify, and records the attempted groups.
private struct Naps: GroupTransaction {
    struct Job: GroupJob {
        let lane: LaneKey
        var isTooMuch = false
        var isLocked = false
        /// Whether the group must be read again after its job has an answer. Such a job is heavy.
        var isEndless = false
        var enqueuedAt = ContinuousClock.now
        let reply: JobCompletion<Bool>

        var weight: Int { 1 }
        var bytes: Int { isEndless ? GroupLimits().lightBytes + 1 : 1 }
        var isAnswered: Bool { reply.isSent }
        func refuse(_ problem: Problem) { reply.send(.failure(problem)) }
    }

    final class Tries: Sendable {
        private let state = Mutex([[LaneKey]]())
        var all: [[LaneKey]] { state.withLock { $0 } }
        func add(_ lanes: [LaneKey]) { state.withLock { $0.append(lanes) } }
    }

    let tries = Tries()
    private let failure: StoreFailure = {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return StoreFailure(logger: logger)
    }()
    private static let nap = Statement("test_nap", "SELECT 1 FROM pg_sleep($1::text::float8)")

    func commit(_ group: [Job], on connection: Connection, _ context: RetryContext) async throws {
        tries.add(group.map(\.lane))
        if group.contains(where: \.isLocked) { throw PostgresError(.server(sqlState: "55P03"), "the lane is locked") }
        if let job = group.first(where: \.isEndless) {
            while !job.isAnswered { await Task.yield() }
            throw CommitFailure.readAgain
        }
        var parameters = Parameters()
        parameters.add(group.contains(where: \.isTooMuch) ? "300" : "0")
        _ = try await connection.run([Query(Self.nap, parameters)])
        for job in group { job.reply.send(.success(true)) }
    }

    func problem(_ error: any Error) -> Problem { failure.problem(error, doing: "nap") }
    func problem(_ error: PostgresError, ofLone job: Job) -> Problem {
        failure.problem(error, doing: "nap", count: 2, advice: "send fewer")
    }
    func isStale(_ error: PostgresError) -> Bool { false }
    func fetchMissingKeys(_ error: SealError) async throws { throw error }
    func invalidateCache(_ group: [Job]) {}
}

/// A slow job fails alone, and the database does not count as unavailable because of it.
@Suite struct TooLongTests {
    private static func lane() -> LaneKey { LaneKey(organization: UUID(), user: UUID()) }

    private func submit(
        _ lane: LaneKey,
        isTooMuch: Bool = false,
        isLocked: Bool = false,
        to committer: Committer<Naps>
    ) async -> ProblemCode? {
        let result = await withCheckedContinuation { continuation in
            let reply = JobCompletion<Bool>(continuation)
            let job = Naps.Job(lane: lane, isTooMuch: isTooMuch, isLocked: isLocked, reply: reply)
            if !committer.queue.add(job, at: .partition(0)) { reply.send(.failure(Problem.storeUnavailable)) }
        }
        if case .failure(let problem) = result { return problem.code }
        return nil
    }

    private func committer(_ database: TestDatabase, _ work: Naps, isHeavy: Bool = false) -> Committer<Naps> {
        Committer(
            work: work,
            queue: GroupQueue(workers: 1, hasHeavyWorker: isHeavy),
            worker: isHeavy ? 1 : 0,
            connection: CommitterConnection(
                ConnectionConfiguration(uri: database.uri, statementTimeout: .milliseconds(2_400))
            ),
            metrics: CommitMetrics(prefix: "test_group", jobs: "jobs")
        )
    }

    @Test func `a job that takes too long is refused alone and all others are committed`() async throws {
        let database = try await Gateway.migratedDatabase()
        let work = Naps()
        let committer = committer(database, work)
        let culprit = Self.lane()
        // jobs of other lanes, in the slow job's organization and in other organizations
        let others =
            (0..<3).map { _ in LaneKey(organization: culprit.organization, user: UUID()) }
            + (0..<30).map { _ in Self.lane() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { #expect(await submit(culprit, isTooMuch: true, to: committer) == .overloaded) }
            for lane in others { group.addTask { #expect(await submit(lane, to: committer) == nil) } }
            while committer.queue.count < 1 + others.count { await Task.yield() }
            let running = Task { await committer.run() }
            await group.waitForAll()
            // the job is committed once it is fast enough
            #expect(await submit(culprit, to: committer) == nil)
            committer.queue.close()
            await running.value
        }
        let tries = work.tries.all
        #expect(tries.first?.count == 1 + others.count)
        #expect(
            tries.filter { $0.contains(culprit) && $0.count > 1 }.count <= 7,
            "halved by organization: \(tries.map(\.count))"
        )
        #expect(tries.suffix(1) == [[culprit]])
    }

    @Test func `a job waits for a lock without delaying others`() async throws {
        let database = try await Gateway.migratedDatabase()
        let work = Naps()
        let committer = committer(database, work)
        let (culprit, other) = (Self.lane(), Self.lane())
        await withTaskGroup(of: Void.self) { group in
            group.addTask { #expect(await submit(culprit, isLocked: true, to: committer) == .overloaded) }
            group.addTask { #expect(await submit(other, to: committer) == nil) }
            while committer.queue.count < 2 { await Task.yield() }
            let running = Task { await committer.run() }
            await group.waitForAll()
            #expect(
                work.tries.all.count { $0 == [culprit] } == 1,
                "while another job of the group waits, a locked job is tried alone only once"
            )
            #expect(await submit(culprit, isLocked: true, to: committer) == .overloaded)
            committer.queue.close()
            await running.value
        }
        #expect(
            work.tries.all.count { $0 == [culprit] } == 1 + Committer<Naps>.attempts,
            "if no other job waits, a locked job is retried"
        )
    }

    @Test func `a job that waited too long for a lock fails as overloaded, not as an outage`() async throws {
        let database = try await Gateway.migratedDatabase()
        let work = Naps()
        let committer = committer(database, work)
        async let answer = submit(Self.lane(), isLocked: true, to: committer)
        let running = Task { await committer.run() }
        while work.tries.all.count < 2 { await Task.yield() }
        committer.expire(after: .zero)
        #expect(await answer == .overloaded)
        committer.queue.close()
        await running.value
    }

    /// Otherwise a client would repeat the same push without limit.
    @Test(arguments: [(6, ProblemCode.payloadTooLarge), (4, .storeUnavailable)])
    func `a heavy job that expires by its own work is refused as too large`(
        _ seconds: Int,
        _ code: ProblemCode
    ) async throws {
        let database = try await Gateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let work = Naps()
        let committer = committer(database, work, isHeavy: true)
        let running = Task { await committer.run() }
        let result = await withCheckedContinuation { continuation in
            let reply = JobCompletion<Bool>(continuation)
            var job = Naps.Job(lane: Self.lane(), isEndless: true, reply: reply)
            // the rest of the time was spent in the queue
            job.enqueuedAt = .now - .seconds(8 - seconds)
            #expect(committer.queue.add(job, at: .partition(0)))
            Task {
                while work.tries.all.isEmpty { await Task.yield() }
                committer.expire(after: .seconds(8), now: .now + .seconds(seconds))
            }
        }
        #expect(throws: Problem.self) { try result.get() }
        if case .failure(let problem) = result { #expect(problem.code == code) }
        committer.queue.close()
        await running.value
    }

    @Test(arguments: [
        ("08006", true), ("08P01", true), ("57P01", true), ("57P05", true), ("25P03", false), ("53100", true),
        ("58030", true), ("57014", false), ("55P03", false), ("23505", false), ("22001", false),
    ])
    func `classifies the server's error codes as outages or not`(_ sqlState: String, _ isOutage: Bool) {
        let error = PostgresError(.server(sqlState: sqlState), "")
        #expect(error.isUnavailable == isOutage)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let problem = StoreFailure(logger: logger).problem(error, doing: "test")
        #expect((problem.code == .storeUnavailable) == isOutage)
    }

    /// These errors do not depend on the request: a missing table, a missing privilege, damaged data, exhausted
    /// transaction ids.
    @Test(arguments: ["42P01", "42501", "XX001", "54000"])
    func `reports a database that rejects every statement as unavailable`(_ sqlState: String) {
        let error = PostgresError(.server(sqlState: sqlState), "")
        #expect(!error.isUnavailable)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        #expect(StoreFailure(logger: logger).problem(error, doing: "test").code == .storeUnavailable)
    }

    /// A session on a cluster receives these messages if its server stops.
    @Test func `a server's shutdown messages are outages, and other internal errors are not`() {
        let last = PostgresError(.server(sqlState: "XX000"), "postmaster was shut down, exiting")
        #expect(last.isUnavailable)
        #expect(!PostgresError(.server(sqlState: "XX000"), "could not find block").isUnavailable)
    }

    @Test func `a statement that took too long is no outage`() {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let failure = StoreFailure(logger: logger)
        #expect(failure.problem(PostgresError(.timedOut, ""), doing: "test") == StoreFailure.tooLong)
        #expect(StoreFailure.tooLong.code == .overloaded && StoreFailure.tooLong.retryAfter == 5)
        #expect(failure.problem(PostgresError(.unresponsive, ""), doing: "test").code == .storeUnavailable)
    }

    @Test func `several mutations that take too long together must be divided, and a single mutation is retried`() {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let failure = StoreFailure(logger: logger)
        func code(_ kind: PostgresError.Kind, count: Int) -> ProblemCode {
            failure.problem(PostgresError(kind, ""), doing: "test", count: count, advice: "send fewer").code
        }
        #expect(code(.timedOut, count: 2) == .payloadTooLarge && code(.timedOut, count: 1) == .overloaded)
        #expect(code(.unresponsive, count: 2) == .storeUnavailable)
        let idle = PostgresError.Kind.server(sqlState: "25P03")
        #expect(code(idle, count: 2) == .payloadTooLarge && code(idle, count: 1) == .overloaded)
        #expect(code(.server(sqlState: "55P03"), count: 2) == .overloaded)
    }

    @Test func `a gateway that receives only its own hints while others are registered is deaf`() async throws {
        let gateway = try await Gateway()
        let hints = gateway.store.notifier.hints
        #expect(try await eventually { hints.isReceiving })
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        #expect(
            try await eventually {
                try await connection.run(Query(Statement("test_gateways", "SELECT count(*) FROM gateways"))).read(
                    0,
                    0,
                    as: Int64.self
                )
                    == 1
            }
        )
        // a registered gateway whose notifications never arrive
        try await connection.execute(
            script: "INSERT INTO gateways VALUES (gen_random_uuid(), clock_timestamp() + interval '1 hour')"
        )
        #expect(try await eventually { !hints.isReceiving })
        try await connection.execute(script: "DELETE FROM gateways WHERE seen_at > now()")
        #expect(try await eventually { hints.isReceiving })
    }

    private func eventually(_ isSo: () async throws -> Bool) async throws -> Bool {
        let deadline = ContinuousClock.now + .seconds(60)
        while .now < deadline {
            if try await isSo() { return true }
            try await Task.sleep(for: .milliseconds(100))
        }
        return false
    }
}
