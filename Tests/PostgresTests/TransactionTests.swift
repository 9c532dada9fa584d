import Postgres
import TestSupport
import Testing

@Suite struct TransactionTests {
    private struct Refusal: Error {}

    private func withTable(
        settings: [(String, String)] = [],
        _ body: @Sendable (Pool) async throws -> Void
    ) async throws {
        let database = try await TestDatabase.make()
        let pool = Pool(configuration: ConnectionConfiguration(uri: database.uri, settings: settings), maximum: 4)
        _ = try await pool.run([query("CREATE TABLE t (id int PRIMARY KEY, n int)")])
        _ = try await pool.run([query("INSERT INTO t VALUES (1, 0), (2, 0)")])
        try await body(pool)
        await pool.close()
        try await database.close()
    }

    private static func raise(_ id: Int32) -> Query {
        query("UPDATE t SET n = n + 1 WHERE id = $1") { $0.add(id) }
    }

    /// Holds a number of tasks until the last one has arrived. Later arrivals are not held.
    private actor Meeting {
        private var missing: Int
        private var waiting: [CheckedContinuation<Void, Never>] = []
        init(of count: Int) { missing = count }
        func arrive() async {
            guard missing > 0 else { return }
            missing -= 1
            if missing == 0 {
                for continuation in waiting { continuation.resume() }
            } else {
                await withCheckedContinuation { waiting.append($0) }
            }
        }
    }

    @Test func `commits a whole transaction or nothing`() async throws {
        try await withTable { pool in
            try await pool.transaction { _ = try await $0.run(Self.raise(1)) }
            await #expect(throws: Refusal.self) {
                try await pool.transaction { connection in
                    _ = try await connection.run(Self.raise(1))
                    throw Refusal()
                }
            }
            let rows = try await pool.run([query("SELECT n FROM t WHERE id = 1")])
            #expect(try rows[0].read(0, 0, as: Int32.self) == 1)
        }
    }

    @Test func `retries after a deadlock`() async throws {
        try await withTable(settings: [("deadlock_timeout", "50ms")]) { pool in
            let meeting = Meeting(of: 2)
            let runs = Log<Void>()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (first, second) in [(Int32(1), Int32(2)), (2, 1)] {
                    group.addTask {
                        try await pool.transaction { connection in
                            runs.add(())
                            _ = try await connection.run(Self.raise(first))
                            await meeting.arrive()
                            _ = try await connection.run(Self.raise(second))
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(runs.elements.count > 2)
            let rows = try await pool.run([query("SELECT sum(n) FROM t")])
            #expect(try rows[0].read(0, 0, as: Int64.self) == 4)
        }
    }

    @Test func `retries after a serialization failure`() async throws {
        try await withTable(settings: [("default_transaction_isolation", "serializable")]) { pool in
            let meeting = Meeting(of: 2)
            let runs = Log<Void>()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        try await pool.transaction { connection in
                            runs.add(())
                            _ = try await connection.run(query("SELECT sum(n) FROM t"))
                            await meeting.arrive()
                            _ = try await connection.run(Self.raise(1))
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(runs.elements.count > 2)
            let rows = try await pool.run([query("SELECT n FROM t WHERE id = 1")])
            #expect(try rows[0].read(0, 0, as: Int32.self) == 2)
        }
    }

    @Test func `retries after a lock time-out until the attempts are used up`() async throws {
        try await withTable(settings: [("lock_timeout", "20ms")]) { pool in
            try await pool.withConnection { holder in
                _ = try await holder.run([.begin, Self.raise(1)])
                let runs = Log<Void>()
                let error = await failure {
                    try await pool.transaction(attempts: 3) { connection in
                        runs.add(())
                        _ = try await connection.run(Self.raise(1))
                    }
                }
                #expect(error?.sqlState == "55P03")
                #expect(error?.isRetryable == true)
                #expect(runs.elements.count == 3)
            }
        }
    }
}
