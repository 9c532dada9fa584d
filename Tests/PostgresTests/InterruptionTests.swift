import Postgres
import TestSupport
import Testing

@Suite struct InterruptionTests {
    /// Takes longer than any test waits, so a call that returns was ended.
    private static let sleep = query("SELECT pg_sleep(600)")
    private static let asleep = query(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    )
    /// Enough time for a busy machine, and far less than the sleep.
    private static let soon: Duration = .seconds(120)

    @Test func `cancelling the task cancels the statement, and the connection stays usable`() async throws {
        try await withConnection { connection, database in
            let watcher = try await database.connect()
            let start = ContinuousClock.now
            let task = Task { await failure { _ = try await connection.run(Self.sleep) } }
            #expect(try await sleepers(1, seenBy: watcher))
            task.cancel()
            #expect(await task.value?.kind == .cancelled)
            #expect(ContinuousClock.now - start < Self.soon)
            #expect(connection.isUsable)
            let answer: Int32 = try await connection.run(query("SELECT 1")).read(0, 0)
            #expect(answer == 1)
            let running: Int64 = try await watcher.run(Self.asleep).read(0, 0)
            #expect(running == 0)
        }
    }

    @Test func `a call from a cancelled task is not sent`() async throws {
        try await withConnection { connection, _ in
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await failure { _ = try await connection.run(query("CREATE TABLE unwanted ()")) }
            }
            #expect(await task.value?.kind == .cancelled)
            let isAbsent: Bool = try await connection.run(query("SELECT to_regclass('unwanted') IS NULL")).read(0, 0)
            #expect(isAbsent)
        }
    }

    @Test func `a call that waits for another one is cancelled immediately`() async throws {
        try await withConnection { connection, database in
            let watcher = try await database.connect()
            let first = Task { await failure { _ = try await connection.run(Self.sleep) } }
            #expect(try await sleepers(1, seenBy: watcher))
            let start = ContinuousClock.now
            for round in 0..<20 {
                let second = Task { await failure { _ = try await connection.run(query("SELECT 2")) } }
                try await Task.sleep(for: .microseconds(round * 500))
                second.cancel()
                #expect(await second.value?.kind == .cancelled)
            }
            #expect(ContinuousClock.now - start < Self.soon)
            first.cancel()
            #expect(await first.value?.kind == .cancelled)
        }
    }

    @Test func `a deadline cancels the statement, and the connection stays usable`() async throws {
        try await withConnection { connection, _ in
            let start = ContinuousClock.now
            let error = await failure { _ = try await connection.run(Self.sleep, timeout: .milliseconds(100)) }
            #expect(error?.kind == .timedOut)
            #expect(error?.isTooLong == true && error?.isUnavailable == false)
            #expect(ContinuousClock.now - start < Self.soon)
            let answer: Int32 = try await connection.run(query("SELECT 1")).read(0, 0)
            #expect(answer == 1)
        }
    }

    @Test func `the server's own time-out is reported as a time-out`() async throws {
        try await withConnection(settings: [("statement_timeout", "50ms")]) { connection, _ in
            let error = await failure { _ = try await connection.run(Self.sleep) }
            #expect(error?.kind == .timedOut)
            #expect(connection.isUsable)
        }
    }

    @Test func `cancelling in the middle of a pipeline never affects a later call`() async throws {
        try await withConnection { connection, _ in
            for round in 0..<100 {
                let task = Task { try await connection.run((0..<20).map { _ in query("SELECT 1") }) }
                try await Task.sleep(for: .microseconds(round * 20))
                task.cancel()
                _ = await task.result
                let answer: Int32 = try await connection.run(query("SELECT 2")).read(0, 0)
                #expect(answer == 2)
            }
        }
    }

    @Test func `a statement killed with its session reports why, and the connection is closed`() async throws {
        try await withConnection { connection, database in
            let watcher = try await database.connect()
            async let error = failure { _ = try await connection.run(Self.sleep) }
            let kill = query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
            )
            #expect(try await eventually { try await watcher.run(kill).count == 1 })
            let met = await error
            #expect(met?.isUnavailable == true)
            #expect(met?.sqlState == "57P01")
            #expect(await eventually { !connection.isUsable })
            let later = await failure { _ = try await connection.run(query("SELECT 1")) }
            #expect(later?.kind == .connectionLost)
        }
    }

    @Test func `an idle connection notices that the server has closed it`() async throws {
        try await withConnection { connection, database in
            let watcher = try await database.connect()
            let kill = query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
            _ = try await watcher.run(kill)
            #expect(await eventually { !connection.isUsable })
        }
    }

    /// Only the client was slow, so the database counts as available.
    @Test func `a session that ended because its transaction was idle reports that it took too long`() async throws {
        try await withConnection { connection, _ in
            _ = try await connection.run(query("SET idle_in_transaction_session_timeout = '10ms'"))
            _ = try await connection.run(query("BEGIN"))
            #expect(await eventually { !connection.isUsable })
            let later = await failure { _ = try await connection.run(query("COMMIT")) }
            #expect(later?.sqlState == "25P03")
            #expect(later?.isTooLong == true && later?.isUnavailable == false)
        }
    }

    @Test func `closes the connection if the server does not react to a cancellation for a second`() async throws {
        let cluster = try await TestCluster.dedicated()
        let connection = try await Connection.open(ConnectionConfiguration(uri: cluster.uri()))
        let pid: Int32 = try await connection.run(query("SELECT pg_backend_pid()")).read(0, 0)
        try await cluster.freeze(true)
        let start = ContinuousClock.now
        let error = await failure { _ = try await connection.run(Self.sleep, timeout: .milliseconds(100)) }
        #expect(error?.kind == .unresponsive)
        #expect(error?.isUnavailable == true && error?.isTooLong == false)
        #expect(ContinuousClock.now - start < Self.soon)
        #expect(!connection.isUsable)
        #expect(pid > 0)
        try await cluster.freeze(false)
        await cluster.close()
    }

    @Test func `close ends a call in progress`() async throws {
        try await withConnection { connection, database in
            let watcher = try await database.connect()
            async let error = failure { _ = try await connection.run(Self.sleep) }
            #expect(try await sleepers(1, seenBy: watcher))
            await connection.closeAndWait()
            #expect(await error?.kind == .connectionLost)
        }
    }

    /// If the cooperative threads were blocked, the sleeping sessions could not exceed their number.
    @Test func `blocked connections block no other task`() async throws {
        try await withConnection { watcher, database in
            let count = 4 * 8
            try await withThrowingTaskGroup(of: PostgresError?.self) { group in
                for _ in 0..<count {
                    group.addTask {
                        await failure {
                            let connection = try await database.connect()
                            _ = try await connection.run(Self.sleep)
                        }
                    }
                }
                #expect(try await sleepers(count, seenBy: watcher))
                group.cancelAll()
                for try await error in group { #expect(error?.kind == .cancelled) }
            }
        }
    }

    /// Waits until this many sessions of the database are asleep; returns whether they were.
    private func sleepers(_ count: Int, seenBy watcher: Connection) async throws -> Bool {
        try await eventually { try await watcher.run(Self.asleep).read(0, 0, as: Int64.self) == Int64(count) }
    }
}
