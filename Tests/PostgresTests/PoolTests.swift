import Postgres
import TestSupport
import Testing

@Suite struct PoolTests {
    private func withPool<Value: Sendable>(
        maximum: Int = 8,
        acquireTimeout: Duration = .seconds(60),
        settings: [(String, String)] = [],
        _ body: @Sendable (Pool) async throws -> Value
    ) async throws -> Value {
        let database = try await TestDatabase.make()
        let pool = Pool(
            configuration: ConnectionConfiguration(uri: database.uri, settings: settings),
            maximum: maximum,
            acquireTimeout: acquireTimeout
        )
        let value = try await body(pool)
        await pool.close()
        try await database.close()
        return value
    }

    @Test func `many callers share few connections`() async throws {
        try await withPool(maximum: 3) { pool in
            try await withThrowingTaskGroup(of: Int32.self) { group in
                for n in 0..<200 {
                    group.addTask {
                        try await pool.run([query("SELECT $1") { $0.add(Int32(n)) }])[0].read(0, 0, as: Int32.self)
                    }
                }
                let sum = try await group.reduce(0, +)
                #expect(sum == 19900)
            }
            #expect(pool.statistics.open <= 3)
            #expect(pool.statistics.created <= 3)
            #expect(pool.statistics.waiting == 0)
        }
    }

    @Test func `a caller that gets no connection in time receives poolExhausted`() async throws {
        try await withPool(maximum: 1, acquireTimeout: .seconds(1)) { pool in
            try await pool.withConnection { _ in
                let error = await failure { _ = try await pool.run([query("SELECT 1")]) }
                #expect(error?.kind == .poolExhausted)
                #expect(error?.isUnavailable == true)
            }
            _ = try await pool.run([query("SELECT 1")])
        }
    }

    @Test func `callers are served in order of arrival`() async throws {
        try await withPool(maximum: 1) { pool in
            let order = Log<Int>()
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await pool.withConnection { _ in
                    for n in 0..<20 {
                        group.addTask { try await pool.withConnection { _ in order.add(n) } }
                        #expect(await eventually { pool.statistics.waiting == n + 1 })
                    }
                }
                try await group.waitForAll()
            }
            #expect(order.elements == Array(0..<20))
        }
    }

    @Test func `a cancelled caller leaves the line`() async throws {
        try await withPool(maximum: 1) { pool in
            try await pool.withConnection { _ in
                let task = Task { await failure { _ = try await pool.run([query("SELECT 1")]) } }
                #expect(await eventually { pool.statistics.waiting == 1 })
                task.cancel()
                #expect(await task.value?.kind == .cancelled)
                #expect(pool.statistics.waiting == 0)
            }
        }
    }

    @Test func `rolls back an open transaction, even of a cancelled task`() async throws {
        try await withPool(maximum: 1) { pool in
            _ = try await pool.run([query("CREATE TABLE t (n int)")])
            try await pool.withConnection { connection in
                _ = try await connection.run([.begin, query("INSERT INTO t VALUES (1)")])
            }
            let task = Task {
                try await pool.withConnection { connection in
                    _ = try await connection.run([.begin, query("INSERT INTO t VALUES (2)")])
                    withUnsafeCurrentTask { $0?.cancel() }
                }
            }
            try await task.value
            try await pool.withConnection { connection in #expect(!connection.isInTransaction) }
            let rows = try await pool.run([query("SELECT count(*) FROM t")])
            #expect(try rows[0].read(0, 0, as: Int64.self) == 0)
            #expect(pool.statistics.created == 1)
        }
    }

    @Test func `replaces a broken connection`() async throws {
        try await withPool(maximum: 1) { pool in
            let error = await failure {
                _ = try await pool.run([query("SELECT pg_terminate_backend(pg_backend_pid())")])
            }
            #expect(error?.isUnavailable == true)
            _ = try await pool.run([query("SELECT 1")])
            #expect(pool.statistics.open == 1)
            #expect(pool.statistics.created == 2)
        }
    }

    @Test func `after a change of the schema one call fails, and the pool continues`() async throws {
        try await withPool(maximum: 1) { pool in
            _ = try await pool.run([query("CREATE TABLE t AS SELECT 1 AS n")])
            _ = try await pool.run([query("SELECT * FROM t")])
            _ = try await pool.run([query("ALTER TABLE t ADD m int")])
            let error = await failure { _ = try await pool.run([query("SELECT * FROM t")]) }
            #expect(error?.sqlState == "0A000")
            let rows = try await pool.run([query("SELECT * FROM t")])
            #expect(try rows[0].read(0, 1, as: Int32?.self) == nil)
        }
    }

    @Test func `close waits for lent connections and refuses others`() async throws {
        let database = try await TestDatabase.make()
        let pool = Pool(configuration: ConnectionConfiguration(uri: database.uri), maximum: 2)
        _ = try await pool.run([query("SELECT 1")])
        let closing = try await pool.withConnection { connection in
            let closing = Task { await pool.close() }
            #expect(
                await eventually {
                    await failure { _ = try await pool.run([query("SELECT 1")]) }?.kind == .unavailable
                }
            )
            _ = try await connection.run(query("SELECT 1"))
            return closing
        }
        await closing.value
        #expect(pool.statistics.open == 0)
    }

    @Test func `the pool recovers when the server restarts`() async throws {
        let cluster = try await TestCluster.dedicated()
        let pool = Pool(
            configuration: ConnectionConfiguration(uri: cluster.uri()),
            maximum: 4,
            acquireTimeout: .milliseconds(300)
        )
        _ = try await pool.run([query("SELECT 1")])
        for immediate in [false, true] {
            try await cluster.stop(immediate: immediate)
            let down = await failure { _ = try await pool.run([query("SELECT 1")]) }
            #expect(down?.isUnavailable == true)
            // A long outage is reported immediately, except to the caller that makes the next attempt.
            try await Task.sleep(for: .milliseconds(400))
            let waited = pool.statistics.waited
            for _ in 0..<20 { _ = await failure { _ = try await pool.run([query("SELECT 1")]) } }
            #expect(pool.statistics.waited - waited < .seconds(3), "not each of twenty callers waits for its time-out")
            try await cluster.start()
            #expect(await eventually { await failure { _ = try await pool.run([query("SELECT 1")]) } == nil })
        }
        // A short outage causes only a delay.
        let patient = Pool(configuration: ConnectionConfiguration(uri: cluster.uri()), acquireTimeout: .seconds(120))
        try await cluster.kill()
        async let answer = patient.run([query("SELECT 1")])
        try await cluster.start()
        #expect(try await answer.count == 1)
        await patient.close()
        await pool.close()
        await cluster.close()
    }
}
