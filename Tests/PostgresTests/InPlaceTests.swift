import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Connections driven by their callers")
struct InPlaceTests {
    @Test func `queries, errors and transactions work as on other connections`() async throws {
        let database = try await TestDatabase.make()
        let connection = try Connection.openInPlace(ConnectionConfiguration(uri: database.uri))
        let answer: Int32 = try await connection.run(query("SELECT 1")).read(0, 0)
        #expect(answer == 1)
        let error = await failure { _ = try await connection.run(query("SELECT 1 / 0")) }
        #expect(error?.sqlState == "22012")
        try await connection.execute(script: "BEGIN; CREATE TABLE t ()")
        #expect(connection.isInTransaction)
        _ = try await connection.run(query("ROLLBACK"))
        #expect(!connection.isInTransaction)
        connection.close()
        #expect(!connection.isUsable)
        #expect(await failure { _ = try await connection.run(query("SELECT 1")) }?.kind == .connectionLost)
        await connection.closeAndWait()
        try await database.close()
    }

    @Test func `a call is cancelled, and ends at its time-out`() async throws {
        let database = try await TestDatabase.make()
        let connection = try Connection.openInPlace(ConnectionConfiguration(uri: database.uri))
        let sleep = query("SELECT pg_sleep(600)")
        #expect(
            await failure { _ = try await connection.run([sleep], timeout: .milliseconds(50)) }?.kind == .timedOut
        )
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await failure { _ = try await connection.run(sleep) }
        }
        #expect(await cancelled.value?.kind == .cancelled)
        let watcher = try await database.connect()
        let task = Task { await failure { _ = try await connection.run(sleep) } }
        let asleep = query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        #expect(try await eventually { try await watcher.run(asleep).read(0, 0, as: Int64.self) > 0 })
        task.cancel()
        #expect(await task.value?.kind == .cancelled)
        let answer: Int32 = try await connection.run(query("SELECT 1")).read(0, 0)
        #expect(answer == 1)
        connection.close()
        await watcher.closeAndWait()
        try await database.close()
    }

    @Test func `the next call notices a connection that the server closed`() async throws {
        let database = try await TestDatabase.make()
        let connection = try Connection.openInPlace(ConnectionConfiguration(uri: database.uri))
        let process: Int32 = try await connection.run(query("SELECT pg_backend_pid()")).read(0, 0)
        let other = try await database.connect()
        _ = try await other.run(query("SELECT pg_terminate_backend(\(process))"))
        #expect(
            try await eventually {
                let left = query("SELECT count(*) FROM pg_stat_activity WHERE pid = \(process)")
                return try await other.run(left).read(0, 0, as: Int64.self) == 0
            }
        )
        #expect(await failure { _ = try await connection.run(query("SELECT 1")) }?.isUnavailable == true)
        #expect(!connection.isUsable)
        await other.closeAndWait()
        try await database.close()
    }

    /// A crash in an earlier version: the starter named a thread that had ended.
    @Test func `a thread carries its name and may end before its starter continues`() async {
        for _ in 0..<2_000 {
            let name = await withCheckedContinuation { continuation in
                let hasStarted = DedicatedThread.start("short-lived") {
                    let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
                    continuation.resume(returning: name)
                }
                #expect(hasStarted)
            }
            #expect(name == "short-lived\n")
        }
    }
}
