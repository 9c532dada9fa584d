import TestSupport
import Testing

@testable import Postgres

/// A transaction with a guard does not commit if the value that the guard noted at its beginning has changed.
@Suite struct TransactionGuardTests {
    private func watched(_ database: TestDatabase) async throws -> Connection {
        var configuration = ConnectionConfiguration(uri: database.uri, statementTimeout: Waiting.limit)
        configuration.dialect = Dialect(
            detection: Statement("test_question", "SELECT true"),
            identity: Statement("test_identity", "SELECT ''"),
            settings: [],
            translation: { $0 },
            transactionGuard: Dialect.TransactionGuard(
                before: Statement("test_note", "SELECT set_config('test.place', max(n)::text, true) FROM places"),
                verify: Statement(
                    "test_check",
                    """
                    SELECT 1 / (coalesce(current_setting('test.place', true), '') IN ('', max(n)::text))::int FROM places
                    """
                )
            )
        )
        return try await Connection.open(configuration)
    }

    @Test func `a transaction during which the value changed is a serialization failure`() async throws {
        let database = try await TestDatabase.make()
        let other = try await database.connect()
        try await other.execute(
            script: "CREATE TABLE places (n int); INSERT INTO places VALUES (1); CREATE TABLE t (n int)"
        )
        let connection = try await watched(database)
        let insert = query("INSERT INTO t VALUES (1)")
        let count = query("SELECT count(*) FROM t")

        // the guard's statements add no results
        let results = try await connection.run([.begin, insert, count, .commit])
        #expect(results.count == 4)
        #expect(try results[2].read(0, 0, as: Int64.self) == 1)
        _ = try await connection.run([.begin, insert])
        _ = try await connection.run(.commit)
        #expect(try await other.run(count).read(0, 0, as: Int64.self) == 2)

        _ = try await connection.run(.begin)
        try await other.execute(script: "INSERT INTO places VALUES (2)")
        let error = await failure { _ = try await connection.run([insert, count, .commit]) }
        #expect(error?.sqlState == "40001")
        #expect(error?.isRetryable == true && error?.statementIndex == nil)
        _ = try await connection.run(.rollback)
        #expect(try await other.run(count).read(0, 0, as: Int64.self) == 2)
        // a new transaction sees the current state
        _ = try await connection.run([.begin, insert, .commit])
        #expect(try await other.run(count).read(0, 0, as: Int64.self) == 3)
        connection.close()
        other.close()
    }

    @Test func `other failures are reported unchanged, with their own statement`() async throws {
        let database = try await TestDatabase.make()
        let other = try await database.connect()
        try await other.execute(script: "CREATE TABLE places (n int); INSERT INTO places VALUES (1)")
        let connection = try await watched(database)
        let division = query("SELECT 1 / (SELECT count(*) FROM places WHERE n = 2)")
        let error = await failure { _ = try await connection.run([.begin, query("SELECT 1"), division, .commit]) }
        #expect(error?.sqlState == "22012")
        #expect(error?.statementIndex == 2)
        // a failed transaction is not committed, and reports no change of the value
        let end = await failure { _ = try await connection.run(.commit) }
        #expect(end?.sqlState == "25P02")
        _ = try await connection.run(.rollback)
        // without a transaction the guard notes and verifies nothing
        #expect(try await connection.run([query("SELECT 1")]).count == 1)
        connection.close()
        other.close()
    }
}
